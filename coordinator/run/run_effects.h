// What the run controller wants done in the world. The controller calls these;
// they do it (or fail) and never call back into the controller.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/checkpoint/snapshot_collector.h"
#include "coordinator/ledger/metrics_row.h"
#include "coordinator/run/recovery.h"
#include "gimbal/v1/control_service.pb.h"

namespace gimbal::coordinator {

// Numbers that grow by one each time and are never given twice, not even after
// a restart of the coordinator.
enum class Counter { kIncarnation, kGeneration };

// Why a stage has to start again.
enum class Loss { kConnection, kLease, kLink };
inline constexpr Loss kLosses[] = {Loss::kConnection, Loss::kLease,
                                   Loss::kLink};
// As metrics and the store have it.
constexpr const char* NameOf(Loss loss) {
  switch (loss) {
    case Loss::kConnection:
      return "connection";
    case Loss::kLease:
      return "lease";
    case Loss::kLink:
      return "link";
  }
  return "";
}

class RunEffects {
 public:
  virtual ~RunEffects() = default;

  // To the worker's session; nothing happens when it is gone.
  virtual void Send(int64_t worker, const v1::CoordinatorMessage& message) = 0;
  // Ends the worker's session with this status.
  virtual void Disconnect(int64_t worker, const absl::Status& reason) = 0;

  virtual absl::StatusOr<int64_t> Next(Counter counter) = 0;
  // Notes a decision and its reason for people and for a later replay.
  // `update`: at which it takes effect, or that it is about.
  virtual void Record(const std::string& what, const std::string& reason,
                      std::optional<int64_t> update) = 0;
  void Record(const std::string& what, const std::string& reason) {
    Record(what, reason, std::nullopt);
  }

  // All outlive the coordinator: History gives them back.
  virtual void StageRestarted(int stage, Loss loss) = 0;
  // Recovery `number`, from 0; again whenever more is known of it.
  virtual void SaveRecovery(int64_t number, const Recovery& recovery) = 0;
  virtual void SaveInterruption(const Interruption& interruption) = 0;
  virtual absl::Status SaveRefreshChange(const RefreshChange& change) = 0;
  // And with it, whole or not at all, takes back the refresh changes from
  // update `plans_from` on that nobody asked for.
  virtual absl::Status SaveLeftOut(const LeftOut& left_out,
                                   int64_t plans_from) = 0;
  // A minibatch with numbers that are not finite, whatever becomes of it.
  virtual void CountNotFinite() = 0;
  virtual absl::StatusOr<RunHistory> History() = 0;

  virtual absl::Status WriteRow(const MetricsRow& row) = 0;
  // So that they outlive this process.
  virtual absl::Status FlushRows() = 0;
  // The rows 1, 2, ... that are there.
  virtual absl::StatusOr<std::vector<MetricsRow>> Rows() = 0;
  // Drops the rows beyond update `last`; the rows 1 to `last`. DATA_LOSS, and
  // nothing is dropped, when they are not all there.
  virtual absl::StatusOr<std::vector<MetricsRow>> KeepRows(int64_t last) = 0;

  // Whether the committed checkpoint is where it was; not whether it is good.
  virtual bool HasCheckpoint(int64_t update) = 0;
  // Makes a whole checkpoint count; rows up to its update were written before.
  // An error means that it does not count.
  virtual absl::Status CommitCheckpoint(const CheckpointContent& content) = 0;
  virtual void GiveUpCheckpoint(int64_t update, const std::string& reason) = 0;
  // Checkpoints beyond `last` are void.
  virtual absl::Status DropCheckpointsAfter(int64_t last) = 0;
  // Nobody holds a stage: what was written for a checkpoint that never became
  // whole is of no use.
  virtual void RemoveUnfinishedCheckpoints() = 0;
  // Newest checkpoint that is whole on disk; 0 when none was ever committed.
  // DATA_LOSS when those that were are gone.
  virtual absl::StatusOr<int64_t> NewestCheckpoint() = 0;
};

}  // namespace gimbal::coordinator
