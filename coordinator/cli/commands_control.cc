#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "coordinator/cli/checkpoints.h"
#include "coordinator/cli/commands.h"
#include "coordinator/cli/control.h"
#include "coordinator/cli/options.h"
#include "coordinator/cli/trace.h"

namespace gimbal::cli {
namespace {

void AddTarget(CLI::App* verb, Target* target) {
  CLI::Option* run =
      AddRunDir(verb, &target->run_dir, "folder of the running run");
  verb->add_option("--coordinator", target->coordinator,
                   "its coordinator, HOST:PORT")
      ->check(HostAndPort())
      ->excludes(run);
}

void AddStatus(CLI::App& app, int* exit_code) {
  CLI::App* verb = app.add_subcommand(
      "status", "Shows a running run: progress, stages, workers, decisions.");
  auto options = std::make_shared<StatusOptions>();
  AddTarget(verb, &options->target);
  verb->add_flag("--json", options->json,
                 "print the coordinator's answer as JSON");
  verb->add_flag("--watch", options->watch, "go on until the run ends or ^C");
  verb->footer("Example:\n  gimbal status --run-dir runs/first --watch");
  verb->callback([=] { *exit_code = RunStatus(*options); });
}

CLI::App* AddVerb(CLI::App& app, const std::string& name,
                  const std::string& help, v1::CommandRequest::Verb command,
                  int* exit_code) {
  CLI::App* verb = app.add_subcommand(name, help);
  auto target = std::make_shared<Target>();
  AddTarget(verb, target.get());
  verb->footer("Example:\n  gimbal " + name + " --run-dir runs/first");
  verb->callback([=] {
    if (verb->get_subcommands().empty()) {
      v1::CommandRequest request;
      request.set_verb(command);
      *exit_code = RunCommand(*target, request);
    }
  });
  return verb;
}

void AddReshard(CLI::App* checkpoint, int* exit_code) {
  CLI::App* verb = checkpoint->add_subcommand(
      "reshard",
      "Makes a run folder that goes on from a checkpoint with other stages: "
      "weights,\nmoments and bases are kept, the pipeline begins empty.");
  auto options = std::make_shared<coordinator::ReshardOptions>();
  AddRunDir(verb, &options->run_dir, "run folder; stays as it is")->required();
  verb->add_option("--stages", options->stages,
                   "number of stages to go on with")
      ->required()
      ->check(WholeNumber(1));
  verb->add_option("--split", options->split,
                   "blocks of each stage, by commas [evenly by work]")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(WholeNumber(1));
  verb->add_option("--out", options->out, "run folder to make")->required();
  verb->add_option("--update", options->update,
                   "update of the checkpoint [the newest good one]")
      ->check(WholeNumber<int64_t>(1));
  verb->footer(
      "Example:\n  gimbal checkpoint reshard runs/deep --stages 2 --out "
      "runs/shallow\n  gimbal train --run-dir runs/shallow --resume\n\n"
      "In place, from the newest checkpoint:\n  gimbal train --run-dir "
      "runs/deep --resume --set pipeline.stages=2");
  verb->callback([=] { *exit_code = RunCheckpointReshard(*options); });
}

// What needs no coordinator.
void AddCheckpointFolder(CLI::App* checkpoint, int* exit_code) {
  auto run_dir = std::make_shared<std::string>();
  CLI::App* list = checkpoint->add_subcommand(
      "ls", "Lists the committed checkpoints of a run folder.");
  AddRunDir(list, run_dir.get(), "run folder")->required();
  list->footer("Example:\n  gimbal checkpoint ls --run-dir runs/first");
  list->callback([=] { *exit_code = RunCheckpointList(*run_dir); });
  CLI::App* verify = checkpoint->add_subcommand(
      "verify", "Checks size and hash of every file of every checkpoint.");
  AddRunDir(verify, run_dir.get(), "run folder")->required();
  verify->footer("Example:\n  gimbal checkpoint verify --run-dir runs/first");
  verify->callback([=] { *exit_code = RunCheckpointVerify(*run_dir); });
  AddReshard(checkpoint, exit_code);
}

void AddRefresh(CLI::App& app, int* exit_code) {
  CLI::App* verb = app.add_subcommand(
      "refresh", "Changes how a running run's basis refreshes are shared out.");
  auto options = std::make_shared<RefreshOptions>();
  AddTarget(verb, &options->target);
  verb->add_option("--policy", options->policy,
                   "uniform, stage_aware, inverse or adaptive")
      ->required();
  verb->add_option("--period", options->period,
                   "mean number of updates between two refreshes of a stage")
      ->required()
      ->check(NumberAbove(0));
  verb->footer(
      "Example:\n  gimbal refresh --run-dir runs/first --policy stage_aware "
      "--period 20");
  verb->callback([=] { *exit_code = RunRefresh(*options); });
}

void AddTraceSwitch(CLI::App* trace, const std::string& name,
                    const std::string& help, int* exit_code) {
  CLI::App* verb = trace->add_subcommand(name, help);
  auto target = std::make_shared<Target>();
  auto every = std::make_shared<int64_t>(0);
  AddTarget(verb, target.get());
  if (name == "start") {
    *every = 1;
    verb->add_option("--every", *every, "record one of so many updates")
        ->check(WholeNumber<int64_t>(1))
        ->capture_default_str();
  }
  verb->footer("Example:\n  gimbal trace " + name + " --run-dir runs/first");
  verb->callback([=] {
    v1::CommandRequest request;
    request.set_verb(v1::CommandRequest::VERB_TRACE);
    request.set_trace_every(*every);
    *exit_code = RunCommand(*target, request);
  });
}

void AddTrace(CLI::App& app, int* exit_code) {
  CLI::App* trace = app.add_subcommand(
      "trace", "Records where the time of every stage goes.");
  trace->require_subcommand(1);
  AddTraceSwitch(trace, "start",
                 "Begins to record, into RUN_DIR/trace; the numbers of the run "
                 "stay the same.",
                 exit_code);
  AddTraceSwitch(trace, "stop", "Records no more.", exit_code);
  CLI::App* merge = trace->add_subcommand(
      "merge",
      "Makes one file for a trace viewer from all that was recorded, and says "
      "where\nthe time went.");
  auto options = std::make_shared<TraceMergeOptions>();
  AddRunDir(merge, &options->run_dir, "run folder; may be running")->required();
  merge->add_option("--out", options->out,
                    "file to write [RUN_DIR/trace/trace.json]");
  merge->footer("Example:\n  gimbal trace merge runs/first");
  merge->callback([=] { *exit_code = RunTraceMerge(*options); });
}

}  // namespace

void AddControlCommands(CLI::App& app, int* exit_code) {
  using v1::CommandRequest;
  AddStatus(app, exit_code);
  AddVerb(app, "pause", "Lets every stage wait at one update.",
          CommandRequest::VERB_PAUSE, exit_code);
  AddVerb(app, "resume", "Lets a paused run go on.",
          CommandRequest::VERB_RESUME, exit_code);
  AddCheckpointFolder(
      AddVerb(app, "checkpoint",
              "Writes a checkpoint soon, without a pause; with ls, verify or "
              "reshard: about those there are.",
              CommandRequest::VERB_CHECKPOINT, exit_code),
      exit_code);
  AddVerb(app, "drain",
          "Ends the run once the minibatches in flight are finished, with a "
          "checkpoint.",
          CommandRequest::VERB_DRAIN, exit_code);
  AddVerb(app, "stop",
          "Ends the run at the next cut with a checkpoint that --resume goes "
          "on from.",
          CommandRequest::VERB_STOP, exit_code);
  AddRefresh(app, exit_code);
  AddTrace(app, exit_code);
}

}  // namespace gimbal::cli
