#include "worker/pipeline/cuda/update_units.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include "worker/compute/cuda/scratch.h"
#include "worker/optim/basis_rotation.h"

namespace gimbal::worker {
namespace {

using compute::cuda::BatchStride;

// Of extents, at home and in a window: products find them aligned alike.
int64_t Aligned(int64_t bytes) { return (bytes + 255) / 256 * 256; }

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

int64_t Moments(const OptimizerSpec& spec) {
  return spec.kind == OptimizerKind::kSgd ? 1 : 2;
}

// Padding between parameters stays zero whatever rule goes over it.
std::vector<UpdateRun> RunsOf(const OptimizerSpec& spec,
                              const ParameterTable& table) {
  std::vector<UpdateRun> runs;
  bool adjacent = false;
  for (const Param& p : table.params()) {
    if (UpdatesAsMatrix(spec, p)) {
      adjacent = false;
      continue;
    }
    const bool matrix = p.group == ParamGroup::kMatrix;
    if (!adjacent || runs.back().matrices != matrix) {
      runs.push_back({.begin = p.offset, .matrices = matrix});
      adjacent = true;
    }
    runs.back().end = p.offset + p.size();
  }
  return runs;
}

// Of both moments, `state` and `offset` among the units of runs.
std::vector<UpdateUnit> UnitsOfRuns(const std::vector<UpdateRun>& runs,
                                    int64_t most) {
  std::vector<UpdateUnit> units;
  int64_t room = 0, state = 0;
  for (UpdateRun run : runs) {
    while (run.begin < run.end) {
      if (room == 0) {
        units.emplace_back();
        units.back().state[0].offset = state * 4;
        room = most;
      }
      UpdateRun part = run;
      part.end = std::min(run.end, run.begin + std::min(room, most));
      part.state = state - units.back().state[0].offset / 4;
      units.back().runs.push_back(part);
      const int64_t taken = BatchStride(part.end - part.begin);
      state += taken;
      room -= std::min(room, taken);
      units.back().state[0].bytes = state * 4 - units.back().state[0].offset;
      run.begin = part.end;
    }
  }
  return units;
}

std::vector<UpdateUnit> UnitsOfMatrices(const OptimizerSpec& spec,
                                        const ParameterTable& table,
                                        int64_t most_bytes) {
  using Key = std::tuple<ParamGroup, int64_t, int64_t>;
  std::map<Key, std::vector<const Param*>> shapes;
  std::vector<Key> order;  // of their first parameters
  for (const Param& p : table.params()) {
    if (!UpdatesAsMatrix(spec, p)) continue;
    const Key key(p.group, p.rows, p.cols);
    if (shapes[key].empty()) order.push_back(key);
    shapes[key].push_back(&p);
  }
  std::vector<UpdateUnit> units;
  for (const Key& key : order) {
    const std::vector<const Param*>& all = shapes[key];
    const auto [changing, bases] = MatrixStateBytes(spec, *all.front());
    const auto most = static_cast<size_t>(
        std::max<int64_t>(1, most_bytes / (changing + bases)));
    for (size_t begin = 0; begin < all.size();) {
      const size_t end = begin + std::min(most, all.size() - begin);
      UpdateUnit unit;
      for (; begin < end; ++begin) unit.matrices.push_back(all[begin]);
      unit.of_shape = static_cast<int64_t>(all.size());
      const auto count = static_cast<int64_t>(unit.matrices.size());
      unit.state[0].bytes = count * changing;
      unit.state[1].bytes = count * bases;
      units.push_back(std::move(unit));
    }
  }
  return units;
}

std::vector<UpdateUnit> Divide(const OptimizerSpec& spec,
                               const ParameterTable& table, int64_t most_bytes,
                               int64_t* state_bytes) {
  const int64_t per_element = 4 * Moments(spec);
  const int64_t most_elements =
      std::max<int64_t>(64, most_bytes / per_element / 64 * 64);
  std::vector<UpdateUnit> units =
      UnitsOfRuns(RunsOf(spec, table), most_elements);
  int64_t bytes = 0;
  for (const UpdateUnit& unit : units) bytes += unit.state[0].bytes;
  if (Moments(spec) == 2) {
    for (UpdateUnit& unit : units) {
      unit.state[1] = {bytes + unit.state[0].offset, unit.state[0].bytes};
    }
    bytes *= 2;
  }
  for (UpdateUnit& unit : UnitsOfMatrices(spec, table, most_bytes)) {
    for (StateExtent& extent : unit.state) {
      extent.offset = bytes;
      bytes += Aligned(extent.bytes);
    }
    units.push_back(std::move(unit));
  }
  *state_bytes = bytes;
  return units;
}

}  // namespace

int64_t UpdateUnit::second_in_window() const { return Aligned(state[0].bytes); }

int64_t UpdateUnit::window_bytes() const {
  return second_in_window() + state[1].bytes;
}

bool UpdatesAsMatrix(const OptimizerSpec& spec, const Param& param) {
  switch (spec.kind) {
    case OptimizerKind::kBasisRotation:
      return SidesToRotate(spec.rotation, param).any();
    case OptimizerKind::kMuon:
      return param.group == ParamGroup::kMatrix;
    default:
      return false;
  }
}

std::array<int64_t, 2> MatrixStateBytes(const OptimizerSpec& spec,
                                        const Param& param) {
  const int64_t moment = 4 * BatchStride(param.size());
  if (spec.kind == OptimizerKind::kMuon) return {moment, 0};
  const RotatedSides sides = SidesToRotate(spec.rotation, param);
  int64_t squares = 0;
  if (sides.left) squares += BatchStride(param.rows * param.rows);
  if (sides.right) squares += BatchStride(param.cols * param.cols);
  const bool statistics = spec.rotation.source == RotationSource::kSecond;
  return {2 * moment + (statistics ? 4 * squares : 0),
          (spec.rotation.half_basis ? 2 : 4) * squares};
}

UpdateUnits::UpdateUnits(const OptimizerSpec& spec, const ParameterTable& table)
    : units(Divide(spec, table, kUnlimited, &state_bytes)) {
  if (!spec.offload) return;
  units = Divide(spec, table, std::min(state_bytes / kUnitShare, kUnitBytes),
                 &state_bytes);
  for (size_t i = 0; i < units.size(); ++i) {
    window_bytes[i % 2] =
        std::max(window_bytes[i % 2], units[i].window_bytes());
  }
}

}  // namespace gimbal::worker
