#include "coordinator/cli/eval.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "coordinator/cli/exit_code.h"
#include "coordinator/cli/format.h"
#include "coordinator/cli/trained_model.h"
#include "worker/data/token_source.h"
#include "worker/pipeline/specs.h"

namespace gimbal::cli {
namespace {

absl::Status Evaluate(const EvalOptions& options) {
  GIMBAL_ASSIGN_OR_RETURN(const std::unique_ptr<TrainedModel> model,
                          TrainedModel::Load(options.run_dir));
  const v1::RunConfig& config = model->config();
  const std::string path =
      options.data.empty() ? config.data().valid() : options.data;
  if (path.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        options.run_dir, ": the config has no data.valid; give --data"));
  }
  const int context = config.model().context();
  GIMBAL_ASSIGN_OR_RETURN(
      const std::unique_ptr<worker::TokenSource> data,
      worker::TokenSource::Open(path, worker::DataFormatOf(config), "valid",
                                config.model().vocab(), context,
                                config.data().tokenizer()));
  // Windows follow each other: the last target of one is the first token of
  // the next.
  const int64_t all = (data->size() - 1) / context;
  const int64_t count =
      options.windows > 0 ? std::min(options.windows, all) : all;
  std::vector<int32_t> tokens(context + 1);
  const std::span<const int32_t> span(tokens);
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    data->Read(i * context, context + 1, tokens.data());
    model->Forward(span.first(context), span.last(context));
    sum += model->loss();
  }
  const double loss = sum / static_cast<double>(count);
  std::printf(
      "update      %ld\ndata        %s\ntokens      %s\nloss        %.6f\n"
      "perplexity  %.4f\n",
      static_cast<long>(model->update()), path.c_str(),
      FormatCount(count * context).c_str(), loss, std::exp(loss));
  return absl::OkStatus();
}

}  // namespace

int RunEval(const EvalOptions& options) {
  const absl::Status status = Evaluate(options);
  return status.ok() ? kDone : Fail(status);
}

}  // namespace gimbal::cli
