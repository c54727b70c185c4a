// meta.json of a prepared folder (see token_source.h): read, checked, written.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace gimbal::worker {

inline constexpr char kCorpusMetaFile[] = "meta.json";

enum class TokenType { kU8, kU16, kU32 };

struct SplitMeta {
  int64_t tokens = 0;
  std::vector<std::string> files;  // names inside the folder, in order
  // Of each file; empty in folders of earlier releases.
  std::vector<std::string> sha256;
};

struct CorpusMeta {
  std::string tokenizer;
  int64_t vocab = 0;
  TokenType dtype = TokenType::kU8;
  std::map<std::string, SplitMeta> splits;
};

// NOT_FOUND when the folder has no meta.json, INVALID_ARGUMENT when it is
// malformed; both name the file. File names that leave the folder are refused.
absl::StatusOr<CorpusMeta> ReadCorpusMeta(const std::string& folder);

std::string CorpusMetaText(const CorpusMeta& meta);

}  // namespace gimbal::worker
