// How a device divides the state of a stage's optimizer: what it updates at
// once, what of it comes and goes together when the state lies on the host, and
// how much memory that takes. Free of CUDA, so that memory is planned where
// there is none. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "worker/model/parameter_table.h"
#include "worker/optim/optimizer.h"

namespace gimbal::worker {

// Neighbouring parameters that are updated element by element.
struct UpdateRun {
  int64_t begin = 0, end = 0;  // in an arena
  int64_t state = 0;           // where its moments begin, in elements
  bool matrices = false;
};

// Bytes of the state, all units one after the other.
struct StateExtent {
  int64_t offset = 0, bytes = 0;
};

// Runs, or equal matrices that one rule updates as a batch.
struct UpdateUnit {
  std::vector<UpdateRun> runs;  // `state`: within an extent
  std::vector<const Param*> matrices;
  int64_t of_shape = 0;  // matrices of that shape in all units
  // Runs: first and second moments. Matrices: what every update changes, then
  // the bases, which a refresh does. The second one may be empty.
  std::array<StateExtent, 2> state;

  bool updates_matrices() const { return !matrices.empty(); }
  // Where the unit lies in a window: extents at multiples of 256 bytes.
  int64_t second_in_window() const;
  int64_t window_bytes() const;
};

// Parameters that are updated as matrices.
bool UpdatesAsMatrix(const OptimizerSpec& spec, const Param& param);

// The parameters' state on the host (`spec.offload`), or with a unit for all of
// the runs and one per shape of matrices: then it stays where it is.
struct UpdateUnits {
  UpdateUnits(const OptimizerSpec& spec, const ParameterTable& table);

  // Of the state without gaps but for alignment; health is not part of it.
  int64_t state_bytes = 0;
  // On the device with offload: units take turns in two windows.
  std::array<int64_t, 2> window_bytes{};
  std::vector<UpdateUnit> units;
};

// The most that a unit's state has with offload, unless it is one matrix: small
// enough that two of them are little beside all of it, large enough that a copy
// is worth its start.
inline constexpr int64_t kUnitShare = 8;  // of the state
inline constexpr int64_t kUnitBytes = int64_t{256} << 20;

// Bytes of a matrix in each of a unit's extents.
std::array<int64_t, 2> MatrixStateBytes(const OptimizerSpec& spec,
                                        const Param& param);

}  // namespace gimbal::worker
