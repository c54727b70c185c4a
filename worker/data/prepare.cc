#include "worker/data/prepare.h"

#include <algorithm>
#include <filesystem>
#include <span>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/io/atomic_file.h"
#include "common/io/file.h"
#include "common/io/mapped_file.h"
#include "common/io/sha256.h"
#include "worker/data/corpus_meta.h"

namespace gimbal::worker {
namespace {

constexpr int kByteVocab = 256;
constexpr char kTrainFile[] = "train-00000.bin";
constexpr char kValidFile[] = "valid-00000.bin";

absl::Status CheckOptions(const PrepareOptions& options) {
  if (options.tokenizer != "bytes") {
    return absl::InvalidArgumentError(absl::StrCat(
        "unknown tokenizer '", options.tokenizer, "', expected bytes"));
  }
  if (!(options.valid_fraction >= 0.0 && options.valid_fraction < 1.0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("held-out share is ", options.valid_fraction,
                     ", expected at least 0 and below 1"));
  }
  if (options.inputs.empty()) {
    return absl::InvalidArgumentError("no input file given");
  }
  const std::string meta = absl::StrCat(options.out, "/", kCorpusMetaFile);
  std::error_code error;
  if (std::filesystem::exists(meta, error)) {
    return absl::AlreadyExistsError(absl::StrCat(
        meta, ": exists already; choose another folder or remove it"));
  }
  return absl::OkStatus();
}

// Bytes [begin, end) of the inputs as if they were one file.
// Returns their SHA-256.
absl::StatusOr<std::string> AppendRange(std::span<const io::MappedFile> inputs,
                                        int64_t begin, int64_t end,
                                        io::AtomicFile& out) {
  io::Sha256Stream hash;
  for (const io::MappedFile& input : inputs) {
    const auto size = static_cast<int64_t>(input.bytes().size());
    const int64_t first = std::clamp<int64_t>(begin, 0, size);
    const int64_t last = std::clamp<int64_t>(end, 0, size);
    GIMBAL_RETURN_IF_ERROR(
        out.Append(input.bytes().data() + first, last - first));
    hash.Update(input.bytes().data() + first,
                static_cast<size_t>(last - first));
    begin -= size;
    end -= size;
  }
  return hash.Finish();
}

// Files appear only once all of them are written; meta.json, without which the
// folder counts for nothing, is the last.
absl::Status WriteCorpus(std::span<const io::MappedFile> inputs,
                         const std::string& folder, CorpusMeta meta) {
  std::vector<io::AtomicFile> files;
  int64_t begin = 0;
  for (auto& [name, split] : meta.splits) {
    GIMBAL_ASSIGN_OR_RETURN(
        io::AtomicFile file,
        io::AtomicFile::Create(folder + "/" + split.files[0]));
    GIMBAL_ASSIGN_OR_RETURN(
        split.sha256.emplace_back(),
        AppendRange(inputs, begin, begin + split.tokens, file));
    begin += split.tokens;
    files.push_back(std::move(file));
  }
  for (io::AtomicFile& file : files) GIMBAL_RETURN_IF_ERROR(file.Commit());
  return io::WriteFileAtomically(folder + "/" + kCorpusMetaFile,
                                 CorpusMetaText(meta));
}

// Takes back what a failed attempt left.
void RemoveCorpus(const std::string& folder, bool with_folder) {
  std::error_code ignored;
  for (const char* name : {kCorpusMetaFile, kTrainFile, kValidFile}) {
    std::filesystem::remove(folder + "/" + name, ignored);
  }
  if (with_folder) std::filesystem::remove(folder, ignored);
}

}  // namespace

absl::StatusOr<PrepareResult> Prepare(const PrepareOptions& options) {
  GIMBAL_RETURN_IF_ERROR(CheckOptions(options));
  std::vector<io::MappedFile> inputs;
  int64_t tokens = 0;
  for (const std::string& path : options.inputs) {
    GIMBAL_ASSIGN_OR_RETURN(io::MappedFile input, io::MappedFile::Open(path));
    tokens += static_cast<int64_t>(input.bytes().size());
    inputs.push_back(std::move(input));
  }
  PrepareResult result{.vocab = kByteVocab};
  result.valid_tokens = static_cast<int64_t>(static_cast<double>(tokens) *
                                             options.valid_fraction);
  result.train_tokens = tokens - result.valid_tokens;
  if (tokens == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.inputs[0], ": the input is empty"));
  }

  CorpusMeta meta{.tokenizer = options.tokenizer,
                  .vocab = kByteVocab,
                  .dtype = TokenType::kU8,
                  .splits = {}};
  // "train" comes before "valid" in the map as it does in the text.
  meta.splits["train"] = {result.train_tokens, {kTrainFile}, {}};
  if (result.valid_tokens > 0) {
    meta.splits["valid"] = {result.valid_tokens, {kValidFile}, {}};
  }
  std::error_code error;
  const bool new_folder = !std::filesystem::exists(options.out, error);
  const absl::Status written = WriteCorpus(inputs, options.out, meta);
  if (!written.ok()) {
    RemoveCorpus(options.out, new_folder);
    return written;
  }
  return result;
}

}  // namespace gimbal::worker
