#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "common/config/run_config_io.h"
#include "coordinator/cli/commands.h"
#include "coordinator/cli/exit_code.h"
#include "coordinator/cli/options.h"
#include "coordinator/cli/plan.h"
#include "coordinator/cli/sweep.h"
#include "coordinator/cli/train.h"

namespace gimbal::cli {
namespace {

constexpr char kTrainHelp[] =
    "Trains the run that CONFIG.yaml describes: starts a coordinator and the "
    "workers\non this machine, shows progress, and ends with a summary. "
    "^C stops with a\ncheckpoint (exit code 4); ^C again kills.";

constexpr char kTrainFooter[] =
    "`gimbal config` lists every key of the config with its default.\n\n"
    "Example:\n"
    "  gimbal train deploy/examples/quickstart.yaml \\\n"
    "      --set optimizer.lr=5e-4 --run-dir runs/slower\n"
    "  gimbal train --run-dir runs/slower --resume";

void AddTrain(CLI::App& app, int* exit_code) {
  CLI::App* verb = app.add_subcommand("train", kTrainHelp);
  auto options = std::make_shared<TrainOptions>();
  TrainRequest& request = options->request;
  CLI::Option* config = verb->add_option(
      "CONFIG", request.config_path,
      "config of the run; with --resume, default that of the run folder");
  CLI::Option* set =
      verb->add_option("--set", request.overrides,
                       "override a key of the config: a.b=c; may be repeated")
          ->allow_extra_args(false);
  CLI::Option* run_dir = verb->add_option(
      "--run-dir", request.run_dir, "folder of the run [runs/NAME-DATE-TIME]");
  CLI::Option* workers =
      verb->add_option("--workers", request.workers,
                       "worker processes [one per stage, at most 4 or the "
                       "number of cores]")
          ->check(WholeNumber(1));
  CLI::Option* device =
      verb->add_option("--device", request.device,
                       "cpu, cuda, or auto: cuda where there is a "
                       "device that the config runs on")
          ->capture_default_str();
  CLI::Option* resume = verb->add_flag(
      "--resume", request.resume,
      "go on with the run in --run-dir from its newest checkpoint; another "
      "pipeline.stages is taken over there");
  CLI::Option* log_level =
      verb->add_option("--log-level", options->log_level,
                       "of coordinator and workers: debug, info, warning, "
                       "error")
          ->capture_default_str()
          ->check(CLI::IsMember({"debug", "info", "warning", "error"}));
  CLI::Option* log_format =
      verb->add_option("--log-format", options->log_format,
                       "of coordinator and workers: text, or json with one "
                       "object per line")
          ->capture_default_str()
          ->check(CLI::IsMember({"text", "json"}));
  // Whoever follows a run configures none.
  verb->add_option("--coordinator", options->coordinator,
                   "follow the run of this coordinator (HOST:PORT) instead of "
                   "starting one")
      ->check(HostAndPort())
      ->excludes(config, set, run_dir, workers, device, resume, log_level,
                 log_format);
  verb->add_option("--log-every", options->log_every,
                   "seconds between progress lines when not on a terminal")
      ->capture_default_str()
      ->check(NumberFrom(0));
  verb->footer(kTrainFooter);
  verb->callback([=] { *exit_code = RunTrain(*options); });
}

void AddConfig(CLI::App& app, int* exit_code) {
  CLI::App* verb = app.add_subcommand(
      "config", "Lists every key of CONFIG.yaml with its default.");
  verb->footer("Example:\n  gimbal config | grep optimizer");
  verb->callback([=] {
    std::printf("%s", config::DescribeKeys().c_str());
    *exit_code = kDone;
  });
}

void AddPlan(CLI::App& app, int* exit_code) {
  CLI::App* verb = app.add_subcommand(
      "plan",
      "Shows layers, memory, delay and refresh period of every stage; runs "
      "nothing.");
  auto options = std::make_shared<PlanOptions>();
  verb->add_option("CONFIG", options->config_path, "config of the run")
      ->required();
  verb->add_option("--set", options->overrides,
                   "override a key of the config: a.b=c; may be repeated")
      ->allow_extra_args(false);
  verb->add_flag("--json", options->json, "print JSON");
  verb->footer(
      "Example:\n  gimbal plan deploy/examples/quickstart.yaml --set "
      "pipeline.stages=8");
  verb->callback([=] { *exit_code = RunPlan(*options); });
}

constexpr char kSweepFooter[] =
    "Keys of SWEEP:\n"
    "  config    config of all runs, relative to the working folder\n"
    "  methods   {NAME: {a.b: value, ...}, ...}: what --set makes of the "
    "config; `stages`\n"
    "            and `lr` among the keys narrow the grid for that method\n"
    "  stages    pipeline.stages of the grid, e.g. [1, 16]\n"
    "  lr        optimizer.lr of the grid, e.g. [5.0e-4, 1.0e-3]\n"
    "  seeds     run.seed of the grid, e.g. [1, 2, 3]\n"
    "and, if wanted:\n"
    "  set       {a.b: value, ...} for every run, as --set\n"
    "  targets   losses to count the updates to [chosen from the results]\n"
    "  baseline  method to compare with [the first one]\n"
    "  workers   worker processes of each run [1]\n"
    "  jobs      runs at a time [1]\n"
    "  tuning    all: every lr with every seed; climb: the first seed finds "
    "each method's\n"
    "            lr, from the middle of the grid to better neighbours, the "
    "others run\n"
    "            only there [all]\n\n"
    "Example:\n"
    "  gimbal sweep deploy/examples/staleness/short.yaml --out runs/short";

void AddSweep(CLI::App& app, int* exit_code) {
  CLI::App* verb = app.add_subcommand(
      "sweep",
      "Runs a grid of methods, stage counts, learning rates and seeds, and "
      "writes tables\nand figures of what they say together. Started again, "
      "it goes on where it stopped.");
  auto options = std::make_shared<SweepOptions>();
  verb->add_option("SWEEP", options->spec_path, "YAML file of the grid")
      ->required();
  verb->add_option("--out", options->out, "folder of its runs and results")
      ->required();
  verb->add_option("--jobs", options->jobs,
                   "runs at a time [as the file says, or 1]")
      ->check(WholeNumber(1));
  verb->add_flag("--report", options->report_only,
                 "run nothing, write tables and figures of what is done");
  verb->footer(kSweepFooter);
  verb->callback([=] { *exit_code = RunSweep(*options); });
}

}  // namespace

void AddRunCommands(CLI::App& app, int* exit_code) {
  AddTrain(app, exit_code);
  AddConfig(app, exit_code);
  AddPlan(app, exit_code);
  AddSweep(app, exit_code);
}

}  // namespace gimbal::cli
