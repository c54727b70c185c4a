#include "coordinator/store/sqlite_run_store.h"

#include <sqlite3.h>

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/status_macros.h"

namespace gimbal::coordinator {
namespace {

constexpr int kSchemaVersion = 5;
constexpr char kSchema[] = R"(
  CREATE TABLE identity(
    only_row INTEGER PRIMARY KEY CHECK(only_row = 1),
    run_id TEXT NOT NULL, config_digest TEXT NOT NULL,
    config_yaml TEXT NOT NULL, data TEXT NOT NULL);
  CREATE TABLE counters(name TEXT PRIMARY KEY, value INTEGER NOT NULL);
  CREATE TABLE checkpoints(
    update_number INTEGER PRIMARY KEY, unix_seconds REAL NOT NULL);
  CREATE TABLE recoveries(
    number INTEGER PRIMARY KEY, stage INTEGER NOT NULL, reason TEXT NOT NULL,
    detected_seconds REAL NOT NULL, recovered_seconds REAL NOT NULL,
    steps_replayed INTEGER NOT NULL);
  CREATE TABLE interruptions(
    number INTEGER PRIMARY KEY, begin_seconds REAL NOT NULL,
    end_seconds REAL NOT NULL);
  CREATE TABLE refresh_changes(
    number INTEGER PRIMARY KEY, from_update INTEGER NOT NULL,
    policy INTEGER NOT NULL, period REAL NOT NULL, periods TEXT NOT NULL,
    reason TEXT NOT NULL, asked INTEGER NOT NULL);
  CREATE TABLE left_out(
    number INTEGER PRIMARY KEY, first_update INTEGER NOT NULL,
    last_update INTEGER NOT NULL, kind TEXT NOT NULL, reason TEXT NOT NULL,
    generation INTEGER NOT NULL);
  CREATE TABLE decisions(
    number INTEGER PRIMARY KEY, unix_seconds REAL NOT NULL,
    what TEXT NOT NULL, reason TEXT NOT NULL,
    update_number INTEGER, generation INTEGER NOT NULL);
)";

using Connection = std::unique_ptr<sqlite3, decltype(&sqlite3_close)>;

absl::Status Error(sqlite3* db, const std::string& path) {
  const int code = sqlite3_errcode(db);
  if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB) {
    return absl::DataLossError(absl::StrCat(
        path, ": is damaged (", sqlite3_errmsg(db),
        "); put it back from a copy of the run folder: without it nobody knows "
        "what the run has decided. `gimbal generate` and `gimbal eval` need "
        "only the checkpoints"));
  }
  return absl::InternalError(absl::StrCat(path, ": ", sqlite3_errmsg(db)));
}

// Numbers as text that reads back to the same bits.
std::string ExactText(const std::vector<double>& numbers) {
  return absl::StrJoin(numbers, ",", [](std::string* out, double number) {
    absl::StrAppendFormat(out, "%.17g", number);
  });
}

absl::StatusOr<std::vector<double>> NumbersOf(const std::string& text) {
  std::vector<double> numbers;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    double number = 0;
    if (!absl::SimpleAtod(part, &number)) {
      return absl::DataLossError(
          absl::StrCat("'", part, "' in a stored refresh plan is no number"));
    }
    numbers.push_back(number);
  }
  return numbers;
}

// One statement; parameters and columns are numbered from 0.
class Statement {
 public:
  Statement(sqlite3* db, const std::string& path, const char* sql)
      : db_(db), path_(path), statement_(nullptr, &sqlite3_finalize) {
    sqlite3_stmt* raw = nullptr;
    failed_ = sqlite3_prepare_v2(db, sql, -1, &raw, nullptr) != SQLITE_OK;
    statement_.reset(raw);
  }

  void Bind(int index, int64_t value) {
    Note(sqlite3_bind_int64(statement_.get(), index + 1, value));
  }
  void Bind(int index, double value) {
    Note(sqlite3_bind_double(statement_.get(), index + 1, value));
  }
  void Bind(int index, const std::string& value) {
    Note(sqlite3_bind_text(statement_.get(), index + 1, value.data(),
                           static_cast<int>(value.size()), SQLITE_TRANSIENT));
  }
  // True when there is a row.
  absl::StatusOr<bool> Step() {
    if (failed_) return Error(db_, path_);
    const int code = sqlite3_step(statement_.get());
    if (code == SQLITE_ROW) return true;
    if (code == SQLITE_DONE) return false;
    return Error(db_, path_);
  }
  absl::Status Run() { return Step().status(); }

  int64_t Int(int column) const {
    return sqlite3_column_int64(statement_.get(), column);
  }
  std::optional<int64_t> MaybeInt(int column) const {
    if (sqlite3_column_type(statement_.get(), column) == SQLITE_NULL) return {};
    return Int(column);
  }
  double Real(int column) const {
    return sqlite3_column_double(statement_.get(), column);
  }
  std::string Text(int column) const {
    const auto* text = reinterpret_cast<const char*>(
        sqlite3_column_text(statement_.get(), column));
    return std::string(text, sqlite3_column_bytes(statement_.get(), column));
  }

 private:
  void Note(int code) { failed_ = failed_ || code != SQLITE_OK; }

  sqlite3* db_;
  const std::string& path_;
  std::unique_ptr<sqlite3_stmt, decltype(&sqlite3_finalize)> statement_;
  bool failed_ = false;
};

class SqliteRunStore final : public RunStore {
 public:
  SqliteRunStore(Connection db, std::string path)
      : db_(std::move(db)), path_(std::move(path)) {}

  absl::Status Prepare() {
    GIMBAL_RETURN_IF_ERROR(Execute("PRAGMA journal_mode = WAL"));
    GIMBAL_RETURN_IF_ERROR(Execute("PRAGMA synchronous = FULL"));
    Statement version(db_.get(), path_, "PRAGMA user_version");
    GIMBAL_RETURN_IF_ERROR(version.Run());
    if (version.Int(0) == kSchemaVersion) return absl::OkStatus();
    if (version.Int(0) != 0) {
      return absl::FailedPreconditionError(
          absl::StrCat(path_, ": has schema ", version.Int(0), ", expected ",
                       kSchemaVersion, "; use the release that wrote it"));
    }
    return Execute(absl::StrCat("BEGIN;", kSchema, "PRAGMA user_version = ",
                                kSchemaVersion, ";COMMIT"));
  }

  absl::StatusOr<std::optional<RunIdentity>> Identity() override {
    Statement query =
        Make("SELECT run_id, config_digest, config_yaml, data FROM identity");
    GIMBAL_ASSIGN_OR_RETURN(const bool found, query.Step());
    if (!found) return std::nullopt;
    return RunIdentity{query.Text(0), query.Text(1), query.Text(2),
                       query.Text(3)};
  }

  absl::Status SetIdentity(const RunIdentity& identity) override {
    GIMBAL_ASSIGN_OR_RETURN(const auto held, Identity());
    if (held.has_value()) {
      return absl::AlreadyExistsError(
          absl::StrCat(path_, " holds run ", held->run_id));
    }
    Statement insert = Make("INSERT INTO identity VALUES(1, ?, ?, ?, ?)");
    insert.Bind(0, identity.run_id);
    insert.Bind(1, identity.config_digest);
    insert.Bind(2, identity.config_yaml);
    insert.Bind(3, identity.data);
    return insert.Run();
  }

  absl::Status ChangeLayout(const LayoutChange& change) override {
    return Atomically([&] { return WriteLayout(change); });
  }

  absl::StatusOr<int64_t> Next(const std::string& counter) override {
    Statement upsert = Make(
        "INSERT INTO counters VALUES(?, 1) "
        "ON CONFLICT(name) DO UPDATE SET value = value + 1 RETURNING value");
    upsert.Bind(0, counter);
    GIMBAL_RETURN_IF_ERROR(upsert.Run());
    const int64_t value = upsert.Int(0);
    // The row is durable only once the statement has run to its end.
    GIMBAL_RETURN_IF_ERROR(upsert.Run());
    return value;
  }

  absl::StatusOr<int64_t> Count(const std::string& counter) override {
    Statement query = Make("SELECT value FROM counters WHERE name = ?");
    query.Bind(0, counter);
    GIMBAL_ASSIGN_OR_RETURN(const bool found, query.Step());
    return found ? query.Int(0) : 0;
  }

  absl::Status AddCheckpoint(int64_t update, double unix_seconds) override {
    Statement insert = Make("INSERT OR REPLACE INTO checkpoints VALUES(?, ?)");
    insert.Bind(0, update);
    insert.Bind(1, unix_seconds);
    return insert.Run();
  }

  absl::StatusOr<std::vector<int64_t>> Checkpoints() override {
    Statement query =
        Make("SELECT update_number FROM checkpoints ORDER BY update_number");
    std::vector<int64_t> updates;
    while (true) {
      GIMBAL_ASSIGN_OR_RETURN(const bool found, query.Step());
      if (!found) return updates;
      updates.push_back(query.Int(0));
    }
  }

  absl::Status SaveRecovery(int64_t number, const Recovery& recovery) override {
    Statement insert =
        Make("INSERT OR REPLACE INTO recoveries VALUES(?, ?, ?, ?, ?, ?)");
    insert.Bind(0, number);
    insert.Bind(1, int64_t{recovery.stage});
    insert.Bind(2, recovery.reason);
    insert.Bind(3, recovery.detected_seconds);
    insert.Bind(4, recovery.recovered_seconds);
    insert.Bind(5, recovery.steps_replayed);
    return insert.Run();
  }

  absl::StatusOr<std::vector<Recovery>> Recoveries() override {
    Statement query = Make(
        "SELECT stage, reason, detected_seconds, recovered_seconds, "
        "steps_replayed FROM recoveries ORDER BY number");
    std::vector<Recovery> recoveries;
    while (true) {
      GIMBAL_ASSIGN_OR_RETURN(const bool found, query.Step());
      if (!found) return recoveries;
      recoveries.push_back({.stage = static_cast<int>(query.Int(0)),
                            .reason = query.Text(1),
                            .detected_seconds = query.Real(2),
                            .recovered_seconds = query.Real(3),
                            .steps_replayed = query.Int(4)});
    }
  }

  absl::Status AddInterruption(const Interruption& interruption) override {
    Statement insert = Make(
        "INSERT INTO interruptions(begin_seconds, end_seconds) VALUES(?, ?)");
    insert.Bind(0, interruption.begin);
    insert.Bind(1, interruption.end);
    return insert.Run();
  }

  absl::StatusOr<std::vector<Interruption>> Interruptions() override {
    Statement query = Make(
        "SELECT begin_seconds, end_seconds FROM interruptions ORDER BY number");
    std::vector<Interruption> interruptions;
    while (true) {
      GIMBAL_ASSIGN_OR_RETURN(const bool found, query.Step());
      if (!found) return interruptions;
      interruptions.push_back({query.Real(0), query.Real(1)});
    }
  }

  absl::Status AddRefreshChange(const RefreshChange& change) override {
    Statement insert = Make(
        "INSERT INTO refresh_changes(from_update, policy, period, periods, "
        "reason, asked) VALUES(?, ?, ?, ?, ?, ?)");
    insert.Bind(0, change.from);
    insert.Bind(1, int64_t{change.policy});
    insert.Bind(2, change.period);
    insert.Bind(3, ExactText(change.periods));
    insert.Bind(4, change.reason);
    insert.Bind(5, int64_t{change.asked});
    return insert.Run();
  }

  absl::StatusOr<std::vector<RefreshChange>> RefreshChanges() override {
    Statement query = Make(
        "SELECT from_update, policy, period, periods, reason, asked "
        "FROM refresh_changes ORDER BY number");
    std::vector<RefreshChange> changes;
    while (true) {
      GIMBAL_ASSIGN_OR_RETURN(const bool found, query.Step());
      if (!found) return changes;
      GIMBAL_ASSIGN_OR_RETURN(std::vector<double> periods,
                              NumbersOf(query.Text(3)));
      changes.push_back({.from = query.Int(0),
                         .policy = static_cast<int>(query.Int(1)),
                         .period = query.Real(2),
                         .periods = std::move(periods),
                         .reason = query.Text(4),
                         .asked = query.Int(5) != 0});
    }
  }

  absl::Status ForgetCheckpointsAfter(int64_t last) override {
    Statement remove = Make("DELETE FROM checkpoints WHERE update_number > ?");
    remove.Bind(0, last);
    return remove.Run();
  }

  absl::Status AddLeftOut(const LeftOut& left_out,
                          int64_t plans_from) override {
    return Atomically([&] { return WriteLeftOut(left_out, plans_from); });
  }

  absl::StatusOr<std::vector<LeftOut>> LeftOuts() override {
    Statement query = Make(
        "SELECT first_update, last_update, kind, reason, generation "
        "FROM left_out ORDER BY number");
    std::vector<LeftOut> left_outs;
    while (true) {
      GIMBAL_ASSIGN_OR_RETURN(const bool found, query.Step());
      if (!found) return left_outs;
      left_outs.push_back({.first = query.Int(0),
                           .last = query.Int(1),
                           .kind = query.Text(2),
                           .reason = query.Text(3),
                           .generation = query.Int(4)});
    }
  }

  absl::Status AddDecision(const StoredDecision& decision) override {
    Statement insert = Make(
        "INSERT INTO decisions(unix_seconds, what, reason, update_number, "
        "generation) VALUES(?, ?, ?, ?, ?)");
    insert.Bind(0, decision.unix_seconds);
    insert.Bind(1, decision.what);
    insert.Bind(2, decision.reason);
    // What is not bound is null.
    if (decision.update) insert.Bind(3, *decision.update);
    insert.Bind(4, decision.generation);
    return insert.Run();
  }

  absl::StatusOr<bool> Holds(const StoredDecision& decision) override {
    Statement query = Make(
        "SELECT 1 FROM decisions "
        "WHERE unix_seconds = ? AND what = ? AND reason = ?");
    query.Bind(0, decision.unix_seconds);
    query.Bind(1, decision.what);
    query.Bind(2, decision.reason);
    return query.Step();
  }

  absl::StatusOr<int64_t> DecisionCount() override {
    Statement query = Make("SELECT COUNT(*) FROM decisions");
    GIMBAL_RETURN_IF_ERROR(query.Step().status());
    return query.Int(0);
  }

  absl::StatusOr<std::vector<StoredDecision>> Decisions(int limit) override {
    Statement query = Make(
        "SELECT unix_seconds, what, reason, update_number, generation "
        "FROM decisions "
        "ORDER BY number DESC LIMIT ?");
    query.Bind(0, int64_t{limit});
    std::vector<StoredDecision> decisions;
    while (true) {
      GIMBAL_ASSIGN_OR_RETURN(const bool found, query.Step());
      if (!found) break;
      decisions.push_back({.unix_seconds = query.Real(0),
                           .what = query.Text(1),
                           .reason = query.Text(2),
                           .update = query.MaybeInt(3),
                           .generation = query.Int(4)});
    }
    std::reverse(decisions.begin(), decisions.end());
    return decisions;
  }

  absl::StatusOr<std::string> LastReason(const std::string& what) override {
    Statement query = Make(
        "SELECT reason FROM decisions WHERE what = ? "
        "ORDER BY number DESC LIMIT 1");
    query.Bind(0, what);
    GIMBAL_ASSIGN_OR_RETURN(const bool found, query.Step());
    return found ? query.Text(0) : std::string();
  }

 private:
  // All that `write` writes, or nothing.
  template <typename Write>
  absl::Status Atomically(Write write) {
    GIMBAL_RETURN_IF_ERROR(Execute("BEGIN IMMEDIATE"));
    absl::Status written = write();
    if (written.ok()) written = Execute("COMMIT");
    if (!written.ok()) Execute("ROLLBACK").IgnoreError();
    return written;
  }

  // Inside a transaction.
  absl::Status WriteLeftOut(const LeftOut& left_out, int64_t plans_from) {
    Statement insert = Make(
        "INSERT INTO left_out(first_update, last_update, kind, reason, "
        "generation) VALUES(?, ?, ?, ?, ?)");
    insert.Bind(0, left_out.first);
    insert.Bind(1, left_out.last);
    insert.Bind(2, left_out.kind);
    insert.Bind(3, left_out.reason);
    insert.Bind(4, left_out.generation);
    GIMBAL_RETURN_IF_ERROR(insert.Run());
    Statement remove = Make(
        "DELETE FROM refresh_changes WHERE asked = 0 AND from_update >= ?");
    remove.Bind(0, plans_from);
    return remove.Run();
  }

  // Likewise.
  absl::Status WriteLayout(const LayoutChange& change) {
    GIMBAL_ASSIGN_OR_RETURN(const auto held, Identity());
    if (!held.has_value()) {
      return absl::NotFoundError(absl::StrCat(path_, " holds no run"));
    }
    Statement update =
        Make("UPDATE identity SET config_digest = ?, config_yaml = ?");
    update.Bind(0, change.config_digest);
    update.Bind(1, change.config_yaml);
    GIMBAL_RETURN_IF_ERROR(update.Run());
    GIMBAL_RETURN_IF_ERROR(Execute("DELETE FROM refresh_changes"));
    for (const RefreshChange& refresh : change.refresh_changes) {
      GIMBAL_RETURN_IF_ERROR(AddRefreshChange(refresh));
    }
    GIMBAL_RETURN_IF_ERROR(AddDecision(change.decision));
    return Next("generation").status();
  }

  Statement Make(const char* sql) { return Statement(db_.get(), path_, sql); }

  absl::Status Execute(const std::string& sql) {
    if (sqlite3_exec(db_.get(), sql.c_str(), nullptr, nullptr, nullptr) !=
        SQLITE_OK) {
      return Error(db_.get(), path_);
    }
    return absl::OkStatus();
  }

  Connection db_;
  std::string path_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RunStore>> OpenSqliteRunStore(
    const std::string& path) {
  sqlite3* raw = nullptr;
  const int code = sqlite3_open(path.c_str(), &raw);
  Connection db(raw, &sqlite3_close);
  if (code != SQLITE_OK) return Error(raw, path);
  auto store = std::make_unique<SqliteRunStore>(std::move(db), path);
  GIMBAL_RETURN_IF_ERROR(store->Prepare());
  return std::unique_ptr<RunStore>(std::move(store));
}

}  // namespace gimbal::coordinator
