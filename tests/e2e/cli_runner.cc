#include "tests/e2e/cli_runner.h"

#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <sstream>

namespace gimbal::e2e {
namespace {

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

std::string Program(const std::string& name) {
  const char* dir = std::getenv("GIMBAL_BIN_DIR");
  return std::string(dir == nullptr ? "." : dir) + "/" + name;
}

Outcome Gimbal(const std::string& dir, const std::string& args) {
  const std::string command =
      "cd " + dir + " && " + Program("gimbal") + " " + args + " 2>&1";
  Outcome outcome;
  FILE* pipe = popen(command.c_str(), "r");
  char buffer[4096];
  for (size_t n; (n = std::fread(buffer, 1, sizeof(buffer), pipe)) > 0;) {
    outcome.output.append(buffer, n);
  }
  const int status = pclose(pipe);
  outcome.code =
      WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return outcome;
}

int ProcessesIn(const std::string& dir) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::error_code error;  // no process, ended, or not ours
    if (std::filesystem::read_symlink(entry.path() / "cwd", error) == dir) {
      ++count;
    }
  }
  return count;
}

void WriteCorpusAndConfig(const std::string& dir, int steps,
                          const std::string& extra) {
  std::ofstream text(dir + "/corpus.txt");
  for (int i = 0; i < 2000; ++i) text << "line " << i * i % 977 << " of it\n";
  std::ofstream(dir + "/c.yaml")
      << "run: {name: small, steps: " << steps << "}\n"
      << "data: {train: corpus.txt, valid: corpus.txt, format: text}\n"
      << "model: {layers: 4, hidden: 16, heads: 2, context: 16}\n"
      << "batch: {microbatch: 2}\n"
      << "pipeline: {stages: 4}\n"
      << "eval: {every: 20, batches: 2}\n"
      << extra;
}

std::string MetricsWithoutSeconds(const std::string& run_dir) {
  static const std::regex kSeconds(R"("seconds":[^,}]*)");
  std::istringstream rows(ReadAll(run_dir + "/metrics.jsonl"));
  std::string result;
  for (std::string row; std::getline(rows, row);) {
    result += std::regex_replace(row, kSeconds, "") + "\n";
  }
  return result;
}

}  // namespace gimbal::e2e
