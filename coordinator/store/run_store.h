// What must survive the coordinator: who the run is, the counters that are
// never given out twice, what was lost and recovered, and the decisions with
// their reasons. Checkpoints and
// metrics are files of their own; the store notes which checkpoints were
// committed.
//
// Every write is durable when it returns. Errors name the store and the reason.
// Not thread-safe; runs on the coordinator's loop.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/run/recovery.h"

namespace gimbal::coordinator {

struct RunIdentity {
  std::string run_id;
  std::string config_digest;
  std::string config_yaml;  // resolved, to say what differs on --resume
  std::string data;         // fingerprint of the contents, not of the paths

  friend bool operator==(const RunIdentity&, const RunIdentity&) = default;
};

struct StoredDecision {
  double unix_seconds = 0;
  std::string what;
  std::string reason;
  std::optional<int64_t> update;  // as RunEffects::Record has it
  int64_t generation = 0;  // under which it was made; 0: before the first

  friend bool operator==(const StoredDecision&,
                         const StoredDecision&) = default;
};

// What changes when a run goes over to other stages.
struct LayoutChange {
  std::string config_digest;
  std::string config_yaml;
  std::vector<RefreshChange> refresh_changes;  // instead of all that there are
  StoredDecision decision;
};

class RunStore {
 public:
  virtual ~RunStore() = default;

  // Nothing in a new store.
  virtual absl::StatusOr<std::optional<RunIdentity>> Identity() = 0;
  // ALREADY_EXISTS when the store has one.
  virtual absl::Status SetIdentity(const RunIdentity& identity) = 0;

  // Takes the change over into the identity, whole or not at all, and skips a
  // generation: what is held of the former stages counts no more. NOT_FOUND
  // without an identity.
  virtual absl::Status ChangeLayout(const LayoutChange& change) = 0;

  // Adds one to a named counter that starts at 0; the new value.
  virtual absl::StatusOr<int64_t> Next(const std::string& counter) = 0;
  // Value of a named counter.
  virtual absl::StatusOr<int64_t> Count(const std::string& counter) = 0;

  // Notes a commit; again for one that was written anew.
  virtual absl::Status AddCheckpoint(int64_t update, double unix_seconds) = 0;
  // Takes back the notes of commits beyond `last`.
  virtual absl::Status ForgetCheckpointsAfter(int64_t last) = 0;
  // Updates committed, ascending.
  virtual absl::StatusOr<std::vector<int64_t>> Checkpoints() = 0;

  // Recovery `number`, from 0; a second call replaces it.
  virtual absl::Status SaveRecovery(int64_t number,
                                    const Recovery& recovery) = 0;
  // By number.
  virtual absl::StatusOr<std::vector<Recovery>> Recoveries() = 0;

  virtual absl::Status AddInterruption(const Interruption& interruption) = 0;
  // In the order in which they were added.
  virtual absl::StatusOr<std::vector<Interruption>> Interruptions() = 0;

  virtual absl::Status AddRefreshChange(const RefreshChange& change) = 0;
  // In the order in which they were added.
  virtual absl::StatusOr<std::vector<RefreshChange>> RefreshChanges() = 0;

  // And takes back the refresh changes from update `plans_from` on that nobody
  // asked for, whole or not at all.
  virtual absl::Status AddLeftOut(const LeftOut& left_out,
                                  int64_t plans_from) = 0;
  // In the order in which they were added.
  virtual absl::StatusOr<std::vector<LeftOut>> LeftOuts() = 0;

  virtual absl::Status AddDecision(const StoredDecision& decision) = 0;
  // Whether one of this time, name and reason was added.
  virtual absl::StatusOr<bool> Holds(const StoredDecision& decision) = 0;
  // The newest `limit`, newest last.
  virtual absl::StatusOr<std::vector<StoredDecision>> Decisions(int limit) = 0;
  virtual absl::StatusOr<int64_t> DecisionCount() = 0;
  // Reason of the newest decision of this name; empty when there is none.
  virtual absl::StatusOr<std::string> LastReason(const std::string& what) = 0;
};

}  // namespace gimbal::coordinator
