#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "coordinator/cli/commands.h"
#include "coordinator/cli/control.h"

namespace gimbal::cli {
namespace {

void AddTarget(CLI::App* verb, Target* target) {
  CLI::Option* run = verb->add_option("--run-dir", target->run_dir,
                                      "folder of the running run");
  verb->add_option("--coordinator", target->coordinator,
                   "its coordinator, HOST:PORT")
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
      *exit_code = RunCommand(*target, command);
    }
  });
  return verb;
}

}  // namespace

void AddControlCommands(CLI::App& app, int* exit_code) {
  using v1::CommandRequest;
  AddStatus(app, exit_code);
  AddVerb(app, "pause", "Lets every stage wait at one update.",
          CommandRequest::VERB_PAUSE, exit_code);
  AddVerb(app, "resume", "Lets a paused run go on.",
          CommandRequest::VERB_RESUME, exit_code);
  AddVerb(app, "checkpoint", "Writes a checkpoint soon, without a pause.",
          CommandRequest::VERB_CHECKPOINT, exit_code);
  AddVerb(app, "drain",
          "Ends the run once the minibatches in flight are finished, with a "
          "checkpoint.",
          CommandRequest::VERB_DRAIN, exit_code);
  AddVerb(app, "stop",
          "Ends the run at the next cut with a checkpoint that --resume goes "
          "on from.",
          CommandRequest::VERB_STOP, exit_code);
}

}  // namespace gimbal::cli
