// One line of metrics.jsonl: what all stages together know of one update.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gimbal::coordinator {

struct MetricsRow {
  int64_t step = 0;  // update number
  double loss = 0;   // may be NaN where the minibatch is left out; likewise
                     // grad_norm
  double lr = 0;
  double grad_norm = 0;  // over all stages, before clipping
  int64_t tokens = 0;    // since the start of the run
  double seconds = 0;    // of training; the only value that depends on time
  std::vector<int64_t> staleness;    // per stage, measured
  std::optional<double> valid_loss;  // when evaluated at this update
  std::string left_out;    // why the minibatch had no effect; empty: it had
  std::string not_finite;  // what is; empty: nothing. Not stored
  // Per stage, of its worst basis; 0 where it has none; empty: no stage has
  // one. Not stored.
  std::vector<double> offdiagonal_ratios;
};

}  // namespace gimbal::coordinator
