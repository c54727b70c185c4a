#include "common/io/file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/io/atomic_file.h"
#include "common/io/sha256.h"
#include "common/io/unique_fd.h"

namespace gimbal::io {
namespace {

constexpr size_t kChunkBytes = size_t{1} << 18;

// Hands the file to `consume` piece by piece.
absl::Status ReadInChunks(
    const std::string& path,
    const std::function<void(std::string_view)>& consume) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
  }
  const auto buffer = std::make_unique<char[]>(kChunkBytes);
  while (true) {
    const ssize_t got = read(fd.get(), buffer.get(), kChunkBytes);
    if (got == 0) return absl::OkStatus();
    if (got > 0) {
      consume({buffer.get(), static_cast<size_t>(got)});
    } else if (errno != EINTR) {
      return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path));
    }
  }
}

}  // namespace

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::string content;
  GIMBAL_RETURN_IF_ERROR(ReadInChunks(
      path, [&content](std::string_view piece) { content += piece; }));
  return content;
}

absl::Status WriteFileAtomically(const std::string& path,
                                 std::string_view content) {
  GIMBAL_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  GIMBAL_RETURN_IF_ERROR(file.Append(content));
  return file.Commit();
}

absl::Status MakeFolders(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  // create_directories reports success on a path that ends in a slash only by
  // its return value, so what counts is what is there afterwards.
  if (!error && !std::filesystem::is_directory(path, error) && !error) {
    error = std::make_error_code(std::errc::not_a_directory);
  }
  if (!error) return absl::OkStatus();
  return absl::ErrnoToStatus(error.value(),
                             absl::StrCat("cannot make the folder ", path));
}

absl::Status CheckWritable(const std::string& folder) {
  GIMBAL_RETURN_IF_ERROR(MakeFolders(folder));
  std::string probe = folder + "/.write-probe-XXXXXX";
  const UniqueFd fd(mkostemp(probe.data(), O_CLOEXEC));
  if (!fd.valid()) {
    return absl::ErrnoToStatus(
        errno, absl::StrCat("cannot write in the folder ", folder));
  }
  unlink(probe.c_str());
  return absl::OkStatus();
}

absl::StatusOr<std::string> Sha256OfFile(const std::string& path) {
  Sha256Stream hash;
  GIMBAL_RETURN_IF_ERROR(ReadInChunks(path, [&hash](std::string_view piece) {
    hash.Update(piece.data(), piece.size());
  }));
  return hash.Finish();
}

std::string Sha256(std::string_view content) {
  Sha256Stream hash;
  hash.Update(content.data(), content.size());
  return hash.Finish();
}

}  // namespace gimbal::io
