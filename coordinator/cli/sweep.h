// `gimbal sweep`: runs a grid of independent runs, and writes what they say
// together. Started again, it goes on where it stopped.
//
//   OUT/runs/NAME/       run folders
//   OUT/runs.csv         a line per finished run
//   OUT/curves.csv       their losses; a run that is in it is not trained again
//   OUT/table.md         a line per method and stage count, at its best
//                        learning rate
//   OUT/loss.svg         loss curves of those
//   OUT/slowdown.svg     updates to a target against the number of stages
//   OUT/updates.svg      updates to each target
#pragma once

#include <string>

namespace gimbal::cli {

struct SweepOptions {
  std::string spec_path;
  std::string out;
  int jobs = 0;              // runs at a time; 0: as the file says
  bool report_only = false;  // run nothing
};

// Returns the exit code: 3 when a run failed, 4 when it was interrupted.
int RunSweep(const SweepOptions& options);

}  // namespace gimbal::cli
