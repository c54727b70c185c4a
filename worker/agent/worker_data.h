// The corpus as the first and the last stage of the pipeline read it.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "gimbal/v1/run_config.pb.h"
#include "worker/data/batch_sampler.h"
#include "worker/data/token_source.h"

namespace gimbal::worker {

struct WorkerData {
  std::unique_ptr<TokenSource> train_tokens, valid_tokens;
  std::unique_ptr<BatchSampler> train, valid;  // valid: null without such data

  // Opens the data of a config. What is open already stays so, unread: a worker
  // checks every id once, not at every assignment.
  absl::Status Open(const v1::RunConfig& config);

  std::string opened;  // the config it was opened for; empty: none
};

}  // namespace gimbal::worker
