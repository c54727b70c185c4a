#include "coordinator/cli/sweep.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/config/run_config_io.h"
#include "common/io/file.h"
#include "coordinator/cli/child_process.h"
#include "coordinator/cli/exit_code.h"
#include "coordinator/cli/format.h"
#include "coordinator/cli/local_cluster.h"
#include "coordinator/cli/run_record.h"
#include "coordinator/cli/signals.h"
#include "coordinator/cli/sweep_curves.h"
#include "coordinator/cli/sweep_report.h"
#include "coordinator/cli/sweep_spec.h"
#include "coordinator/cli/sweep_table.h"
#include "coordinator/cli/sweep_tuning.h"

namespace gimbal::cli {
namespace {

namespace fs = std::filesystem;

class Sweep {
 public:
  Sweep(SweepSpec spec, const SweepOptions& options)
      : spec_(std::move(spec)),
        out_(options.out),
        jobs_(options.jobs > 0 ? options.jobs : spec_.jobs),
        runs_(RunsOf(spec_)) {}

  // Every config of the grid is loaded, and compared with that of the run's
  // folder, before anything runs: a mistake shows in the first second.
  absl::Status Check() {
    std::error_code ignored;
    if (fs::exists(out_ + "/config.yaml", ignored)) {
      return absl::FailedPreconditionError(absl::StrCat(
          out_, ": is the folder of a run; give --out a folder of its own"));
    }
    std::set<std::string> names;
    for (const SweepRun& run : runs_) {
      const absl::StatusOr<v1::RunConfig> config =
          config::LoadRunConfig(spec_.config, run.overrides);
      if (!config.ok()) {
        return absl::InvalidArgumentError(absl::StrCat(
            run.name, ": ", absl::string_view(config.status().message())));
      }
      if (!names.insert(run.name).second) {
        return absl::InvalidArgumentError(
            absl::StrCat(run.name, ": the grid has this run twice"));
      }
      digests_[run.name] = config::ConfigDigest(*config);
      GIMBAL_RETURN_IF_ERROR(CheckHeld(run, *config));
    }
    return absl::OkStatus();
  }

  // From curves.csv, else from the run's folder.
  absl::Status ReadFinished() {
    const std::string path = out_ + "/curves.csv";
    std::error_code ignored;
    if (fs::exists(path, ignored)) {
      GIMBAL_ASSIGN_OR_RETURN(const std::string text, io::ReadFile(path));
      GIMBAL_ASSIGN_OR_RETURN(finished_, ParseCurves(text, path));
    }
    for (const SweepRun& run : runs_) {
      const auto held = finished_.find(run.name);
      if (held != finished_.end()) {
        if (held->second.digest != digests_.at(run.name)) {
          return absl::FailedPreconditionError(absl::StrCat(
              path, ": holds ", run.name,
              " of another config than this "
              "sweep's; give another --out, or delete the line to train that "
              "run anew"));
        }
        records_[run.name] = held->second.record;
      } else if (IsFinished(run)) {
        GIMBAL_RETURN_IF_ERROR(ReadRecord(run));
      }
    }
    return absl::OkStatus();
  }

  // The exit code.
  absl::StatusOr<int> Run() {
    const SignalQueue signals;
    std::vector<SweepRun> waiting = Waiting();
    std::printf("%zu runs, %zu of them done; %d at a time\n",
                waiting.size() + records_.size(), records_.size(), jobs_);
    const base::SteadyTime begin = base::Clock::Real().Now();
    size_t done = 0;
    bool stopping = false;
    while (!running_.empty() || (!stopping && !waiting.empty())) {
      while (!stopping && !waiting.empty() &&
             static_cast<int>(running_.size()) < jobs_) {
        GIMBAL_RETURN_IF_ERROR(Start(waiting.front()));
        waiting.erase(waiting.begin());
      }
      if (IsStop(signals.Wait(std::chrono::milliseconds(200)))) {
        if (stopping) return kInterrupted;  // the children are killed
        stopping = true;
        std::printf("stopping: each run ends at a checkpoint\n");
        for (Job& job : running_) job.child.Signal(SIGTERM);
      }
      GIMBAL_ASSIGN_OR_RETURN(const size_t ended, Reap());
      if (ended == 0 || stopping) continue;
      done += ended;
      waiting = Waiting();
      const size_t todo = waiting.size() + running_.size();
      const double seconds =
          base::Seconds(base::Clock::Real().Now() - begin).count();
      const double left =
          seconds / static_cast<double>(done) * static_cast<double>(todo);
      const size_t ready = records_.size() + failed_.size();
      std::printf("%zu/%zu done, about %s left%s\n", ready, ready + todo,
                  FormatDuration(left).c_str(),
                  spec_.climb ? " before learning rates move on" : "");
      std::fflush(stdout);
      if (!records_.empty()) GIMBAL_RETURN_IF_ERROR(WriteReport());
    }
    if (stopping) return kInterrupted;
    return failed_.empty() ? kDone : kRunFailed;
  }

  absl::Status Report() const {
    if (records_.empty()) {
      std::printf("no run is finished yet\n");
      return absl::OkStatus();
    }
    GIMBAL_RETURN_IF_ERROR(WriteReport());
    std::printf(
        "%s: runs.csv, curves.csv, table.md, loss.svg, slowdown.svg, "
        "updates.svg\n",
        out_.c_str());
    return absl::OkStatus();
  }

 private:
  struct Job {
    SweepRun run;
    ChildProcess child;
  };

  absl::Status WriteReport() const {
    GIMBAL_RETURN_IF_ERROR(
        io::WriteFileAtomically(out_ + "/curves.csv", CurvesCsv(finished_)));
    return WriteSweepReport(spec_, records_, out_);
  }

  absl::Status CheckHeld(const SweepRun& run,
                         const v1::RunConfig& config) const {
    const std::string path = DirOf(run) + "/config.yaml";
    std::error_code ignored;
    if (!fs::exists(path, ignored)) return absl::OkStatus();
    GIMBAL_ASSIGN_OR_RETURN(const v1::RunConfig held,
                            config::LoadRunConfig(path, {}));
    if (config::ConfigDigest(held) == config::ConfigDigest(config)) {
      return absl::OkStatus();
    }
    return absl::FailedPreconditionError(absl::StrCat(
        DirOf(run), ": holds a run of another config than this sweep's (",
        config::FirstDifference(config, held),
        "; `there` is that folder); give another --out, or delete the folder "
        "to train that run anew"));
  }

  // Wanted runs that neither ended nor run.
  std::vector<SweepRun> Waiting() const {
    std::vector<SweepRun> waiting = WantedRuns(spec_, records_, failed_);
    std::erase_if(waiting, [&](const SweepRun& run) {
      return records_.contains(run.name) || failed_.contains(run.name) ||
             std::ranges::any_of(running_, [&](const Job& job) {
               return job.run.name == run.name;
             });
    });
    return waiting;
  }

  std::string DirOf(const SweepRun& run) const {
    return absl::StrCat(out_, "/runs/", run.name);
  }
  std::string LogOf(const SweepRun& run) const {
    return absl::StrCat(out_, "/logs/", run.name, ".log");
  }

  // summary.json is written when a run has ended, whatever the end.
  bool IsFinished(const SweepRun& run) const {
    const absl::StatusOr<v1::RunConfig> config =
        config::LoadRunConfig(spec_.config, run.overrides);
    const absl::StatusOr<RunRecord> record = ReadRunRecord(DirOf(run));
    return config.ok() && record.ok() &&
           static_cast<int64_t>(record->rows.size()) >= config->run().steps();
  }

  absl::Status ReadRecord(const SweepRun& run) {
    GIMBAL_ASSIGN_OR_RETURN(RunRecord record, ReadRunRecord(DirOf(run)));
    record.label = run.name;
    finished_[run.name] = Condense(digests_.at(run.name), record);
    records_[run.name] = finished_.at(run.name).record;
    return absl::OkStatus();
  }

  absl::Status Start(const SweepRun& run) {
    GIMBAL_RETURN_IF_ERROR(io::MakeFolders(absl::StrCat(out_, "/runs")));
    GIMBAL_RETURN_IF_ERROR(io::MakeFolders(absl::StrCat(out_, "/logs")));
    std::vector<std::string> argv = {
        ProgramFolder() + "/gimbal",
        "train",
        spec_.config,
        "--run-dir",
        DirOf(run),
        "--workers",
        std::to_string(std::min(spec_.workers, run.stages)),
        "--log-every",
        "60"};
    for (const std::string& override : run.overrides) {
      argv.push_back("--set");
      argv.push_back(override);
    }
    std::error_code ignored;
    if (fs::exists(DirOf(run) + "/coordinator.db", ignored)) {
      argv.push_back("--resume");
    }
    std::printf("start %s\n", run.name.c_str());
    std::fflush(stdout);
    GIMBAL_ASSIGN_OR_RETURN(ChildProcess child,
                            ChildProcess::Start(argv, LogOf(run)));
    running_.push_back({run, std::move(child)});
    return absl::OkStatus();
  }

  // Takes in the runs that have ended; their number.
  absl::StatusOr<size_t> Reap() {
    size_t ended = 0;
    for (auto job = running_.begin(); job != running_.end();) {
      const std::optional<int> exit_code = job->child.Poll();
      if (!exit_code) {
        ++job;
        continue;
      }
      ++ended;
      const SweepRun run = job->run;
      job = running_.erase(job);
      if (*exit_code == kDone) {
        GIMBAL_RETURN_IF_ERROR(ReadRecord(run));
      } else if (*exit_code != kInterrupted) {
        failed_.insert(run.name);
        std::printf("%s failed with exit code %d, see %s\n", run.name.c_str(),
                    *exit_code, LogOf(run).c_str());
      }
    }
    return ended;
  }

  const SweepSpec spec_;
  const std::string out_;
  const int jobs_;
  const std::vector<SweepRun> runs_;
  std::map<std::string, std::string> digests_;  // by name of the run
  FinishedRuns finished_;  // those of another grid in this folder too
  SweepRecords records_;
  std::vector<Job> running_;
  std::set<std::string> failed_;
};

absl::StatusOr<int> Run(const SweepOptions& options) {
  GIMBAL_ASSIGN_OR_RETURN(SweepSpec spec, ReadSweepSpec(options.spec_path));
  Sweep sweep(std::move(spec), options);
  GIMBAL_RETURN_IF_ERROR(sweep.Check());
  GIMBAL_RETURN_IF_ERROR(sweep.ReadFinished());
  int exit_code = kDone;
  if (!options.report_only) {
    GIMBAL_ASSIGN_OR_RETURN(exit_code, sweep.Run());
  }
  GIMBAL_RETURN_IF_ERROR(sweep.Report());
  return exit_code;
}

}  // namespace

int RunSweep(const SweepOptions& options) {
  const absl::StatusOr<int> exit_code = Run(options);
  return exit_code.ok() ? *exit_code : Fail(exit_code.status());
}

}  // namespace gimbal::cli
