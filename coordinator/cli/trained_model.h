// The model of a run at a checkpoint, whole, for one sample at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "gimbal/v1/run_config.pb.h"
#include "worker/compute/aligned_buffer.h"
#include "worker/model/stage.h"

namespace gimbal::cli {

// Not thread-safe.
class TrainedModel {
 public:
  // Loads the newest good checkpoint of a run folder and prepares this thread
  // for computing. NOT_FOUND when there is none yet; a damaged one is passed
  // over with a warning on standard error.
  static absl::StatusOr<std::unique_ptr<TrainedModel>> Load(
      const std::string& run_dir);

  const v1::RunConfig& config() const { return config_; }
  int64_t update() const { return update_; }

  // tokens, targets: [context], ids below vocab.
  void Forward(std::span<const int32_t> tokens,
               std::span<const int32_t> targets);
  // Of the last Forward.
  double loss() const { return stage_.loss(*slot_); }
  // [vocab], at one position of the last Forward.
  std::span<const float> logits(int position) const;

 private:
  TrainedModel(v1::RunConfig config, int64_t update);

  v1::RunConfig config_;
  int64_t update_;
  worker::Stage<float> stage_;
  worker::Stage<float>::SlotPtr slot_;
  compute::AlignedBuffer<float> weights_;
};

}  // namespace gimbal::cli
