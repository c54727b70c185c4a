#include "tests/support/train_fixture.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <regex>
#include <sstream>
#include <thread>

namespace gimbal::test_support {

using nlohmann::json;

std::string ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

int64_t CountOf(const std::string& word, const std::string& text) {
  int64_t count = 0;
  for (size_t at = text.find(word); at != std::string::npos;
       at = text.find(word, at + 1)) {
    ++count;
  }
  return count;
}

std::string Difference(const Numbers& a, const Numbers& b) {
  std::istringstream rows_a(a.metrics), rows_b(b.metrics);
  std::string row_a, row_b;
  for (int row = 1;; ++row) {
    const bool more_a = static_cast<bool>(std::getline(rows_a, row_a));
    const bool more_b = static_cast<bool>(std::getline(rows_b, row_b));
    if (!more_a && !more_b) break;
    if (more_a != more_b || row_a != row_b) {
      return "row " + std::to_string(row) + ":\n" + (more_a ? row_a : "-") +
             "\n" + (more_b ? row_b : "-");
    }
  }
  for (const auto& [file, sum] : a.files) {
    const auto other = b.files.find(file);
    if (other == b.files.end() || other->second != sum) return file;
  }
  return a.files.size() == b.files.size() ? "" : "number of files";
}

TrainFixture::TrainFixture() {
  std::ofstream text(folder_ / "corpus.txt");
  std::mt19937 random(3);
  for (int i = 0; i < 6000; ++i) {
    text << "word" << random() % 97 << (random() % 9 == 0 ? ".\n" : " ");
  }
  text.close();
  std::ofstream config(folder_ / "config.yaml");
  config << "run: {name: contract, seed: 5, steps: 40}\n"
         << "data: {train: " << folder_ / "corpus.txt"
         << ", valid: " << folder_ / "corpus.txt"
         << ", format: text}\n"
         << "model: {layers: 8, hidden: 16, heads: 2, context: 16}\n"
         << "batch: {microbatch: 2, accumulate: 1}\n"
         << "pipeline: {stages: 4}\n"
         << "optimizer: {lr: 3.0e-3, schedule: {warmup: 5}, "
         << "rotation: {period: 4}}\n"
         << "checkpoint: {every: 10}\n"
         << "eval: {every: 15, batches: 2}\n";
}

std::vector<std::string> TrainFixture::TrainArguments(
    const std::string& run, const std::vector<std::string>& more) {
  std::vector<std::string> argv = {"gimbal", "train", folder_ / "config.yaml",
                                   "--run-dir", folder_ / run};
  argv.insert(argv.end(), more.begin(), more.end());
  return argv;
}

void TrainFixture::MustTrain(const std::string& run,
                             const std::vector<std::string>& more) {
  const CommandResult result = test_support::Run(TrainArguments(run, more));
  ASSERT_EQ(result.exit_code, 0) << result.output << Logs(run);
}

std::string TrainFixture::Logs(const std::string& run) {
  std::string text;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(
           folder_ / (run + "/logs"), ignored)) {
    text += "--- " + entry.path().string() + "\n" + ReadText(entry.path());
  }
  return text;
}

bool TrainFixture::WaitForRows(Command& command, const std::string& run,
                               int64_t rows) {
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::seconds(150);
  while (std::chrono::steady_clock::now() < deadline) {
    const std::string text = ReadText(folder_ / (run + "/metrics.jsonl"));
    if (std::count(text.begin(), text.end(), '\n') >= rows) return true;
    if (!command.Running()) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

std::vector<int> TrainFixture::WorkerPids(const std::string& run) {
  const CommandResult status = test_support::Run(
      {"gimbal", "status", "--run-dir", folder_ / run, "--json"});
  std::vector<int> pids;
  if (status.exit_code != 0) return pids;
  const json view = json::parse(status.output, nullptr, false);
  if (view.is_discarded()) return pids;
  for (const json& worker : view.at("workers")) {
    pids.push_back(worker.at("pid"));
  }
  return pids;
}

int TrainFixture::CoordinatorPid(const std::string& run) {
  const json file = json::parse(ReadText(folder_ / (run + "/coordinator.json")),
                                nullptr, false);
  return file.is_object() ? file.value("pid", 0) : 0;
}

json TrainFixture::Summary(const std::string& run) {
  return json::parse(ReadText(folder_ / (run + "/summary.json")));
}

std::vector<int64_t> TrainFixture::StartsOf(const std::string& run) {
  const std::string text = ReadText(folder_ / (run + "/events.jsonl"));
  const std::regex start("workers? takes? [0-9]+ stages? from update ([0-9]+)");
  std::vector<int64_t> starts;
  for (std::sregex_iterator it(text.begin(), text.end(), start), end; it != end;
       ++it) {
    starts.push_back(std::stoll((*it)[1]));
  }
  return starts;
}

Numbers TrainFixture::NumbersOf(const std::string& run,
                                std::string checkpoints) {
  Numbers numbers;
  const std::string path = folder_ / run;
  numbers.metrics =
      std::regex_replace(ReadText(path + "/metrics.jsonl"),
                         std::regex("\"seconds\":[^,}]*"), "\"seconds\":0");
  if (checkpoints.empty()) checkpoints = path + "/checkpoints";
  const std::string latest = ReadText(checkpoints + "/latest");
  const json manifest = json::parse(
      ReadText(checkpoints + "/" + latest.substr(0, latest.find('\n')) +
               "/manifest.json"));
  for (const json& file : manifest.at("files")) {
    numbers.files[file.at("path")] = file.at("sha256");
  }
  return numbers;
}

}  // namespace gimbal::test_support
