#include <CLI/CLI.hpp>
#include <memory>

#include "coordinator/cli/commands.h"
#include "coordinator/cli/compare.h"
#include "coordinator/cli/eval.h"
#include "coordinator/cli/generate.h"
#include "coordinator/cli/options.h"
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
      ->capture_default_str()
      ->check(NumberFrom(0));
  verb->footer("Example:\n  gimbal prepare a.txt b.txt --out data/corpus");
  verb->callback([=] { *exit_code = RunPrepare(*options); });
}

void AddEval(CLI::App& app, int* exit_code) {
  CLI::App* verb = app.add_subcommand(
      "eval", "Loss of a run's newest checkpoint over held-out data.");
  auto options = std::make_shared<EvalOptions>();
  AddRunDir(verb, &options->run_dir, "run folder")->required();
  verb->add_option(
      "--data", options->data,
      "data to use, of the run's format [the config's data.valid]");
  verb->add_option("--windows", options->windows,
                   "samples of one context each, from the start [all]")
      ->check(WholeNumber<int64_t>(1));
  verb->footer("Example:\n  gimbal eval runs/first --windows 200");
  verb->callback([=] { *exit_code = RunEval(*options); });
}

void AddGenerate(CLI::App& app, int* exit_code) {
  CLI::App* verb = app.add_subcommand(
      "generate",
      "Text that a run's newest checkpoint continues a prompt with.");
  auto options = std::make_shared<GenerateOptions>();
  AddRunDir(verb, &options->run_dir, "run folder")->required();
  verb->add_option("--prompt", options->prompt,
                   "text to go on from [a new line]");
  verb->add_option("--tokens", options->tokens, "tokens to add")
      ->capture_default_str()
      ->check(WholeNumber(1));
  verb->add_option("--temperature", options->sampling.temperature,
                   "0: always the likeliest token; higher is wilder")
      ->capture_default_str()
      ->check(NumberFrom(0));
  verb->add_option("--top-k", options->sampling.top_k,
                   "choose among this many likeliest tokens; 0: all")
      ->capture_default_str()
      ->check(WholeNumber(0));
  verb->add_option("--seed", options->seed, "another one gives another text")
      ->capture_default_str()
      ->check(WholeNumber<uint64_t>(0));
  verb->footer(
      "Example:\n  gimbal generate runs/first --prompt \"And God said\"");
  verb->callback([=] { *exit_code = RunGenerate(*options); });
}

void AddCompare(CLI::App& app, int* exit_code) {
  CLI::App* verb = app.add_subcommand(
      "compare",
      "Runs side by side: losses, updates to a loss, slow-down, speed.");
  auto options = std::make_shared<CompareOptions>();
  AddRunDir(verb, &options->run_dirs,
            "run folders; the first is the one to compare with")
      ->required();
  verb->add_option("--target-loss", options->targets,
                   "losses to reach, by commas [chosen from the data]")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(NumberAbove(0));
  verb->add_option("--plot", options->plot, "SVG file of the loss curves");
  verb->add_option("--title", options->title, "title of the plot")
      ->capture_default_str();
  verb->footer(
      "Example:\n  gimbal compare runs/sync runs/async --target-loss 2.2,2.0 "
      "\\\n      --plot loss.svg");
  verb->callback([=] { *exit_code = RunCompare(*options); });
}

}  // namespace

void AddDataCommands(CLI::App& app, int* exit_code) {
  AddPrepare(app, exit_code);
  AddEval(app, exit_code);
  AddGenerate(app, exit_code);
  AddCompare(app, exit_code);
}

}  // namespace gimbal::cli
