// Token ids of a corpus, mapped into memory: a text file read as bytes, or a
// folder made by `gimbal prepare`.
//
// A prepared folder holds `meta.json` ({"format":1,"tokenizer":"bytes",
// "vocab":256,"dtype":"u8"|"u16"|"u32","splits":{"train":{"tokens":N,
// "files":["train-00000.bin"],"sha256":["..."]},"valid":{...}}}) and
// little-endian id files.
// Thread-safe after Open.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace gimbal::worker {

enum class DataFormat { kText, kTokens };

class TokenSource {
 public:
  virtual ~TokenSource() = default;
  // Opens `path`: for kText a file; for kTokens a prepared folder, whose
  // `split` ("train" or "valid") is used. Checks that the folder was made with
  // `tokenizer` (data.tokenizer) and for no more than `vocab` ids, that every
  // id is below `vocab` (the error names file, offset and id) and that there
  // are more than `context` tokens. Reads everything: open a corpus once.
  static absl::StatusOr<std::unique_ptr<TokenSource>> Open(
      const std::string& path, DataFormat format, const std::string& split,
      int vocab, int context, const std::string& tokenizer = "bytes");

  virtual int64_t size() const = 0;
  // Copies tokens [begin, begin + count) to out. Requires the range to exist.
  virtual void Read(int64_t begin, int64_t count, int32_t* out) const = 0;
};

}  // namespace gimbal::worker
