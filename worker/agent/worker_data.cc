#include "worker/agent/worker_data.h"

#include <utility>

#include "common/base/status_macros.h"
#include "worker/pipeline/specs.h"

namespace gimbal::worker {
namespace {

absl::StatusOr<std::unique_ptr<TokenSource>> OpenSplit(
    const v1::RunConfig& config, const std::string& path, const char* split) {
  return TokenSource::Open(path, DataFormatOf(config), split,
                           config.model().vocab(), config.model().context(),
                           config.data().tokenizer());
}

std::unique_ptr<BatchSampler> Sampler(const v1::RunConfig& config,
                                      const TokenSource& tokens, bool shuffle) {
  return std::make_unique<BatchSampler>(tokens, config.model().context(),
                                        config.batch().microbatch(),
                                        config.run().seed(), shuffle);
}

}  // namespace

absl::Status WorkerData::Open(const v1::RunConfig& config) {
  const std::string text = config.SerializeAsString();
  if (opened == text) return absl::OkStatus();
  WorkerData fresh;
  fresh.opened = text;
  GIMBAL_ASSIGN_OR_RETURN(fresh.train_tokens,
                          OpenSplit(config, config.data().train(), "train"));
  fresh.train = Sampler(config, *fresh.train_tokens, config.data().shuffle());
  if (!config.data().valid().empty()) {
    GIMBAL_ASSIGN_OR_RETURN(fresh.valid_tokens,
                            OpenSplit(config, config.data().valid(), "valid"));
    // In order: an evaluation reads the same windows each time.
    fresh.valid = Sampler(config, *fresh.valid_tokens, /*shuffle=*/false);
  }
  *this = std::move(fresh);
  return absl::OkStatus();
}

}  // namespace gimbal::worker
