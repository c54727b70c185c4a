#include "coordinator/cli/train.h"

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/clock.h"
#include "common/base/duration.h"
#include "common/base/stop_signals.h"
#include "common/config/run_config_io.h"
#include "common/io/file.h"
#include "coordinator/checkpoint/catalogue.h"
#include "coordinator/cli/admin_client.h"
#include "coordinator/cli/display.h"
#include "coordinator/cli/exit_code.h"
#include "coordinator/cli/format.h"
#include "coordinator/cli/local_cluster.h"
#include "coordinator/cli/memory.h"
#include "coordinator/cli/run_follower.h"
#include "coordinator/cli/run_summary.h"
#include "coordinator/cli/signals.h"

namespace gimbal::cli {
namespace {

constexpr std::chrono::milliseconds kTick(200);
// How long a stop may take to write its checkpoint, and the workers to leave
// once the coordinator has.
// Beyond cluster.grace, in which the coordinator ends the run by itself.
constexpr base::Seconds kStopSlack(15);
constexpr base::Seconds kWorkerGrace(10);

// Without an answer. So long are later lives of a coordinator tried, too.
constexpr base::Seconds kPatience(60);

base::SteadyTime Now() { return base::Clock::Real().Now(); }
double UnixSeconds() { return base::Clock::Real().UnixSeconds(); }

// Signals that the config says end nothing.
std::set<int> IgnoredSignals(const v1::RunConfig& config) {
  std::set<int> ignored;
  for (const std::string_view name : base::kStopSignals) {
    ignored.insert(*base::StopSignal(name));
  }
  for (const std::string& name : config.cluster().stop_signals()) {
    ignored.erase(*base::StopSignal(name));
  }
  return ignored;
}

// What the coordinator has refused to run leaves no folder behind.
void TakeBack(const std::string& run_dir, bool made) {
  std::error_code error;
  if (!made || std::filesystem::exists(run_dir + "/config.yaml", error)) return;
  std::filesystem::remove_all(run_dir + "/logs", error);
  std::filesystem::remove(run_dir, error);
}

void PrintNext(const std::string& run_dir) {
  const std::string dir = ShellWord(run_dir);
  std::printf(
      "\nnext:\n"
      "  gimbal generate %s --prompt \"And \"    a sample of text\n"
      "  gimbal eval %s    loss over all held-out data\n"
      "  gimbal compare %s OTHER_RUN --plot loss.svg    two runs side by "
      "side\n",
      dir.c_str(), dir.c_str(), dir.c_str());
}

// The machine may still do it, with swap or when others leave it.
void WarnOfMemory(const v1::RunConfig& config) {
  const absl::StatusOr<int64_t> needed = PlannedBytes(config);
  if (!needed.ok()) return;
  const std::string warning = MemoryWarning(*needed, AvailableBytes());
  if (warning.empty()) return;
  std::fprintf(stderr, "gimbal: %s\n", warning.c_str());
}

// Tells how the run ended; `code` is the coordinator's.
int Report(int code, const std::string& run_dir, LocalCluster* cluster) {
  std::error_code error;
  if (!std::filesystem::exists(run_dir + "/config.yaml", error)) {
    std::fprintf(stderr,
                 "gimbal: the run failed: %s is gone: the run folder was "
                 "deleted or moved while the run went on\n",
                 run_dir.c_str());
    return kRunFailed;
  }
  const absl::StatusOr<RunSummary> summary = ReadRunSummary(run_dir);
  if (summary.ok()) std::printf("\n%s", FormatSummary(*summary).c_str());
  std::fflush(stdout);
  // Without a summary (a full disk) the log tells.
  const std::string reason =
      summary.ok() ? summary->exit_reason
                   : "no summary.json could be written; its log says more";
  switch (code) {
    case kDone:
      PrintNext(run_dir);
      return kDone;
    case kInterrupted:
      std::printf(
          "\nstopped: %s; `gimbal train --run-dir %s --resume` goes "
          "on with the same numbers\n",
          reason.c_str(), ShellWord(run_dir).c_str());
      return kInterrupted;
    case kRunFailed:
      std::fprintf(stderr, "gimbal: the run failed: %s\n%s", reason.c_str(),
                   cluster->LogTail("coordinator").c_str());
      return kRunFailed;
    default:
      std::fprintf(stderr,
                   "gimbal: the coordinator ended with exit code %d; %s"
                   "`gimbal train --run-dir %s --resume` goes on from the "
                   "newest checkpoint\n",
                   code, cluster->LogTail("coordinator").c_str(),
                   ShellWord(run_dir).c_str());
      return code == kBadUsage ? kBadUsage : kInternalError;
  }
}

// A run being watched until it ends; what ^C does to it.
class Watch {
 public:
  Watch(const TrainPlan& plan, const SignalQueue& signals, Display& display,
        LocalCluster& cluster)
      : signals_(signals),
        display_(display),
        cluster_(cluster),
        client_(cluster.address(), plan.credentials),
        follower_(cluster.address(), std::nullopt, Now()),
        stop_patience_(base::SecondsOf(plan.config.cluster().grace()) +
                       kStopSlack),
        ignored_(IgnoredSignals(plan.config)) {}

  // The coordinator's exit code; empty when the run had to be killed.
  std::optional<int> Run() {
    while (true) {
      if (const auto code = cluster_.coordinator_exit()) return code;
      if (const absl::Status status = cluster_.Supervise(Now()); !status.ok()) {
        Fail(status);
        interrupted_ = stop_deadline_.has_value();
        return std::nullopt;
      }
      const auto status = client_.GetStatus();
      // Of a coordinator that is being started again the cluster tells.
      if (!cluster_.serving()) {
        follower_ = RunFollower(cluster_.address(), std::nullopt, Now());
      } else if (const auto seen = follower_.Take(status, Now(), UnixSeconds());
                 seen.ok()) {
        display_.Show(*seen, Now());
      }
      if (status.ok()) {
        cluster_.NoteStatus(*status, Now());
      } else {
        cluster_.NoteNoAnswer(Now());
        // The next one may not know of it.
        stop_agreed_ = false;
      }
      if (Stops(signals_.Wait(kTick)) && !Stop()) return std::nullopt;
      if (stop_deadline_ && !stop_agreed_ && status.ok()) AskToStop();
      if (stop_deadline_ && Now() > *stop_deadline_) {
        display_.Note(absl::StrCat("the run does not end within ",
                                   stop_patience_.count(), " s: killing it"));
        interrupted_ = true;
        return std::nullopt;
      }
    }
  }

  // Somebody wanted the end, and no coordinator was there to bring it about.
  bool interrupted() const { return interrupted_; }

 private:
  bool Stops(int signal) const {
    return IsStop(signal) && !ignored_.contains(signal);
  }
  // False at the second request, which kills.
  bool Stop() {
    if (stop_deadline_) {
      if (Now() - asked_ < base::kSameRequest) return true;
      display_.Note("killed");
      return false;
    }
    asked_ = Now();
    stop_deadline_ =
        asked_ +
        std::chrono::duration_cast<base::SteadyTime::duration>(stop_patience_);
    display_.Note("stopping with a checkpoint; ^C again kills the run");
    AskToStop();
    // The coordinator takes TERM for the same request.
    if (!stop_agreed_) cluster_.SignalCoordinator(SIGTERM);
    return true;
  }
  void AskToStop() {
    v1::CommandRequest request;
    request.set_verb(v1::CommandRequest::VERB_STOP);
    request.set_reason("interrupted");
    stop_agreed_ = client_.Command(request).ok();
  }

  const SignalQueue& signals_;
  Display& display_;
  LocalCluster& cluster_;
  AdminClient client_;
  RunFollower follower_;
  const base::Seconds stop_patience_;
  const std::set<int> ignored_;
  bool interrupted_ = false;
  base::SteadyTime asked_;
  std::optional<base::SteadyTime> stop_deadline_;
  bool stop_agreed_ = false;  // by the coordinator
};

// The run was interrupted while no coordinator could end it.
int EndInterrupted(const TrainPlan& plan) {
  const std::vector<int64_t> committed = coordinator::CommittedCheckpoints(
      coordinator::CheckpointRoot(plan.run_dir, plan.config));
  if (committed.empty()) return kRunFailed;
  std::printf(
      "the newest checkpoint is that of update %lld; `gimbal train "
      "--run-dir %s --resume` goes on with the same numbers\n",
      static_cast<long long>(committed.back()),
      ShellWord(plan.run_dir).c_str());
  return kInterrupted;
}

int RunLocal(const TrainOptions& options, const SignalQueue& signals) {
  const absl::StatusOr<TrainPlan> plan =
      Preflight(options.request, base::Clock::Real().UnixSeconds());
  if (!plan.ok()) return Fail(plan.status());
  WarnOfMemory(plan->config);
  // Of the run's own files only the logs: the coordinator, which holds the
  // folder's lock, writes the others.
  std::error_code error;
  const bool made = !std::filesystem::exists(plan->run_dir, error);
  if (const absl::Status status = io::MakeFolders(plan->run_dir + "/logs");
      !status.ok()) {
    Fail(status);
    return kBadUsage;
  }
  std::printf("run folder %s: %d stages on %d workers%s\n",
              plan->run_dir.c_str(), plan->config.pipeline().stages(),
              plan->workers, plan->device == "cuda" ? " (CUDA)" : "");
  if (plan->stages_before > 0) {
    std::printf(
        "the run goes over to them from %d stages, at its newest "
        "checkpoint\n",
        plan->stages_before);
  }
  std::fflush(stdout);
  Display display(Display::OnTerminal(), options.log_every);
  const std::set<int> ignored = IgnoredSignals(plan->config);
  const auto cluster = LocalCluster::Start(
      {.bin_dir = ProgramFolder(),
       .run_dir = plan->run_dir,
       .config = config::ToYaml(plan->config),
       .listen = plan->config.cluster().listen(),
       .security = rpc::FilesOf(plan->config.cluster()),
       .workers = plan->workers,
       .spares = plan->config.cluster().spares(),
       .device = plan->device,
       .gpus = plan->gpus,
       .resume = options.request.resume,
       .log_level = options.log_level,
       .log_format = options.log_format,
       .stop_signals =
           absl::StrJoin(plan->config.cluster().stop_signals(), ","),
       .notice = [&](const std::string& text) { display.Note(text); },
       .wait =
           [&](std::chrono::milliseconds most) {
             const int signal = signals.Wait(most);
             return IsStop(signal) && !ignored.contains(signal);
           }});
  if (!cluster.ok()) {
    const int code = Fail(cluster.status());
    if (code == kBadUsage) TakeBack(plan->run_dir, made);
    return absl::IsCancelled(cluster.status()) ? EndInterrupted(*plan) : code;
  }
  if (const std::string& page = (*cluster)->http_address(); !page.empty()) {
    display.Note(absl::StrCat("status page http://", page, "/"));
  }
  Watch watch(*plan, signals, display, **cluster);
  const std::optional<int> code = watch.Run();
  display.Finish();
  (*cluster)->Finish(code ? kWorkerGrace : base::Seconds(0));
  if (!code) return watch.interrupted() ? EndInterrupted(*plan) : kRunFailed;
  return Report(*code, plan->run_dir, cluster->get());
}

// Follows a run that others started: ^C ends the watching, not the run.
int Follow(const TrainOptions& options, const SignalQueue& signals) {
  const auto credentials = ClientCredentials("");
  if (!credentials.ok()) return Fail(credentials.status());
  const AdminClient client(options.coordinator, *credentials);
  Display display(Display::OnTerminal(), options.log_every);
  RunFollower follower(options.coordinator, kPatience, Now());
  while (true) {
    const auto answer = client.WatchStatus();
    const auto seen = follower.Take(answer, Now(), UnixSeconds());
    if (!seen.ok()) {
      display.Finish();
      return Fail(seen.status());
    }
    display.Show(*seen, Now());
    if (seen->answered && seen->status->has_exit_code()) {
      display.Finish();
      std::printf("the run ended: %s\n", seen->status->reason().c_str());
      return seen->status->exit_code();
    }
    if (IsStop(signals.Wait(kTick))) {
      display.Finish();
      std::printf("the run goes on; `gimbal stop --coordinator %s` ends it\n",
                  options.coordinator.c_str());
      return kDone;
    }
  }
}

}  // namespace

int RunTrain(const TrainOptions& options) {
  const SignalQueue signals;  // before any other thread
  if (!options.coordinator.empty()) return Follow(options, signals);
  return RunLocal(options, signals);
}

}  // namespace gimbal::cli
