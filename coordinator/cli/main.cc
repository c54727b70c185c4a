// gimbal: the command line. Options are declared in commands_*.cc; each verb
// is a function of its own file.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "coordinator/cli/commands.h"
#include "coordinator/cli/exit_code.h"

namespace {

constexpr char kFooter[] =
    "Exit codes: 0 done, 1 internal error, 2 bad usage or config, 3 the run "
    "failed,\n4 interrupted with a committed checkpoint.\n\n"
    "Example:\n"
    "  gimbal prepare corpus.txt --tokenizer bytes --out data/corpus\n"
    "  gimbal train deploy/examples/quickstart.yaml --run-dir runs/first\n"
    "  gimbal generate runs/first --prompt \"And \"";

int Run(int argc, char** argv) {
  CLI::App app(
      "gimbal trains language models in an asynchronous pipeline and keeps "
      "them converging.");
  app.set_version_flag("--version", "gimbal " GIMBAL_VERSION);
  app.footer(kFooter);
  app.require_subcommand(0, 1);  // so that a wrong verb is named
  app.get_formatter()->column_width(34);
  int exit_code = gimbal::cli::kDone;
  gimbal::cli::AddRunCommands(app, &exit_code);
  gimbal::cli::AddControlCommands(app, &exit_code);
  gimbal::cli::AddDataCommands(app, &exit_code);
  gimbal::cli::AddDeployCommands(app, &exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const bool asked_for = app.exit(error) == 0;  // --help, --version
    return asked_for ? gimbal::cli::kDone : gimbal::cli::kBadUsage;
  }
  if (app.get_subcommands().empty()) {
    std::fprintf(stderr, "%s", app.help().c_str());
    return gimbal::cli::kBadUsage;
  }
  return exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return Run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gimbal: internal error: %s\n", error.what());
    return gimbal::cli::kInternalError;
  }
}
