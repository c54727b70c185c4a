#include "worker/checkpoint/stage_snapshot.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/io/checkpoint_layout.h"
#include "worker/compute/isa.h"
#include "worker/optim/kernels.h"

namespace gimbal::worker {
namespace {

std::vector<int64_t> ShapeOf(const Param& param) {
  if (param.group == ParamGroup::kVector) return {param.cols};
  return {param.rows, param.cols};
}

int64_t Elements(const std::vector<int64_t>& shape) {
  int64_t size = 1;
  for (const int64_t side : shape) size *= side;
  return size;
}

// Reads a tensor of this file, name and shape.
using ReadTensor =
    std::function<absl::Status(const std::string& file, const std::string& name,
                               const std::vector<int64_t>& shape, float* out)>;

// Opens files of a checkpoint when they are first asked for.
class Files {
 public:
  Files(CheckpointStore& store, int64_t update)
      : store_(store), update_(update) {}

  absl::StatusOr<const io::SafetensorsFile*> Open(const std::string& file) {
    auto it = open_.find(file);
    if (it == open_.end()) {
      GIMBAL_ASSIGN_OR_RETURN(io::SafetensorsFile opened,
                              store_.Open(update_, file));
      it = open_.emplace(file, std::move(opened)).first;
    }
    return &it->second;
  }

  absl::Status Read(const std::string& file, const std::string& name,
                    const std::vector<int64_t>& shape, float* out) {
    GIMBAL_ASSIGN_OR_RETURN(const io::SafetensorsFile* opened, Open(file));
    return opened->Read(name, shape, out);
  }

 private:
  CheckpointStore& store_;
  const int64_t update_;
  std::map<std::string, io::SafetensorsFile> open_;
};

// The tensors of a snapshot, which must outlive this.
class Tensors {
 public:
  explicit Tensors(const StageSnapshot& snapshot) : snapshot_(snapshot) {
    for (const SnapshotTensor& tensor : snapshot.tensors()) {
      by_name_[{tensor.file, tensor.name}] = &tensor;
    }
  }

  absl::Status Read(const std::string& file, const std::string& name,
                    const std::vector<int64_t>& shape, float* out) {
    const auto found = by_name_.find({file, name});
    if (found == by_name_.end() || found->second->shape != shape) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the snapshot of update ", snapshot_.update(), " in memory has ",
          found == by_name_.end() ? "no tensor " : "another shape of tensor ",
          name, " of ", file));
    }
    std::copy_n(snapshot_.values().data() + found->second->offset,
                Elements(shape), out);
    return absl::OkStatus();
  }

 private:
  const StageSnapshot& snapshot_;
  std::map<std::pair<std::string, std::string>, const SnapshotTensor*> by_name_;
};

// Oldest version that a forward in flight at the cut may have used.
int64_t OldestToSave(int64_t update, const StageState& state) {
  return std::max(state.spec().schedule.origin,
                  update - state.stash().versions() + 1);
}

// The run goes over to other stages at this cut: its files were written by
// stages with other delays, and nothing is in flight.
bool GoesOver(int64_t update, const StageState& state) {
  const int64_t origin = state.spec().schedule.origin;
  return origin > 0 && update == origin;
}

absl::Status ReadWeights(const ReadTensor& read, int64_t version, bool newest,
                         float* arena, StageState* state) {
  std::vector<float> values;
  for (const Param& param : state->table().params()) {
    values.resize(static_cast<size_t>(param.size()));
    GIMBAL_RETURN_IF_ERROR(
        read(newest ? io::LayerFile(param.layer) : io::StashFile(param.layer),
             newest ? param.name : io::StashTensorName(version, param.name),
             ShapeOf(param), values.data()));
    state->engine().Write(values.data(), param.size(), arena + param.offset);
  }
  return absl::OkStatus();
}

// A mitigation's own state begins at zero where the layer had no delay so far.
absl::Status ReadUpdateState(const ReadTensor& read, bool goes_over,
                             StageState* state) {
  for (const StateTensor<float>& tensor : state->engine().State()) {
    std::vector<float> values(static_cast<size_t>(tensor.size()));
    const absl::Status status =
        read(io::OptimizerFile(tensor.layer), tensor.name,
             {tensor.rows, tensor.cols}, values.data());
    if (goes_over && tensor.of_delay && absl::IsNotFound(status)) continue;
    GIMBAL_RETURN_IF_ERROR(status);
    state->engine().Load(values.data(), tensor);
  }
  return absl::OkStatus();
}

absl::Status ReadInFlight(const ReadTensor& read, int64_t update,
                          StageState* state) {
  if (state->in_flight.empty()) return absl::OkStatus();
  const StageStateSpec& spec = state->spec();
  // A cut is followed by further updates, else nobody would read it.
  const MicrobatchRange range = InFlightAfter(
      spec.schedule, spec.index, update, update + spec.schedule.stages + 1);
  for (int64_t j = range.first; j < range.end; ++j) {
    auto& slot =
        state->in_flight[static_cast<size_t>(j) % state->in_flight.size()];
    std::vector<float> values(slot.values.size());
    GIMBAL_RETURN_IF_ERROR(
        read(io::InFlightFile(spec.index), io::InFlightTensorName(j),
             {static_cast<int64_t>(slot.values.size())}, values.data()));
    state->engine().Write(values.data(), static_cast<int64_t>(values.size()),
                          slot.values.data());
    slot.microbatch = j;
  }
  return absl::OkStatus();
}

absl::Status Load(const ReadTensor& read, int64_t update, StageState* state) {
  WeightStash& stash = state->stash();
  const bool goes_over = GoesOver(update, *state);
  // As at update 0, the first forwards of new stages use the weights as they
  // are: predictions were made for other delays.
  const bool predicted = state->predicts() && !goes_over;
  const int64_t end = predicted ? update + 1 : update;
  for (int64_t version = OldestToSave(update, *state); version < end;
       ++version) {
    GIMBAL_RETURN_IF_ERROR(
        ReadWeights(read, version, false, stash.SlotFor(version), state));
    stash.Publish(version);
  }
  GIMBAL_RETURN_IF_ERROR(
      ReadWeights(read, update, true, state->newest_to_fill(update), state));
  if (state->predicts() && goes_over) {
    state->engine().Copy(state->newest(), state->table().size(),
                         stash.SlotFor(update));
  }
  if (!predicted) stash.Publish(update);
  GIMBAL_RETURN_IF_ERROR(ReadUpdateState(read, goes_over, state));
  GIMBAL_RETURN_IF_ERROR(ReadInFlight(read, update, state));
  state->Restored();
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<StageSnapshot> StageSnapshot::WithTensors(
    int64_t update, std::vector<SnapshotTensor> tensors) {
  // More than any machine has: what comes over the network may ask for
  // anything.
  constexpr int64_t kMost = int64_t{1} << 37;
  int64_t size = 0;
  for (SnapshotTensor& tensor : tensors) {
    int64_t elements = 1;
    for (const int64_t side : tensor.shape) {
      if (side < 0) {
        return absl::InvalidArgumentError(
            absl::StrCat(tensor.file, ", ", tensor.name, ": not a shape"));
      }
      if (side > 0 && elements > kMost / side) throw std::bad_alloc();
      elements *= side;
    }
    tensor.offset = size;
    if (elements > kMost - size) throw std::bad_alloc();
    size += elements;
  }
  StageSnapshot snapshot;
  snapshot.update_ = update;
  snapshot.tensors_ = std::move(tensors);
  snapshot.memory_.Reset(compute::HeapMemory(), size);
  snapshot.memory_.Add(size);
  return snapshot;
}

float* StageSnapshot::Add(std::string file, std::string name,
                          std::vector<int64_t> shape) {
  const int64_t offset = memory_.size();
  float* const values = memory_.Add(Elements(shape));
  tensors_.push_back(
      {std::move(file), std::move(name), std::move(shape), offset});
  return values;
}

void StageSnapshot::AddWeights(int64_t version, const float* arena, bool newest,
                               const StageState& state) {
  for (const Param& param : state.table().params()) {
    float* out =
        newest ? Add(io::LayerFile(param.layer), param.name, ShapeOf(param))
               : Add(io::StashFile(param.layer),
                     io::StashTensorName(version, param.name), ShapeOf(param));
    state.engine().Read(arena + param.offset, param.size(), out);
  }
}

// Elements, so that memory grows once.
int64_t StageSnapshot::SizeOf(const StageState& state) const {
  const WeightStash& stash = state.stash();
  const int64_t arenas =
      stash.newest() - stash.oldest() + 1 + (state.predicts() ? 1 : 0);
  int64_t size = state.table().parameter_count() * arenas;
  for (const auto& tensor : state.engine().State()) size += tensor.size();
  for (const auto& slot : state.in_flight) {
    if (slot.microbatch >= 0) size += static_cast<int64_t>(slot.values.size());
  }
  return size;
}

void StageSnapshot::Copy(int64_t update, const StageState& state) {
  update_ = update;
  tensors_.clear();
  memory_.Reset(state.engine().host_memory(), SizeOf(state));
  const WeightStash& stash = state.stash();
  AddWeights(update, state.newest(), true, state);
  // Forwards use predicted weights of the newest version too.
  const int64_t end = state.predicts() ? update + 1 : update;
  for (int64_t version = OldestToSave(update, state); version < end;
       ++version) {
    AddWeights(version, stash.Get(version), false, state);
  }
  for (const StateTensor<float>& tensor : state.engine().State()) {
    state.engine().Save(tensor, Add(io::OptimizerFile(tensor.layer),
                                    tensor.name, {tensor.rows, tensor.cols}));
  }
  for (const auto& slot : state.in_flight) {
    if (slot.microbatch < 0) continue;
    const auto size = static_cast<int64_t>(slot.values.size());
    state.engine().Read(slot.values.data(), size,
                        Add(io::InFlightFile(state.spec().index),
                            io::InFlightTensorName(slot.microbatch), {size}));
  }
}

// Weights are watched by the run's guards; a moment may overflow unseen.
absl::Status StageSnapshot::CheckFinite(const SnapshotTensor& tensor) const {
  if (compute::Kernels<OptimKernels<float>>().all_finite(
          Elements(tensor.shape), values().data() + tensor.offset)) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      tensor.file, ": ", tensor.name, " holds a number that is not finite"));
}

absl::StatusOr<std::vector<SnapshotFile>> StageSnapshot::Write(
    CheckpointStore& store) const {
  std::map<std::string, std::vector<io::TensorView>> by_file;
  for (const SnapshotTensor& tensor : tensors_) {
    GIMBAL_RETURN_IF_ERROR(CheckFinite(tensor));
    by_file[tensor.file].push_back(
        {tensor.name, tensor.shape, values().data() + tensor.offset});
  }
  std::vector<SnapshotFile> files;
  for (const auto& [file, tensors] : by_file) {
    GIMBAL_ASSIGN_OR_RETURN(io::WrittenFile written,
                            store.Write(update_, file, tensors));
    files.push_back({file, std::move(written)});
  }
  return files;
}

absl::Status LoadStage(CheckpointStore& store, int64_t update,
                       StageState* state) {
  Files files(store, update);
  return Load(std::bind_front(&Files::Read, &files), update, state);
}

absl::Status LoadStage(const StageSnapshot& snapshot, StageState* state) {
  Tensors tensors(snapshot);
  return Load(std::bind_front(&Tensors::Read, &tensors), snapshot.update(),
              state);
}

}  // namespace gimbal::worker
