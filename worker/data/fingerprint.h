// What tells two corpora apart: a short text that depends on the contents of
// the files alone, so that data may move but not change under a run.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "worker/data/token_source.h"

namespace gimbal::worker {

// Files above this size are hashed in part: their size and 256 blocks of 1 MiB,
// evenly spaced from the first byte to the last. An edit that keeps the size
// and misses every block is not seen.
inline constexpr int64_t kWholeHashBytes = int64_t{256} << 20;

// Of the file, or of one split of a prepared folder: of the hashes that
// meta.json says, and of the sampled blocks of files too large to be hashed
// again. INVALID_ARGUMENT when a file is not what meta.json says it was.
absl::StatusOr<std::string> DataFingerprint(const std::string& path,
                                            DataFormat format,
                                            const std::string& split);

// "SIZE bytes, sha256 HEX", or "SIZE bytes, sampled sha256 HEX" for a file
// larger than `whole_bytes`.
absl::StatusOr<std::string> FileFingerprint(
    const std::string& path, int64_t whole_bytes = kWholeHashBytes);

}  // namespace gimbal::worker
