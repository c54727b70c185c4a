#include <CLI/CLI.hpp>
#include <memory>

#include "coordinator/cli/commands.h"
#include "coordinator/cli/prepare.h"

namespace gimbal::cli {
namespace {

void AddPrepare(CLI::App& app, int* exit_code) {
  CLI::App* verb = app.add_subcommand(
      "prepare", "Turns text files into a folder of tokens for training.");
  auto options = std::make_shared<worker::PrepareOptions>();
  verb->add_option("INPUT", options->inputs, "text files, joined in this order")
      ->required();
  verb->add_option("--tokenizer", options->tokenizer,
                   "bytes: every byte is a token")
      ->capture_default_str();
  verb->add_option("--out", options->out, "folder to make")->required();
  verb->add_option("--valid-fraction", options->valid_fraction,
                   "share at the end of the text that is held out")
      ->capture_default_str();
  verb->footer("Example:\n  gimbal prepare a.txt b.txt --out data/corpus");
  verb->callback([=] { *exit_code = RunPrepare(*options); });
}

}  // namespace

void AddDataCommands(CLI::App& app, int* exit_code) {
  AddPrepare(app, exit_code);
}

}  // namespace gimbal::cli
