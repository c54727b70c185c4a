// A whole pipeline in one process without coordinator: stages on worker
// threads, joined by in-process links within a worker and by TCP links on
// loopback between workers, as in a real cluster. For tests of what the numbers
// depend on.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "worker/data/batch_sampler.h"
#include "worker/pipeline/executor.h"
#include "worker/pipeline/stage_runner.h"
#include "worker/transport/device_links.h"

namespace gimbal::test_support {

// Random token ids.
std::unique_ptr<worker::TokenSource> RandomTokens(int64_t count, int vocab,
                                                  uint64_t seed);

struct PipelineOptions {
  worker::ModelSpec model{.layers = 4,
                          .hidden = 16,
                          .heads = 2,
                          .context = 8,
                          .vocab = 19,
                          .mlp_hidden = 64};
  worker::ScheduleSpec schedule;
  worker::OptimizerSpec optimizer{.kind =
                                      worker::OptimizerKind::kBasisRotation};
  worker::LrSpec lr{.peak = 1e-2, .warmup = 3, .steps = 20};
  double clip = 1.0;
  worker::MitigationSpec mitigation;
  compute::WireFormat wire = compute::WireFormat::kFp32;
  worker::EngineFactory engine = worker::MakeCpuEngine;
  worker::DeviceLinks links;  // of the engine's back end
  int refresh_period = 5;
  int microbatch = 3;
  uint64_t seed = 7;
  double init_std = 0.3;
  int workers = 1;
  int64_t updates = 12;
  // Updates of the whole run when it should stop earlier, at `updates`; 0:
  // equal.
  int64_t fed_updates = 0;
  std::map<int64_t, worker::CutActions> cuts;
  std::vector<std::pair<int64_t, int64_t>> left_out;  // first and last update
  // The gradient of this update of this stage is NaN.
  int64_t poisoned_update = 0;
  int poisoned_stage = 0;
  int eval_batches = 2;
  // Restart from the snapshots below this folder, taken at this update.
  std::string checkpoint_root;
  int64_t start = 0;
  // Called on the worker's thread after every update of a stage, for tests that
  // want to disturb it or make it slow.
  std::function<void(const worker::UpdateReport&)> on_update;
};

struct PipelineResult {
  absl::Status status;
  std::map<int64_t, double> losses;                   // by update
  std::map<int64_t, double> evaluations;              // by update
  std::map<int64_t, std::vector<double>> squares;     // by update, per stage
  std::map<int64_t, std::vector<int64_t>> staleness;  // by update, per stage
  std::map<std::string, std::vector<float>> weights;  // by name, newest version

  bool SameNumbers(const PipelineResult& other) const;
};

// The blocks of each stage, as even as possible.
std::vector<worker::StageSpec> SplitEvenly(const worker::ModelSpec& model,
                                           int stages, int microbatch);

PipelineResult RunPipeline(const PipelineOptions& options);

}  // namespace gimbal::test_support
