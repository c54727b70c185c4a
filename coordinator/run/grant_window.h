// How many updates the grants run ahead of the slowest stage. Pure: time is an
// argument; not thread-safe.
//
// About one second of training, so that a pause or a checkpoint asked for now
// takes effect soon, but never so few that a stage waits for a grant: the
// window doubles whenever one has used it up. Its size changes no number of the
// run, only how soon a decision takes effect.
#pragma once

#include <cstdint>
#include <deque>

#include "common/base/clock.h"

namespace gimbal::coordinator {

class GrantWindow {
 public:
  // The least size is 2 P + 2: the stages of a pipeline of P are up to P
  // updates apart.
  explicit GrantWindow(int stages);

  // The stages start (again) from one cut.
  void Restart();
  // `slowest` is the newest update that every stage has reported; `used_up`
  // says that some stage has reached the end of what is granted.
  void Observe(int64_t slowest, bool used_up, base::SteadyTime now);

  int64_t size() const { return size_; }

 private:
  struct Sample {
    base::SteadyTime time;
    int64_t update;
  };

  const int64_t least_;
  int64_t size_;
  double updates_per_second_ = 0;  // over the last seconds; 0: unknown
  std::deque<Sample> samples_;
};

}  // namespace gimbal::coordinator
