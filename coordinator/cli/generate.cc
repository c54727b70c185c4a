#include "coordinator/cli/generate.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/random.h"
#include "common/base/status_macros.h"
#include "coordinator/cli/exit_code.h"
#include "coordinator/cli/trained_model.h"

namespace gimbal::cli {
namespace {

absl::StatusOr<std::vector<int32_t>> Encode(const std::string& prompt,
                                            int vocab) {
  if (prompt.empty()) {
    return absl::InvalidArgumentError(
        "--prompt: is empty; give at least one character to go on from");
  }
  std::vector<int32_t> tokens;
  for (const char c : prompt) {
    tokens.push_back(static_cast<unsigned char>(c));
    if (tokens.back() >= vocab) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--prompt: byte ", tokens.back(), " at position ", tokens.size() - 1,
          " is beyond the model's vocabulary of ", vocab));
    }
  }
  return tokens;
}

absl::Status Generate(const GenerateOptions& options) {
  GIMBAL_ASSIGN_OR_RETURN(const std::unique_ptr<TrainedModel> model,
                          TrainedModel::Load(options.run_dir));
  const v1::ModelSection& spec = model->config().model();
  GIMBAL_ASSIGN_OR_RETURN(std::vector<int32_t> text,
                          Encode(options.prompt, spec.vocab()));
  std::printf("%s", options.prompt.c_str());
  const auto context = static_cast<size_t>(spec.context());
  const std::vector<int32_t> targets(context, 0);  // the loss is not used
  std::vector<int32_t> window(context);
  const uint64_t stream = base::StreamOf("generate");
  for (int i = 0; i < options.tokens; ++i) {
    // The newest tokens that fit; what stands behind them does not matter,
    // because attention is causal.
    const size_t length = std::min(text.size(), context);
    std::copy(text.end() - static_cast<ptrdiff_t>(length), text.end(),
              window.begin());
    model->Forward(window, targets);
    text.push_back(SampleToken(model->logits(static_cast<int>(length) - 1),
                               options.sampling,
                               base::RandomBits(options.seed, stream, i)));
    std::putchar(text.back());
    std::fflush(stdout);
  }
  std::printf("\n");
  return absl::OkStatus();
}

}  // namespace

int RunGenerate(const GenerateOptions& options) {
  const absl::Status status = Generate(options);
  return status.ok() ? kDone : Fail(status);
}

}  // namespace gimbal::cli
