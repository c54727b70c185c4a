// `gimbal prepare`: text files -> a prepared folder (see token_source.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace gimbal::worker {

struct PrepareOptions {
  std::vector<std::string> inputs;  // read in order, joined without separator
  std::string tokenizer = "bytes";
  std::string out;               // folder to make; must not hold a corpus
  double valid_fraction = 0.05;  // the last part of the text is held out
};

struct PrepareResult {
  int64_t train_tokens = 0;
  int64_t valid_tokens = 0;
  int vocab = 0;
};

// Writes everything into `out` or nothing at all. A folder holds a corpus when
// it has a meta.json; what an interrupted attempt left is overwritten.
absl::StatusOr<PrepareResult> Prepare(const PrepareOptions& options);

}  // namespace gimbal::worker
