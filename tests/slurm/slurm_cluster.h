// A real Slurm on this machine, for tests: munged, slurmctld and several slurmd
// with two CPUs and, where device files can be made, two GPUs each, on loopback
// and in a folder of their own, under the user who runs the test. Commands of
// Slurm find it through the environment (SLURM_CONF).
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/command.h"
#include "tests/support/temp_dir.h"

namespace gimbal::test_support {

class SlurmCluster {
 public:
  // Empty when Slurm is installed, else what is missing.
  static std::string Missing();

  // Nodes n1, n2, ...; Ready waits until jobs can start.
  explicit SlurmCluster(int nodes);
  // Cancels every job first.
  ~SlurmCluster();
  bool Ready();
  bool has_gpus() const { return has_gpus_; }

  // Job id, or empty. The job's output goes to `folder`.
  std::string Submit(const std::string& script, const std::string& folder,
                     const std::vector<std::string>& arguments = {});
  // A field of `scontrol show job`, e.g. JobState.
  std::string JobField(const std::string& job, const std::string& field);
  // Polls until the job's state is `state`.
  bool WaitForState(const std::string& job, const std::string& state,
                    std::chrono::seconds timeout);
  // "JOB.STEP" of the step with this name; empty when there is none.
  std::string StepNamed(const std::string& job, const std::string& name);

  // As a machine that loses power: its slurmd is gone. What it runs, the caller
  // kills.
  void StopNode(int number);
  void StartNode(int number);

  // Runs a command of Slurm; what it printed.
  std::string Slurm(std::vector<std::string> argv);
  // Newest lines of the daemons' logs, for messages.
  std::string Logs() const;

 private:
  void WriteConfig();

  const TempDir folder_;
  bool has_gpus_ = false;
  std::unique_ptr<Command> munged_, slurmctld_;
  std::vector<std::unique_ptr<Command>> slurmds_;
};

}  // namespace gimbal::test_support
