// Runs the real programs of this build from a test.
#pragma once

#include <string>

namespace gimbal::e2e {

struct Outcome {
  int code = -1;       // exit code, 128 + N for signal N
  std::string output;  // both streams
};

// Path of a program of this build (variable GIMBAL_BIN_DIR, set by ctest).
std::string Program(const std::string& name);

// Runs `gimbal ARGS` in a shell, in `dir`, and waits for it.
Outcome Gimbal(const std::string& dir, const std::string& args);

// Number of processes whose current folder is `dir`: those started there.
int ProcessesIn(const std::string& dir);

// Writes text to train on, and CONFIG.yaml for a model of 4 small blocks in
// as many stages that reads it; `extra` is appended to the config.
void WriteCorpusAndConfig(const std::string& dir, int steps,
                          const std::string& extra = "");

// The rows of DIR/metrics.jsonl without `seconds`, the only value that may
// differ between runs that agree.
std::string MetricsWithoutSeconds(const std::string& run_dir);

}  // namespace gimbal::e2e
