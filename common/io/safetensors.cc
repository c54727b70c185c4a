#include "common/io/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/io/atomic_file.h"
#include "common/io/mapped_file.h"
#include "common/io/safetensors_header.h"
#include "common/io/sha256.h"

namespace gimbal::io {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr uint64_t kPrefixBytes = 8;  // length of the header
// The format's own limit.
constexpr uint64_t kMaxHeaderBytes = 100'000'000;
// Hashed and written piece by piece, so that a piece is hashed in cache.
constexpr size_t kChunkBytes = size_t{1} << 20;

absl::Status InvalidFile(const std::string& path, const absl::Status& why) {
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": not a usable safetensors file: ", why.message()));
}

// Hands bytes on and hashes them.
struct HashedSink {
  const FileSink& sink;
  Sha256Stream hash;
  int64_t bytes = 0;

  absl::Status Append(const void* data, size_t count) {
    const char* next = static_cast<const char*>(data);
    while (count > 0) {
      const size_t piece = std::min(count, kChunkBytes);
      hash.Update(next, piece);
      GIMBAL_RETURN_IF_ERROR(sink(next, piece));
      next += piece;
      count -= piece;
      bytes += static_cast<int64_t>(piece);
    }
    return absl::OkStatus();
  }
};

}  // namespace

absl::StatusOr<WrittenFile> FormatSafetensors(
    const std::string& path, std::span<const TensorView> tensors,
    const std::map<std::string, std::string>& metadata, const FileSink& sink) {
  const auto header = FormatSafetensorsHeader(tensors, metadata);
  if (!header.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", header.status().message()));
  }
  HashedSink out{.sink = sink, .hash = {}};
  const uint64_t header_bytes = header->size();
  GIMBAL_RETURN_IF_ERROR(out.Append(&header_bytes, kPrefixBytes));
  GIMBAL_RETURN_IF_ERROR(out.Append(header->data(), header->size()));
  for (const TensorView& tensor : tensors) {
    GIMBAL_ASSIGN_OR_RETURN(const uint64_t bytes, TensorBytes(tensor.shape));
    GIMBAL_RETURN_IF_ERROR(out.Append(tensor.data, bytes));
  }
  return WrittenFile{.bytes = out.bytes, .sha256 = out.hash.Finish()};
}

absl::StatusOr<WrittenFile> WriteSafetensors(
    const std::string& path, std::span<const TensorView> tensors,
    const std::map<std::string, std::string>& metadata,
    const std::function<absl::Status()>& may_write) {
  GIMBAL_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  GIMBAL_ASSIGN_OR_RETURN(
      WrittenFile written,
      FormatSafetensors(path, tensors, metadata,
                        [&](const void* data, size_t bytes) {
                          return file.Append(data, bytes);
                        }));
  if (may_write != nullptr) GIMBAL_RETURN_IF_ERROR(may_write());
  GIMBAL_RETURN_IF_ERROR(file.Commit());
  return written;
}

struct SafetensorsFile::Impl {
  std::string path;
  std::optional<MappedFile> file;
  std::string content;  // without a file
  SafetensorsHeader header;
  std::unordered_map<std::string_view, const TensorEntry*> by_name;
  std::span<const uint8_t> data;
};

absl::StatusOr<SafetensorsFile> SafetensorsFile::Open(const std::string& path) {
  auto impl = std::make_unique<Impl>();
  impl->path = path;
  GIMBAL_ASSIGN_OR_RETURN(impl->file, MappedFile::Open(path));
  return Parse(std::move(impl));
}

absl::StatusOr<SafetensorsFile> SafetensorsFile::FromContent(
    std::string path, std::string content) {
  auto impl = std::make_unique<Impl>();
  impl->path = std::move(path);
  impl->content = std::move(content);
  return Parse(std::move(impl));
}

absl::StatusOr<SafetensorsFile> SafetensorsFile::Parse(
    std::unique_ptr<Impl> impl) {
  const std::string& path = impl->path;
  std::span<const uint8_t> bytes(
      reinterpret_cast<const uint8_t*>(impl->content.data()),
      impl->content.size());
  if (impl->file) bytes = impl->file->bytes();
  if (bytes.size() < kPrefixBytes) {
    return InvalidFile(path, absl::InvalidArgumentError(absl::StrCat(
                                 "only ", bytes.size(), " bytes long")));
  }
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes.data(), kPrefixBytes);
  const uint64_t rest = bytes.size() - kPrefixBytes;
  if (header_bytes > std::min(rest, kMaxHeaderBytes)) {
    return InvalidFile(path,
                       absl::InvalidArgumentError(absl::StrCat(
                           "header of ", header_bytes, " bytes in a file of ",
                           bytes.size(), " (limit ", kMaxHeaderBytes, ")")));
  }
  const auto* text = reinterpret_cast<const char*>(bytes.data() + kPrefixBytes);
  auto header =
      ParseSafetensorsHeader({text, header_bytes}, rest - header_bytes);
  if (!header.ok()) return InvalidFile(path, header.status());
  impl->header = *std::move(header);
  impl->data = bytes.subspan(kPrefixBytes + header_bytes);
  for (const TensorEntry& tensor : impl->header.tensors) {
    impl->by_name.emplace(tensor.name, &tensor);
  }
  return SafetensorsFile(std::move(impl));
}

SafetensorsFile::SafetensorsFile(std::unique_ptr<Impl> impl)
    : impl_(std::move(impl)) {}
SafetensorsFile::SafetensorsFile(SafetensorsFile&&) noexcept = default;
SafetensorsFile& SafetensorsFile::operator=(SafetensorsFile&&) noexcept =
    default;
SafetensorsFile::~SafetensorsFile() = default;

std::vector<std::string> SafetensorsFile::names() const {
  std::vector<std::string> names;
  for (const TensorEntry& tensor : impl_->header.tensors) {
    names.push_back(tensor.name);
  }
  return names;
}

const std::map<std::string, std::string>& SafetensorsFile::metadata() const {
  return impl_->header.metadata;
}

absl::Status SafetensorsFile::Read(const std::string& name,
                                   std::span<const int64_t> shape,
                                   float* out) const {
  const auto found = impl_->by_name.find(name);
  if (found == impl_->by_name.end()) {
    return absl::NotFoundError(absl::StrCat(impl_->path, ": no tensor ", name));
  }
  const TensorEntry& tensor = *found->second;
  if (!std::ranges::equal(tensor.shape, shape)) {
    return absl::InvalidArgumentError(
        absl::StrCat(impl_->path, ": tensor ", name, " has shape ",
                     ShapeText(tensor.shape), ", expected ", ShapeText(shape)));
  }
  const uint64_t bytes = tensor.end - tensor.begin;
  if (bytes > 0) std::memcpy(out, impl_->data.data() + tensor.begin, bytes);
  return absl::OkStatus();
}

}  // namespace gimbal::io
