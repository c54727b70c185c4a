#include "coordinator/cli/data_check.h"

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/data/batch_sampler.h"
#include "worker/data/token_source.h"
#include "worker/pipeline/specs.h"

namespace gimbal::cli {
namespace {

// With more batches than there are an evaluation would count samples twice.
absl::Status CheckEvaluation(const v1::RunConfig& config, int64_t tokens) {
  const int batch = config.batch().microbatch();
  const int64_t held = worker::BatchSampler::Microbatches(
      tokens, config.model().context(), batch);
  if (config.eval().batches() <= held) return absl::OkStatus();
  const std::string found =
      absl::StrCat("eval.batches: ", config.eval().batches(), ", but ",
                   config.data().valid(), " holds ", held, " microbatches of ",
                   batch, " samples of ", config.model().context(), " tokens");
  return absl::InvalidArgumentError(
      held > 0 ? absl::StrCat(found, "; set eval.batches to ", held,
                              " or less, or hold out more data")
               : absl::StrCat(found,
                              "; hold out more data, or leave data.valid out"));
}

}  // namespace

absl::Status CheckData(const v1::RunConfig& config, bool resume) {
  const v1::DataSection& data = config.data();
  const auto open = [&](const std::string& path, const char* split) {
    return worker::TokenSource::Open(
        path, worker::DataFormatOf(config), split, config.model().vocab(),
        config.model().context(), data.tokenizer());
  };
  GIMBAL_RETURN_IF_ERROR(open(data.train(), "train").status());
  if (data.valid().empty()) return absl::OkStatus();
  GIMBAL_ASSIGN_OR_RETURN(const std::unique_ptr<worker::TokenSource> valid,
                          open(data.valid(), "valid"));
  return resume ? absl::OkStatus() : CheckEvaluation(config, valid->size());
}

}  // namespace gimbal::cli
