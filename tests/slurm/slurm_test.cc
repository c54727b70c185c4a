// Runs as jobs of a real Slurm with four nodes: what `gimbal slurm render`
// writes must carry a run through everything that a cluster does to it.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <thread>

#include "tests/slurm/slurm_cluster.h"
#include "tests/support/test_certificates.h"
#include "tests/support/train_fixture.h"

namespace gimbal {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using test_support::CommandResult;
using test_support::CountOf;
using test_support::Difference;
using test_support::ReadText;
using test_support::SlurmCluster;

// Long enough for what is done to the jobs meanwhile, though nothing depends on
// it: each test waits for what it needs, and says so when the run was over.
constexpr char kSteps[] = "run.steps=3000";
// On a machine under heavy load.
constexpr seconds kLong{600};

// The variable of a process, as its /proc says.
std::string VariableOf(int pid, const std::string& name) {
  const std::string all =
      '\0' + ReadText("/proc/" + std::to_string(pid) + "/environ");
  const size_t at = all.find('\0' + name + "=");
  if (at == std::string::npos) return "";
  return std::string(all.c_str() + at + name.size() + 2);
}

class Slurm : public test_support::TrainFixture {
 protected:
  static void SetUpTestSuite() {
    if (!SlurmCluster::Missing().empty()) return;
    cluster = std::make_unique<SlurmCluster>(4);
    ready = cluster->Ready();
  }
  static void TearDownTestSuite() { cluster.reset(); }

  void SetUp() override {
    if (!SlurmCluster::Missing().empty())
      GTEST_SKIP() << SlurmCluster::Missing();
    ASSERT_TRUE(ready) << cluster->Logs();
    if (!reference) Train();
    ASSERT_TRUE(reference);
    config_ = reference->config;
    size_t at = 0;
    while ((at = config_.find(reference->folder, at)) != std::string::npos) {
      config_.replace(at, reference->folder.size(), folder_.path());
      at += folder_.path().size();
    }
  }

  // What every job has to come to: the same corpus lies in every test's folder.
  struct Reference {
    std::string folder;
    std::string config;
    test_support::Numbers numbers;
  };
  void Train() {
    const CommandResult result = test_support::Run(
        TrainArguments("undisturbed",
                       {"--workers", "1", "--set", kSteps, "--set",
                        "checkpoint.every=200", "--set", "eval.every=500"}),
        kLong);
    ASSERT_EQ(result.exit_code, 0) << result.output << Logs("undisturbed");
    reference = {.folder = folder_.path(),
                 .config = ReadText(folder_ / "undisturbed/config.yaml"),
                 .numbers = NumbersOf("undisturbed")};
  }

  void TearDown() override {
    if (!HasFailure()) return;
    for (const auto& entry :
         std::filesystem::directory_iterator(folder_.path())) {
      const std::string path = entry.path();
      if (path.ends_with(".out"))
        ADD_FAILURE() << path << "\n" << ReadText(path);
    }
    ADD_FAILURE() << cluster->Logs();
  }

  // Renders a job of the undisturbed run with other words in its config, and
  // submits it.
  std::string Submit(const std::string& run,
                     const std::vector<std::string>& more,
                     const std::map<std::string, std::string>& words = {}) {
    std::string config = config_;
    for (const auto& [from, to] : words) {
      config.replace(config.find(from), from.size(), to);
    }
    std::ofstream(folder_ / (run + ".yaml")) << config;
    std::vector<std::string> argv = {
        "gimbal",    "slurm",       "render", folder_ / (run + ".yaml"),
        "--run-dir", folder_ / run, "--out",  folder_ / (run + ".sbatch")};
    argv.insert(argv.end(), more.begin(), more.end());
    const CommandResult rendered = test_support::Run(argv);
    EXPECT_EQ(rendered.exit_code, 0) << rendered.output;
    const std::string job =
        cluster->Submit(folder_ / (run + ".sbatch"), folder_.path());
    EXPECT_NE(job, "");
    return job;
  }

  template <typename Condition>
  bool Await(const Condition& condition, seconds timeout = kLong) {
    const auto deadline = steady_clock::now() + timeout;
    while (!condition()) {
      if (steady_clock::now() > deadline) return false;
      std::this_thread::sleep_for(milliseconds(50));
    }
    return true;
  }

  bool HasRows(const std::string& run, int64_t rows) {
    return Await([&] {
      const std::string text = ReadText(folder_ / (run + "/metrics.jsonl"));
      return std::count(text.begin(), text.end(), '\n') >= rows;
    });
  }

  // Pids of the workers by their names, with or without those that are idle.
  std::map<std::string, int> Workers(const std::string& run, bool idle = true) {
    const CommandResult status = test_support::Run(
        {"gimbal", "status", "--run-dir", folder_ / run, "--json"});
    const json view = json::parse(status.output, nullptr, false);
    std::map<std::string, int> pids;
    if (status.exit_code != 0 || view.is_discarded()) return pids;
    for (const json& worker : view.at("workers")) {
      const bool hosts =
          worker.contains("stages") && !worker.at("stages").empty();
      if (idle || hosts) pids[worker.at("name")] = worker.at("pid");
    }
    return pids;
  }

  void ExpectTheSameNumbers(const std::string& run) {
    EXPECT_EQ(Difference(NumbersOf(run), reference->numbers), "");
  }

  std::string Events(const std::string& run) {
    return ReadText(folder_ / (run + "/events.jsonl"));
  }

  void LoseAWorker() {
    const std::string job = Submit("killed", {});
    ASSERT_TRUE(HasRows("killed", 100));
    const std::map<std::string, int> before = Workers("killed");
    ASSERT_EQ(before.size(), 4u) << Events("killed");
    const std::string step = cluster->StepNamed(job, "worker-2");
    ASSERT_NE(step, "");
    cluster->Slurm({"scancel", "--signal=KILL", step});
    std::map<std::string, int> after;
    EXPECT_TRUE(Await([&] {
      after = Workers("killed");
      return after.size() == 4 && after["worker-2"] != before.at("worker-2");
    })) << Events("killed");
    for (const char* name : {"worker-0", "worker-1", "worker-3"}) {
      EXPECT_EQ(after[name], before.at(name)) << name;
    }
    EXPECT_TRUE(cluster->WaitForState(job, "COMPLETED", kLong));
  }

  void ExpectGpusOfTheirOwn() {
    std::set<std::string> gpus;
    for (const auto& [name, pid] : Workers("interrupted")) {
      gpus.insert(VariableOf(pid, "SLURMD_NODENAME") + ":" +
                  VariableOf(pid, "CUDA_VISIBLE_DEVICES"));
    }
    EXPECT_EQ(gpus, (std::set<std::string>{"n1:0", "n1:1", "n2:0", "n2:1"}));
  }

  void RunOutOfTime() {
    const std::string gpus = cluster->has_gpus() ? "1" : "0";
    const std::string job =
        Submit("interrupted", {"--nodes", "2", "--gpus", gpus});
    ASSERT_TRUE(HasRows("interrupted", 250));
    if (cluster->has_gpus()) ExpectGpusOfTheirOwn();
    // As --signal and a preemption do.
    cluster->Slurm({"scancel", "--batch", "--signal=USR1", job});
    ASSERT_TRUE(
        Await([&] { return cluster->JobField(job, "Restarts") == "1"; }));
    // After cred_expire. To ask for an earlier start (StartTime=now) may end
    // the job: "non-startable, credential revoked".
    EXPECT_TRUE(cluster->WaitForState(job, "COMPLETED", kLong));
  }

  static inline std::unique_ptr<SlurmCluster> cluster;
  static inline bool ready = false;
  static inline std::optional<Reference> reference;
  std::string config_;
};

// Side by side on the same nodes: one loses the step of a worker, the other is
// told that its time is up. Each is looked after by a thread, so that neither
// is over before its turn comes.
TEST_F(Slurm, OneJobLosesAWorkerAnotherOneItsTime) {
  std::thread other([&] { RunOutOfTime(); });
  LoseAWorker();
  other.join();
  if (HasFailure()) return;
  ExpectTheSameNumbers("killed");
  ExpectTheSameNumbers("interrupted");
  int restarts = 0;
  const json summary = Summary("killed");
  for (const json& stage : summary.at("stages")) {
    restarts += stage.at("restarts").get<int>();
  }
  EXPECT_EQ(restarts, 1) << "of the stage that worker-2 had, and of no other";
  const std::vector<int64_t> starts = StartsOf("interrupted");
  ASSERT_EQ(starts.size(), 2u) << Events("interrupted");
  EXPECT_EQ(starts[0], 0);
  EXPECT_GE(starts[1], 250) << "went on at the checkpoint of its end";
}

// A machine loses power: the spare on another node takes its stage, the job and
// all other processes stay. Everybody shows certificates meanwhile.
TEST_F(Slurm, TheStageOfALostNodeMoves) {
  const test_support::TestCertificates certificates(folder_ / "certs");
  const rpc::SecurityFiles files = certificates.Make("127.0.0.1");
  const std::string job = Submit("lost", {"--workers", "3"},
                                 {{"spares: 0", "spares: 1"},
                                  {"ca: \"\"", "ca: " + files.ca},
                                  {"cert: \"\"", "cert: " + files.cert},
                                  {"key: \"\"", "key: " + files.key}});
  ASSERT_TRUE(HasRows("lost", 100));
  // One that has a stage (whoever came last is the spare), away from the first
  // node, where script and coordinator are.
  std::map<std::string, int> before;
  ASSERT_TRUE(Await([&] {
    before = Workers("lost", /*idle=*/true);
    return before.size() == 4;
  })) << Events("lost");
  int worker = 0, node = 0;
  for (const auto& [name, pid] : Workers("lost", /*idle=*/false)) {
    if (name == "worker-0") continue;
    worker = pid;
    node = name.back() - '0' + 1;
  }
  ASSERT_GT(worker, 0);
  ASSERT_EQ(VariableOf(worker, "SLURMD_NODENAME"), "n" + std::to_string(node));
  cluster->StopNode(node);
  std::ifstream stat("/proc/" + std::to_string(worker) + "/stat");
  std::string word;
  int daemon = 0;
  stat >> word >> word >> word >> daemon;
  ASSERT_GT(daemon, 1);
  kill(daemon, SIGKILL);  // slurmstepd
  kill(worker, SIGKILL);
  EXPECT_TRUE(cluster->WaitForState(job, "COMPLETED", kLong));
  ExpectTheSameNumbers("lost");
  const std::string events = Events("lost");
  EXPECT_EQ(CountOf("every stage goes back", events), 0) << events;
  EXPECT_EQ(Summary("lost").at("recoveries").size(), 1u);
  EXPECT_EQ(cluster->JobField(job, "Restarts"), "0");
  cluster->StartNode(node);
  EXPECT_TRUE(cluster->Ready()) << "a node that comes back is used again";
}

// What deploy/slurm/README.md tells people to type leads to a run that ends.
TEST_F(Slurm, ThePageDoesWhatItSays) {
  const char* path = std::getenv("PATH");
  const char* programs = std::getenv("GIMBAL_BIN_DIR");
  const char* source = std::getenv("GIMBAL_SOURCE_DIR");
  ASSERT_TRUE(path && programs && source);
  const CommandResult page = test_support::Run(
      {"/usr/bin/env", std::string("PATH=") + programs + ":" + path,
       "/usr/bin/python3", "-B", std::string(source) + "/tests/slurm/page.py",
       folder_.path()},
      kLong);
  EXPECT_EQ(page.exit_code, 0) << page.output;
}

}  // namespace
}  // namespace gimbal
