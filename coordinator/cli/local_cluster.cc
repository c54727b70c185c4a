#include "coordinator/cli/local_cluster.h"

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <set>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/status_macros.h"
#include "common/io/file.h"
#include "coordinator/cli/exit_code.h"

namespace gimbal::cli {
namespace {

using std::chrono::milliseconds;

// A worker that the coordinator has given up and that has not registered again
// after this is hung. One that was never there may still be loading its
// libraries, and after a coordinator's restart all have to find it.
constexpr base::Seconds kAway(2);
constexpr base::Seconds kNeverCame(60);
// Between two answers: after a longer silence (a machine that slept) nothing is
// concluded from the first one.
constexpr base::Seconds kLongSilence(3);
// From the end of the first worker to that of the coordinator, which has a
// checkpoint's last files to write at most.
constexpr base::Seconds kEndGrace(60);
constexpr int kTailLines = 8;

base::SteadyTime Now() { return base::Clock::Real().Now(); }

}  // namespace

bool LocalCluster::IsRunsEnd(int code) {
  return code == kDone || code == kRunFailed || code == kInterrupted;
}

milliseconds LocalCluster::Backoff(int times) {
  return milliseconds(100 << std::clamp(times - 1, 0, 5));
}

std::string ProgramFolder() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path();
}

std::string LocalCluster::LogPath(const std::string& process) const {
  return absl::StrCat(options_.run_dir, "/logs/", process, ".log");
}

std::string LocalCluster::LogTail(const std::string& process) const {
  const absl::StatusOr<std::string> text = io::ReadFile(LogPath(process));
  if (!text.ok()) return "";
  const auto begin = log_begins_.find(process);
  const size_t skipped = begin == log_begins_.end() ? 0 : begin->second;
  std::vector<std::string> lines = absl::StrSplit(
      text->substr(std::min(skipped, text->size())), '\n', absl::SkipEmpty());
  const size_t first =
      lines.size() > kTailLines ? lines.size() - kTailLines : 0;
  std::string tail = absl::StrCat("end of ", LogPath(process), ":\n");
  for (size_t i = first; i < lines.size(); ++i) {
    absl::StrAppend(&tail, "  ", lines[i], "\n");
  }
  return tail;
}

void LocalCluster::NoteLogBegin(const std::string& process) {
  std::error_code error;
  const auto size = std::filesystem::file_size(LogPath(process), error);
  log_begins_[process] = error ? 0 : static_cast<size_t>(size);
}

absl::StatusOr<std::unique_ptr<LocalCluster>> LocalCluster::Start(
    const ClusterOptions& options) {
  std::unique_ptr<LocalCluster> cluster(new LocalCluster(options));
  GIMBAL_RETURN_IF_ERROR(cluster->StartFirstCoordinator());
  if (cluster->coordinator_exit()) return cluster;
  const int workers = options.workers + options.spares;
  cluster->workers_.resize(static_cast<size_t>(workers));
  for (int i = 0; i < workers; ++i) {
    GIMBAL_RETURN_IF_ERROR(cluster->StartWorker(i, Now()));
  }
  return cluster;
}

absl::Status LocalCluster::StartWorker(int index, base::SteadyTime now) {
  const std::string name = absl::StrCat("worker-", index);
  Worker& worker = workers_[index];
  std::vector<std::string> argv = {options_.bin_dir + "/gimbal-worker",
                                   "--coordinator",
                                   address_,
                                   "--name",
                                   name,
                                   "--log-level",
                                   options_.log_level,
                                   "--log-format",
                                   options_.log_format,
                                   "--stop-signals",
                                   options_.stop_signals,
                                   "--device",
                                   options_.device};
  // What the environment says they inherit.
  const auto add = [&](const char* flag, const std::string& value) {
    if (!value.empty()) argv.insert(argv.end(), {flag, value});
  };
  if (options_.gpus > 0) add("--gpu", absl::StrCat(index % options_.gpus));
  add("--tls-ca", options_.security.ca);
  add("--tls-cert", options_.security.cert);
  add("--tls-key", options_.security.key);
  add("--token-file", options_.security.token);
  GIMBAL_ASSIGN_OR_RETURN(worker.process,
                          ChildProcess::Start(argv, LogPath(name)));
  worker.started = now;
  worker.patience = kNeverCame;
  worker.absent_since.reset();
  return absl::OkStatus();
}

absl::Status LocalCluster::Supervise(base::SteadyTime now) {
  if (coordinator_exit()) return absl::OkStatus();
  GIMBAL_RETURN_IF_ERROR(SuperviseCoordinator(now));
  for (int i = 0; i < static_cast<int>(workers_.size()); ++i) {
    Worker& worker = workers_[i];
    if (worker.ended) {
      GIMBAL_RETURN_IF_ERROR(CheckEnd(i, now));
      continue;
    }
    if (!worker.process) {
      if (now >= worker.restart_at) GIMBAL_RETURN_IF_ERROR(StartWorker(i, now));
      continue;
    }
    const std::optional<int> code = worker.process->Poll();
    if (!code) continue;
    if (IsRunsEnd(*code)) {
      worker.ended = now;
      continue;
    }
    const bool early = now - worker.started < kShortLife;
    worker.short_lives = early ? worker.short_lives + 1 : 1;
    if (worker.short_lives > kMaxShortLives) {
      return absl::InternalError(
          absl::StrCat("worker-", i, " ended ", kMaxShortLives,
                       " times right after its start, last with exit code ",
                       *code, "; ", LogTail(absl::StrCat("worker-", i))));
    }
    const milliseconds pause = Backoff(worker.short_lives);
    options_.notice(absl::StrCat("worker-", i, " ended with exit code ", *code,
                                 "; starts again in ", pause.count(), " ms"));
    worker.process.reset();
    worker.restart_at = now + pause;
  }
  return absl::OkStatus();
}

void LocalCluster::NoteStatus(const v1::GetStatusResponse& status,
                              base::SteadyTime now) {
  unanswered_since_.reset();
  if (!serving_) return;  // it has yet to hear of them
  const bool silence = !noted_ || now - *noted_ > kLongSilence;
  noted_ = now;
  std::set<int64_t> pids;
  for (const v1::WorkerView& view : status.workers()) pids.insert(view.pid());
  for (size_t i = 0; i < workers_.size(); ++i) {
    Worker& worker = workers_[i];
    if (!worker.process || worker.ended) continue;
    if (pids.contains(worker.process->pid())) {
      worker.patience = kAway;
      worker.absent_since.reset();
      continue;
    }
    if (!worker.absent_since || silence) worker.absent_since = now;
    const base::Seconds away = now - *worker.absent_since;
    if (away < worker.patience) continue;
    options_.notice(absl::StrCat("worker-", i, " hangs: the coordinator has ",
                                 "not heard of it; kills it"));
    worker.process->Signal(SIGKILL);
    worker.absent_since = now;
  }
}

absl::Status LocalCluster::CheckEnd(int index, base::SteadyTime now) {
  Worker& worker = workers_[index];
  if (now - *worker.ended < kEndGrace) return absl::OkStatus();
  const std::string name = absl::StrCat("worker-", index);
  return absl::InternalError(
      absl::StrCat(name, " ended with exit code ", *worker.process->Poll(),
                   ", but the coordinator still runs after ", kEndGrace.count(),
                   " s; ", LogTail(name)));
}

void LocalCluster::Finish(base::Seconds grace) {
  const base::SteadyTime deadline =
      Now() + std::chrono::duration_cast<milliseconds>(grace);
  for (Worker& worker : workers_) {
    if (worker.process) worker.process->Signal(SIGTERM);
  }
  const auto running = [](Worker& worker) {
    return worker.process && !worker.process->Poll();
  };
  while (Now() < deadline &&
         std::any_of(workers_.begin(), workers_.end(), running)) {
    std::this_thread::sleep_for(milliseconds(10));
  }
  for (Worker& worker : workers_) {
    if (worker.process) worker.process->Kill();
  }
  if (coordinator_) coordinator_->Kill();
  finished_ = true;
}

}  // namespace gimbal::cli
