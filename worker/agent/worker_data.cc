#include "worker/agent/worker_data.h"

#include "common/base/status_macros.h"
#include "worker/pipeline/specs.h"

namespace gimbal::worker {

absl::Status WorkerData::Open(const v1::RunConfig& config) {
  const int vocab = config.model().vocab();
  const int context = config.model().context();
  const int microbatch = config.batch().microbatch();
  GIMBAL_ASSIGN_OR_RETURN(
      train_tokens,
      TokenSource::Open(config.data().train(), DataFormatOf(config), "train",
                        vocab, context));
  train = std::make_unique<BatchSampler>(*train_tokens, context, microbatch,
                                         config.run().seed(),
                                         config.data().shuffle());
  if (config.data().valid().empty()) return absl::OkStatus();
  GIMBAL_ASSIGN_OR_RETURN(
      valid_tokens,
      TokenSource::Open(config.data().valid(), DataFormatOf(config), "valid",
                        vocab, context));
  // In order: an evaluation reads the same windows each time.
  valid = std::make_unique<BatchSampler>(*valid_tokens, context, microbatch,
                                         config.run().seed(),
                                         /*shuffle=*/false);
  return absl::OkStatus();
}

}  // namespace gimbal::worker
