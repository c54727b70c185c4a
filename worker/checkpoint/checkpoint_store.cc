#include "worker/checkpoint/checkpoint_store.h"

#include "absl/strings/str_cat.h"
#include "common/io/checkpoint_layout.h"

namespace gimbal::worker {

std::map<std::string, std::string> MetadataOf(int64_t update) {
  return {{"update", std::to_string(update)}};
}

std::string SharedFolder::PathOf(int64_t update,
                                 const std::string& file) const {
  return absl::StrCat(root_, "/", io::StepFolderName(update), "/", file);
}

absl::StatusOr<io::WrittenFile> SharedFolder::Write(
    int64_t update, const std::string& file,
    std::span<const io::TensorView> tensors) {
  return io::WriteSafetensors(PathOf(update, file), tensors, MetadataOf(update),
                              may_write_);
}

absl::StatusOr<io::SafetensorsFile> SharedFolder::Open(
    int64_t update, const std::string& file) {
  return io::SafetensorsFile::Open(PathOf(update, file));
}

}  // namespace gimbal::worker
