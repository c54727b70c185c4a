#include "worker/checkpoint/stage_snapshot.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/io/checkpoint_layout.h"

namespace gimbal::worker {
namespace {

std::vector<int64_t> ShapeOf(const Param& param) {
  if (param.group == ParamGroup::kVector) return {param.cols};
  return {param.rows, param.cols};
}

int64_t SizeOf(const std::vector<int64_t>& shape) {
  int64_t size = 1;
  for (const int64_t side : shape) size *= side;
  return size;
}

// Opens files of a checkpoint when they are first asked for.
class Files {
 public:
  explicit Files(std::string folder) : folder_(std::move(folder)) {}

  absl::Status Read(const std::string& file, const std::string& name,
                    const std::vector<int64_t>& shape, float* out) {
    auto it = open_.find(file);
    if (it == open_.end()) {
      GIMBAL_ASSIGN_OR_RETURN(
          io::SafetensorsFile opened,
          io::SafetensorsFile::Open(absl::StrCat(folder_, "/", file)));
      it = open_.emplace(file, std::move(opened)).first;
    }
    return it->second.Read(name, shape, out);
  }

 private:
  const std::string folder_;
  std::map<std::string, io::SafetensorsFile> open_;
};

}  // namespace

void StageSnapshot::Add(std::string file, std::string name,
                        std::vector<int64_t> shape, const float* data) {
  const auto size = static_cast<size_t>(SizeOf(shape));
  tensors_.push_back({std::move(file), std::move(name), std::move(shape),
                      static_cast<int64_t>(memory_.size())});
  memory_.insert(memory_.end(), data, data + size);
}

void StageSnapshot::Copy(int64_t update, const StageState& state) {
  update_ = update;
  tensors_.clear();
  memory_.clear();
  const WeightStash& stash = state.stash;
  int64_t elements =
      state.table.parameter_count() * (update - stash.oldest() + 1);
  for (const StateTensor<float>& tensor : state.optimizer->State()) {
    elements += tensor.rows * tensor.cols;
  }
  memory_.reserve(static_cast<size_t>(elements));
  for (const Param& param : state.table.params()) {
    Add(io::LayerFile(param.layer), param.name, ShapeOf(param),
        stash.Get(update) + param.offset);
  }
  for (int64_t version = stash.oldest(); version < update; ++version) {
    for (const Param& param : state.table.params()) {
      Add(io::StashFile(param.layer), io::StashTensorName(version, param.name),
          ShapeOf(param), stash.Get(version) + param.offset);
    }
  }
  for (const StateTensor<float>& tensor : state.optimizer->State()) {
    Add(io::OptimizerFile(tensor.layer), tensor.name,
        {tensor.rows, tensor.cols}, tensor.data);
  }
}

absl::StatusOr<std::vector<SnapshotFile>> StageSnapshot::Write(
    const std::string& folder) const {
  std::map<std::string, std::vector<io::TensorView>> by_file;
  for (const Tensor& tensor : tensors_) {
    by_file[tensor.file].push_back(
        {tensor.name, tensor.shape, memory_.data() + tensor.offset});
  }
  const std::map<std::string, std::string> metadata = {
      {"update", std::to_string(update_)}};
  std::vector<SnapshotFile> files;
  for (const auto& [file, tensors] : by_file) {
    GIMBAL_ASSIGN_OR_RETURN(
        io::WrittenFile written,
        io::WriteSafetensors(absl::StrCat(folder, "/", file), tensors,
                             metadata));
    files.push_back({file, std::move(written)});
  }
  return files;
}

absl::Status LoadStage(const std::string& folder, int64_t update,
                       StageState* state) {
  Files files(folder);
  WeightStash& stash = state->stash;
  // The versions that are live right after `update`, oldest first.
  const int64_t oldest = std::max<int64_t>(0, update - stash.versions() + 1);
  for (int64_t version = oldest; version <= update; ++version) {
    float* weights = stash.SlotFor(version);
    for (const Param& param : state->table.params()) {
      const bool newest = version == update;
      GIMBAL_RETURN_IF_ERROR(files.Read(
          newest ? io::LayerFile(param.layer) : io::StashFile(param.layer),
          newest ? param.name : io::StashTensorName(version, param.name),
          ShapeOf(param), weights + param.offset));
    }
    stash.Publish(version);
  }
  for (const StateTensor<float>& tensor : state->optimizer->State()) {
    GIMBAL_RETURN_IF_ERROR(files.Read(io::OptimizerFile(tensor.layer),
                                      tensor.name, {tensor.rows, tensor.cols},
                                      tensor.data));
  }
  return absl::OkStatus();
}

}  // namespace gimbal::worker
