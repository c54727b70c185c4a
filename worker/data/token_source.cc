#include "worker/data/token_source.h"

#include <algorithm>
#include <bit>
#include <filesystem>
#include <limits>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/io/mapped_file.h"
#include "worker/data/corpus_meta.h"

namespace gimbal::worker {
namespace {

static_assert(std::endian::native == std::endian::little);

// Ids of type T in one or more mapped files, one after the other.
template <typename T>
class MappedTokens final : public TokenSource {
 public:
  // Requires file sizes that are multiples of T.
  explicit MappedTokens(std::vector<io::MappedFile> files)
      : files_(std::move(files)) {
    int64_t end = 0;
    for (const io::MappedFile& file : files_) {
      end += static_cast<int64_t>(IdsOf(file).size());
      ends_.push_back(end);
    }
  }

  int64_t size() const override { return ends_.empty() ? 0 : ends_.back(); }

  void Read(int64_t begin, int64_t count, int32_t* out) const override {
    GIMBAL_CHECK(begin >= 0 && count >= 0 && begin <= size() - count);
    size_t file = std::ranges::upper_bound(ends_, begin) - ends_.begin();
    while (count > 0) {
      const std::span<const T> ids = IdsOf(files_[file]);
      const int64_t first = begin - (ends_[file] - std::ssize(ids));
      const int64_t piece = std::min(count, ends_[file] - begin);
      out = std::copy_n(ids.data() + first, piece, out);
      begin += piece;
      count -= piece;
      ++file;
    }
  }

  absl::Status CheckIds(int vocab) const {
    const auto limit = static_cast<uint32_t>(vocab);
    if (limit > std::numeric_limits<T>::max()) return absl::OkStatus();
    for (const io::MappedFile& file : files_) {
      GIMBAL_RETURN_IF_ERROR(CheckFile(file, static_cast<T>(limit)));
    }
    return absl::OkStatus();
  }

 private:
  static std::span<const T> IdsOf(const io::MappedFile& file) {
    return {reinterpret_cast<const T*>(file.bytes().data()),
            file.bytes().size() / sizeof(T)};
  }

  static absl::Status CheckFile(const io::MappedFile& file, T limit) {
    // The largest id of a block is one vectorised loop; only a block that has a
    // bad id is searched for it.
    constexpr size_t kBlock = 1 << 14;
    const std::span<const T> ids = IdsOf(file);
    for (size_t begin = 0; begin < ids.size(); begin += kBlock) {
      const auto block =
          ids.subspan(begin, std::min(kBlock, ids.size() - begin));
      T largest = 0;
      for (const T id : block) largest = std::max(largest, id);
      if (largest < limit) continue;
      const size_t bad =
          begin +
          (std::ranges::find_if(block, [limit](T id) { return id >= limit; }) -
           block.begin());
      return absl::InvalidArgumentError(absl::StrCat(
          file.path(), ": token id ", ids[bad], " at byte offset ",
          bad * sizeof(T), " (token ", bad, ") is not below the vocabulary (",
          limit, "); set model.vocab or prepare the data again"));
    }
    return absl::OkStatus();
  }

  std::vector<io::MappedFile> files_;
  std::vector<int64_t> ends_;  // token after the last one of each file
};

template <typename T>
absl::StatusOr<std::unique_ptr<TokenSource>> Checked(
    std::vector<io::MappedFile> files, const std::string& path, int vocab,
    int context) {
  for (const io::MappedFile& file : files) {
    if (file.bytes().size() % sizeof(T) != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(file.path(), ": ", file.bytes().size(),
                       " bytes are no whole number of ids of ", sizeof(T),
                       " bytes (truncated?)"));
    }
  }
  auto source = std::make_unique<MappedTokens<T>>(std::move(files));
  if (source->size() <= context) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": ",
        source->size() == 0 ? "is empty"
                            : absl::StrCat("holds ", source->size(), " tokens"),
        ", expected more than model.context (", context, ")"));
  }
  GIMBAL_RETURN_IF_ERROR(source->CheckIds(vocab));
  return source;
}

absl::StatusOr<std::unique_ptr<TokenSource>> OpenText(const std::string& path,
                                                      int vocab, int context) {
  GIMBAL_ASSIGN_OR_RETURN(io::MappedFile file, io::MappedFile::Open(path));
  std::vector<io::MappedFile> files;
  files.push_back(std::move(file));
  return Checked<uint8_t>(std::move(files), path, vocab, context);
}

// A text made into ids by one tokenizer means nothing to a model of another.
absl::Status CheckTokenizer(const CorpusMeta& meta, const std::string& folder,
                            const std::string& tokenizer, int vocab) {
  const std::string path = absl::StrCat(folder, "/", kCorpusMetaFile);
  if (meta.tokenizer != tokenizer) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": made with tokenizer '", meta.tokenizer,
                     "', but data.tokenizer is '", tokenizer,
                     "'; set data.tokenizer or prepare the data again"));
  }
  if (meta.vocab > vocab) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": its tokenizer has ", meta.vocab, " ids, but model.vocab is ",
        vocab, "; set model.vocab to at least ", meta.vocab));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<TokenSource>> OpenPrepared(
    const std::string& folder, const std::string& split, int vocab, int context,
    const std::string& tokenizer) {
  GIMBAL_ASSIGN_OR_RETURN(const CorpusMeta meta, ReadCorpusMeta(folder));
  GIMBAL_RETURN_IF_ERROR(CheckTokenizer(meta, folder, tokenizer, vocab));
  const auto found = meta.splits.find(split);
  if (found == meta.splits.end()) {
    return absl::InvalidArgumentError(absl::StrCat(
        folder, "/", kCorpusMetaFile, ": has no split \"", split, "\""));
  }
  std::vector<io::MappedFile> files;
  uint64_t bytes = 0;
  for (const std::string& name : found->second.files) {
    GIMBAL_ASSIGN_OR_RETURN(io::MappedFile file,
                            io::MappedFile::Open(folder + "/" + name));
    bytes += file.bytes().size();
    files.push_back(std::move(file));
  }
  const uint64_t width = meta.dtype == TokenType::kU8    ? 1
                         : meta.dtype == TokenType::kU16 ? 2
                                                         : 4;
  const std::string path = folder + " (" + split + ")";
  if (bytes / width != static_cast<uint64_t>(found->second.tokens)) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": the files hold ", bytes / width, " tokens, ", kCorpusMetaFile,
        " says ", found->second.tokens, "; prepare the data again"));
  }
  if (width == 1) {
    return Checked<uint8_t>(std::move(files), path, vocab, context);
  }
  if (width == 2) {
    return Checked<uint16_t>(std::move(files), path, vocab, context);
  }
  return Checked<uint32_t>(std::move(files), path, vocab, context);
}

}  // namespace

absl::StatusOr<std::unique_ptr<TokenSource>> TokenSource::Open(
    const std::string& path, DataFormat format, const std::string& split,
    int vocab, int context, const std::string& tokenizer) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) {
    return absl::NotFoundError(absl::StrCat(path, ": no such file or folder"));
  }
  const bool folder = std::filesystem::is_directory(status);
  if (format == DataFormat::kText) {
    if (!folder) return OpenText(path, vocab, context);
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": is a folder, but data.format: text reads a file; a folder ",
        "made by `gimbal prepare` needs data.format: tokens"));
  }
  if (folder) return OpenPrepared(path, split, vocab, context, tokenizer);
  return absl::InvalidArgumentError(absl::StrCat(
      path, ": is a file, but data.format: tokens reads a folder made by ",
      "`gimbal prepare`; a text file needs data.format: text"));
}

}  // namespace gimbal::worker
