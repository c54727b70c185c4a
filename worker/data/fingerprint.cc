#include "worker/data/fingerprint.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/io/mapped_file.h"
#include "common/io/sha256.h"
#include "worker/data/corpus_meta.h"

namespace gimbal::worker {
namespace {

constexpr int64_t kBlockBytes = int64_t{1} << 20;
constexpr int64_t kBlocks = 256;

std::string HashText(int64_t bytes, const char* kind, const std::string& hash) {
  return absl::StrCat(bytes, " bytes, ", kind, " ", hash);
}

}  // namespace

absl::StatusOr<std::string> FileFingerprint(const std::string& path,
                                            int64_t whole_bytes) {
  GIMBAL_ASSIGN_OR_RETURN(const io::MappedFile file,
                          io::MappedFile::Open(path));
  const auto* data = file.bytes().data();
  const auto size = static_cast<int64_t>(file.bytes().size());
  io::Sha256Stream hash;
  if (size <= whole_bytes) {
    hash.Update(data, static_cast<size_t>(size));
    return HashText(size, "sha256", hash.Finish());
  }
  const int64_t length = std::min(kBlockBytes, size);
  for (int64_t block = 0; block < kBlocks; ++block) {
    // Not (size - length) * block: that could overflow.
    const int64_t begin = (size - length) / (kBlocks - 1) * block;
    hash.Update(data + (block + 1 < kBlocks ? begin : size - length),
                static_cast<size_t>(length));
  }
  return HashText(size, "sampled sha256", hash.Finish());
}

absl::StatusOr<std::string> DataFingerprint(const std::string& path,
                                            DataFormat format,
                                            const std::string& split) {
  if (format == DataFormat::kText) {
    GIMBAL_ASSIGN_OR_RETURN(const std::string file, FileFingerprint(path));
    return absl::StrCat("text of ", file);
  }
  GIMBAL_ASSIGN_OR_RETURN(const CorpusMeta meta, ReadCorpusMeta(path));
  const auto found = meta.splits.find(split);
  if (found == meta.splits.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": has no split '", split,
                     "'; prepare the data again with held-out text"));
  }
  std::string text = absl::StrCat(found->second.tokens, " tokens");
  for (size_t i = 0; i < found->second.files.size(); ++i) {
    const std::string file = absl::StrCat(path, "/", found->second.files[i]);
    GIMBAL_ASSIGN_OR_RETURN(std::string now, FileFingerprint(file));
    now = now.substr(now.find(", ") + 2);
    const bool told = i < found->second.sha256.size();
    const std::string then =
        told ? absl::StrCat("sha256 ", found->second.sha256[i]) : now;
    if (told && now.starts_with("sha256") && now != then) {
      return absl::InvalidArgumentError(
          absl::StrCat(file, ": has changed since it was prepared (", now,
                       "; meta.json says ", then, "): prepare the data again"));
    }
    absl::StrAppend(&text, ", ", then);
    if (now.starts_with("sampled") && told) absl::StrAppend(&text, ", ", now);
  }
  return text;
}

}  // namespace gimbal::worker
