// What a stage will hold in memory, from the config alone: nothing of it is
// filled. `gimbal plan` shows it; a test compares it with what a worker grows
// by.
#pragma once

#include <cstdint>

#include "gimbal/v1/control_service.pb.h"
#include "gimbal/v1/run_config.pb.h"

namespace gimbal::worker {

// Bytes, unless the name says otherwise.
struct StageMemory {
  int64_t parameters = 0;  // number of them
  int64_t weights = 0;     // all versions
  int weight_versions = 0;
  int64_t gradients = 0;
  int64_t optimizer = 0;    // moments, bases, scratch
  int64_t offloaded = 0;    // of the moments and bases, on the host instead
  int64_t activations = 0;  // minibatches in flight, scratch
  int activation_slots = 0;
  int64_t messages = 0;  // buffers of the edges
  int64_t snapshot = 0;  // host copy for a checkpoint
  // Snapshots in memory, of the stage or as many as large of another one for
  // which its worker is the backup: the last that counts and the next, of both.
  int64_t kept = 0;

  int64_t total() const {
    return weights + gradients + optimizer + offloaded + activations +
           messages + snapshot + kept;
  }
};

// Requires a config that passed config::LoadRunConfig.
StageMemory PlanStage(const v1::RunConfig& config,
                      const v1::StagePlacement& placement);

}  // namespace gimbal::worker
