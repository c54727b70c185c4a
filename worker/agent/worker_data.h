// The corpus as the first and the last stage of the pipeline read it.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "gimbal/v1/run_config.pb.h"
#include "worker/data/batch_sampler.h"
#include "worker/data/token_source.h"

namespace gimbal::worker {

struct WorkerData {
  std::unique_ptr<TokenSource> train_tokens, valid_tokens;
  std::unique_ptr<BatchSampler> train, valid;  // valid: null without such data

  absl::Status Open(const v1::RunConfig& config);
};

}  // namespace gimbal::worker
