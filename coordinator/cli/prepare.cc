#include "coordinator/cli/prepare.h"

#include <cstdio>

#include "coordinator/cli/exit_code.h"
#include "coordinator/cli/format.h"

namespace gimbal::cli {

int RunPrepare(const worker::PrepareOptions& options) {
  const absl::StatusOr<worker::PrepareResult> result = worker::Prepare(options);
  if (!result.ok()) return Fail(result.status());
  std::printf(
      "%s: %s training tokens, %s held out, vocabulary %d\n"
      "in a config: data: {train: %s, valid: %s, format: tokens}\n",
      options.out.c_str(), FormatCount(result->train_tokens).c_str(),
      FormatCount(result->valid_tokens).c_str(), result->vocab,
      options.out.c_str(), options.out.c_str());
  return kDone;
}

}  // namespace gimbal::cli
