#include <CLI/CLI.hpp>
#include <memory>

#include "coordinator/cli/commands.h"
#include "coordinator/cli/doctor.h"
#include "coordinator/cli/options.h"
#include "coordinator/cli/slurm.h"

namespace gimbal::cli {
namespace {

constexpr char kRenderFooter[] =
    "The job is the batch script's: run it with `sbatch job.sbatch`, go on "
    "with "
    "a run\nthat has ended with `sbatch job.sbatch --resume`.\n\n"
    "Example:\n"
    "  gimbal slurm render my.yaml --run-dir runs/a --nodes 2 --time 8:00:00 "
    "\\\n"
    "      --option=--account=physics --out job.sbatch";

void AddSlurm(CLI::App& app, int* exit_code) {
  CLI::App* slurm =
      app.add_subcommand("slurm", "Runs on a Slurm cluster: see render.");
  slurm->require_subcommand(1);
  CLI::App* verb = slurm->add_subcommand(
      "render",
      "Writes the batch script of a run: a coordinator on the job's first "
      "node, one\nstep per worker.");
  auto options = std::make_shared<SlurmOptions>();
  SlurmJob& job = options->job;
  verb->add_option("CONFIG", job.config, "config of the run")->required();
  verb->add_option("--run-dir", job.run_dir, "folder of the run")->required();
  verb->add_option("--workers", job.workers,
                   "workers that share the stages [one per stage]")
      ->check(WholeNumber(1));
  verb->add_option("--nodes", job.nodes,
                   "nodes, which share workers and spares [one each]")
      ->check(WholeNumber(1));
  verb->add_option("--cpus", job.cpus, "CPUs per worker [cluster.threads]")
      ->check(WholeNumber(1));
  verb->add_option("--gpus", job.gpus, "GPUs per worker")
      ->capture_default_str()
      ->check(WholeNumber(0));
  verb->add_option("--mem", job.memory, "memory per node, e.g. 64G [Slurm's]");
  verb->add_option("--time", job.time,
                   "time limit, e.g. 30, 8:00:00 or 2-0 [the partition's]");
  verb->add_option("--partition", job.partition, "partition [Slurm's]");
  verb->add_flag("--exclusive", job.exclusive, "no other jobs on the nodes");
  verb->add_flag("!--no-requeue", job.requeue,
                 "end with the time limit instead of going on in another job");
  verb->add_option("--option", job.options,
                   "further option of sbatch; may be repeated")
      ->allow_extra_args(false);
  verb->add_option("--bin-dir", job.bin_dir,
                   "folder of the programs [that of this one]");
  verb->add_option("--out", options->out, "file to write [standard output]");
  verb->footer(kRenderFooter);
  verb->callback([=] { *exit_code = RunSlurmRender(*options); });
}

void AddDoctor(CLI::App& app, int* exit_code) {
  CLI::App* verb = app.add_subcommand(
      "doctor",
      "Checks a node, and a config on it, before a run: one line per check, "
      "with what to\ndo. Exit code 2 when one failed.");
  auto options = std::make_shared<DoctorOptions>();
  verb->add_option("CONFIG", options->config_path,
                   "config of the run; without one the node alone is checked");
  verb->add_option("--run-dir", options->run_dir,
                   "folder of the run [the working folder]");
  verb->add_option("--coordinator", options->coordinator,
                   "HOST:PORT of a running coordinator to reach")
      ->check(HostAndPort());
  verb->add_option("--advertise", options->advertise,
                   "name or address by which other hosts reach this one");
  verb->add_option("--workers", options->workers, "workers on this node")
      ->capture_default_str()
      ->check(WholeNumber(1));
  verb->add_option("--gpus", options->gpus, "GPUs that have to be there")
      ->capture_default_str()
      ->check(WholeNumber(0));
  verb->add_flag("--json", options->json, "print JSON");
  verb->footer("Example:\n  gimbal doctor my.yaml --run-dir runs/a");
  verb->callback([=] { *exit_code = RunDoctor(*options); });
}

}  // namespace

void AddDeployCommands(CLI::App& app, int* exit_code) {
  AddSlurm(app, exit_code);
  AddDoctor(app, exit_code);
}

}  // namespace gimbal::cli
