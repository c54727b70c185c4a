// How fast a run trains: the one rate from which its speed and the time left
// are told. Pure; not thread-safe.
//
// It is that of the newest half minute of training. Time without training is
// left out: what an Interrupt lies in (a pause, a recovery), and a standstill,
// when two rows are further apart than patience_seconds. Two standstills in a
// row are a run that has become slower: it is measured anew. An evaluation is
// part of training, however long it takes.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

namespace gimbal::coordinator {

class TrainingRate {
 public:
  // A row was written at `seconds`, with `tokens` trained so far.
  void Add(double seconds, int64_t tokens, bool evaluated);
  // Nothing was trained since the last row until now.
  void Interrupt() { interrupted_ = true; }

  // 0 before half a second of training.
  double updates_per_second() const;
  double tokens_per_second() const;
  // Longer than several updates take, and than a hiccup of the machine: a run
  // that makes no update for so long stands still.
  double patience_seconds() const;

 private:
  struct Trained {
    double seconds = 0;
    int64_t updates = 0;
    int64_t tokens = 0;
  };
  struct Row {
    double seconds;
    int64_t tokens;
  };

  void Count(const Trained& more);
  Trained Window() const;

  Trained total_;  // of what counts
  // Of these, some a second; never empty.
  std::deque<Trained> samples_{Trained{}};
  std::optional<Row> last_;
  bool interrupted_ = false;
  bool stood_still_ = false;  // ahead of the last row
};

}  // namespace gimbal::coordinator
