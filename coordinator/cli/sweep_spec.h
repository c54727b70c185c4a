// A sweep: every method x stage count x learning rate x seed, as independent
// runs of one config. Read from a YAML file:
//
//   config: deploy/examples/deep.yaml     # relative to the working folder
//   set: {run.steps: 6000}                # for every run, as --set
//   methods:                              # what --set makes of the config
//     adamw:    {optimizer.name: adamw}
//     rotation: {optimizer.name: basis_rotation}
//   stages: [1, 16]
//   lr: [5.0e-4, 1.0e-3]
//   seeds: [1, 2, 3]
//   targets: [2.2, 2.0, 1.8]              # losses; optional
//   baseline: adamw                       # default: the first method
//   workers: 1                            # of each run; default 1
//   jobs: 2                               # runs at a time; default 1
//   tuning: climb                         # or all, the default
//
// With `tuning: all` every learning rate runs with every seed. With `climb` the
// first seed finds a method's learning rate, from the middle of the grid to
// better neighbours, and the other seeds run only there.
//
// A method may narrow the grid for itself with the keys `stages` and `lr`.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace gimbal::cli {

struct SweepMethod {
  std::string name;
  std::vector<std::string> overrides;  // "a.b=c"
  std::vector<int> stages;
  std::vector<std::string> lrs;  // as written
};

struct SweepSpec {
  std::string config;
  std::vector<std::string> overrides;
  std::vector<SweepMethod> methods;
  std::vector<std::string> seeds;
  std::vector<double> targets;
  std::string baseline;
  int workers = 1;
  int jobs = 1;
  bool climb = false;
};

struct SweepRun {
  std::string name;  // "rotation-P16-lr1e-3-s1", a folder's name
  std::string method;
  int stages = 1;
  std::string lr;
  std::string seed;
  std::vector<std::string> overrides;  // all of them
};

// INVALID_ARGUMENT with file and line.
absl::StatusOr<SweepSpec> ReadSweepSpec(const std::string& path);

std::string RunName(const std::string& method, int stages,
                    const std::string& lr, const std::string& seed);

// The whole grid, in an order that shows something early: seed by seed.
std::vector<SweepRun> RunsOf(const SweepSpec& spec);

}  // namespace gimbal::cli
