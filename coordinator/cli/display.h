// Shows a run's progress on standard output: a block that is drawn over itself
// on a terminal, otherwise one line every few seconds and at each change of
// state. Not thread-safe.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "coordinator/cli/run_follower.h"
#include "gimbal/v1/admin_service.pb.h"

namespace gimbal::cli {

class Display {
 public:
  // `log_every`: seconds between two lines when not on a terminal.
  Display(bool terminal, double log_every);

  // While nobody answers: on a terminal the block as it was under a line that
  // says since when, otherwise one line when that begins and one when it ends.
  void Show(const Followed& seen, base::SteadyTime now);
  // A line that stays, above the block.
  void Note(const std::string& text);
  // Leaves the last block standing; what is printed later comes below it.
  void Finish();

  // True when standard output is a terminal that understands the redrawing.
  static bool OnTerminal();
  // Of the terminal; 80 when standard output is none.
  static size_t Columns();

 private:
  void Erase();
  void Draw(const Followed& seen);
  void Log(const v1::GetStatusResponse& status, base::SteadyTime now);

  const bool terminal_;
  const base::Seconds log_every_;
  std::vector<size_t> drawn_;  // columns of each line of the block
  std::optional<base::SteadyTime> last_line_;
  std::optional<v1::RunState> last_state_;
};

}  // namespace gimbal::cli
