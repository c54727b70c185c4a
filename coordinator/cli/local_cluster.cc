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
#include "common/net/address.h"
#include "coordinator/cli/admin_client.h"
#include "coordinator/cli/exit_code.h"

namespace gimbal::cli {
namespace {

using std::chrono::milliseconds;

constexpr base::Seconds kLongStart(5);
// A worker that the coordinator has given up and that has not registered again
// after this is hung. One that was never there may still be loading its
// libraries, and after a coordinator's restart all have to find it.
constexpr base::Seconds kAway(2);
constexpr base::Seconds kNeverCame(60);
constexpr base::Seconds kFindsAgain(8);
// Between two answers: after a longer silence (a machine that slept) nothing is
// concluded from the first one.
constexpr base::Seconds kLongSilence(3);
constexpr base::Seconds kShortLife(5);
// A coordinator that has answered nothing for so long is hung, unless nobody
// has asked it in between (the whole job was stopped).
constexpr base::Seconds kNoAnswer(30);
constexpr base::Seconds kNotAsked(10);
constexpr int kMaxShortLives = 6;
// From the end of the first worker to that of the coordinator, which has a
// checkpoint's last files to write at most.
constexpr base::Seconds kEndGrace(60);
constexpr int kTailLines = 8;

base::SteadyTime Now() { return base::Clock::Real().Now(); }

// A process of the run that ends so was told to: the run is over.
bool IsRunsEnd(int code) {
  return code == kDone || code == kRunFailed || code == kInterrupted;
}

// 0.1 s after the first early end, doubled for each further one.
milliseconds Backoff(int short_lives) {
  return milliseconds(100 << std::clamp(short_lives - 1, 0, 5));
}

}  // namespace

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
  GIMBAL_RETURN_IF_ERROR(cluster->StartCoordinator());
  if (cluster->coordinator_exit()) return cluster;
  const int workers = options.workers + options.spares;
  cluster->workers_.resize(static_cast<size_t>(workers));
  for (int i = 0; i < workers; ++i) {
    GIMBAL_RETURN_IF_ERROR(cluster->StartWorker(i, Now()));
  }
  return cluster;
}

absl::Status LocalCluster::StartCoordinator() {
  const std::string& dir = options_.run_dir;
  std::vector<std::string> argv = {options_.bin_dir + "/gimbal-coordinator",
                                   "--config",
                                   "/dev/stdin",
                                   "--run-dir",
                                   dir,
                                   "--workers",
                                   std::to_string(options_.workers),
                                   "--log-level",
                                   options_.log_level,
                                   "--log-format",
                                   options_.log_format};
  if (options_.resume) argv.push_back("--resume");
  // A second life has to be where the workers look for it.
  if (!address_.empty()) {
    argv.push_back("--listen");
    argv.push_back(net::HostOf(options_.listen) +
                   address_.substr(address_.rfind(':')));
  }
  // And where a browser looks for its page.
  if (!http_address_.empty()) {
    argv.push_back("--metrics-listen");
    argv.push_back(http_address_);
  }
  NoteLogBegin("coordinator");
  coordinator_started_ = Now();
  unanswered_since_.reset();
  GIMBAL_ASSIGN_OR_RETURN(
      coordinator_,
      ChildProcess::Start(argv, LogPath("coordinator"), options_.config));
  return WaitUntilServing();
}

absl::Status LocalCluster::WaitUntilServing() {
  const base::SteadyTime begin = Now();
  base::SteadyTime told = begin;
  while (true) {
    const auto serving = ReadCoordinatorFile(options_.run_dir);
    // Of another pid: left behind by a coordinator that was killed.
    if (serving.ok() && serving->pid == coordinator_->pid()) {
      address_ = serving->address;
      http_address_ = serving->metrics_address;
      return absl::OkStatus();
    }
    if (const std::optional<int> code = coordinator_->Poll()) {
      // Killed, and not the first one: Supervise starts it again.
      const bool killed = *code > 128 && !address_.empty();
      if (killed || IsRunsEnd(*code)) return absl::OkStatus();
      const std::string what =
          absl::StrCat("the coordinator ended with exit code ", *code,
                       " before it served; ", LogTail("coordinator"));
      return *code == kBadUsage ? absl::FailedPreconditionError(what)
                                : absl::InternalError(what);
    }
    if (Now() - told >= kLongStart) {
      told = Now();
      const auto seconds =
          std::chrono::duration_cast<std::chrono::seconds>(told - begin);
      options_.notice(absl::StrCat("the coordinator reads the data and the ",
                                   "checkpoint, ", seconds.count(),
                                   " s so far"));
    }
    if (options_.wait(milliseconds(10))) {
      return absl::CancelledError("interrupted before the run began");
    }
  }
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

std::optional<int> LocalCluster::coordinator_exit() {
  const std::optional<int> code = coordinator_->Poll();
  // Ended by a signal, so not by its own decision; before it served nobody
  // waits for it.
  const bool killed = code && *code > 128 && !address_.empty() && !finished_;
  return killed ? std::nullopt : code;
}

// It finds the run in its folder, and the workers, which still hold their
// stages, find it.
absl::Status LocalCluster::ReviveCoordinator(base::SteadyTime now) {
  const std::optional<int> code = coordinator_->Poll();
  if (!code) return absl::OkStatus();
  const bool early = now - coordinator_started_ < kShortLife;
  coordinator_short_lives_ = early ? coordinator_short_lives_ + 1 : 1;
  if (coordinator_short_lives_ > kMaxShortLives) {
    return absl::InternalError(absl::StrCat(
        "the coordinator ended ", kMaxShortLives, " times right after its ",
        "start, last with exit code ", *code, "; ", LogTail("coordinator")));
  }
  options_.notice(absl::StrCat("the coordinator ended with exit code ", *code,
                               "; starts again"));
  if (options_.wait(Backoff(coordinator_short_lives_))) {
    return absl::CancelledError("interrupted without a coordinator");
  }
  options_.resume = true;
  // They have to find the new one first.
  for (Worker& worker : workers_) {
    worker.patience = std::max(worker.patience, kFindsAgain);
  }
  noted_.reset();
  return StartCoordinator();
}

absl::Status LocalCluster::Supervise(base::SteadyTime now) {
  if (coordinator_exit()) return absl::OkStatus();
  GIMBAL_RETURN_IF_ERROR(ReviveCoordinator(now));
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

void LocalCluster::NoteNoAnswer(base::SteadyTime now) {
  const bool asked = unanswered_ && now - *unanswered_ < kNotAsked;
  unanswered_ = now;
  if (!unanswered_since_ || !asked) unanswered_since_ = now;
  if (now - *unanswered_since_ < kNoAnswer) return;
  unanswered_since_.reset();
  options_.notice(
      absl::StrCat("the coordinator hangs: it has not answered for ",
                   kNoAnswer.count(), " s; kills it"));
  coordinator_->Signal(SIGKILL);
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
  coordinator_->Kill();
  finished_ = true;
}

}  // namespace gimbal::cli
