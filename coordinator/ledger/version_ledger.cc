#include "coordinator/ledger/version_ledger.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace gimbal::coordinator {
namespace {

void NoteIfNotFinite(double value, const std::string& what, MetricsRow* row) {
  if (std::isfinite(value) || !row->not_finite.empty()) return;
  row->not_finite = absl::StrCat(what, " is ", value);
}

bool SameBits(double a, double b) {
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

}  // namespace

VersionLedger::VersionLedger(const worker::ScheduleSpec& schedule,
                             int64_t start)
    : schedule_(schedule),
      versions_(schedule.stages, start),
      told_(versions_),
      rows_taken_(start) {}

absl::Status VersionLedger::Record(const v1::StageUpdate& report) {
  const int stage = report.stage();
  const int64_t update = report.update();
  if (stage < 0 || stage >= schedule_.stages) {
    return absl::InternalError(absl::StrCat(
        "report of stage ", stage, ", expected 0 to ", schedule_.stages - 1));
  }
  if (update != told_[stage] + 1) {
    return absl::InternalError(absl::StrCat("stage ", stage,
                                            " reported update ", update,
                                            ", expected ", told_[stage] + 1));
  }
  const int64_t expected = worker::ExpectedStaleness(schedule_, stage, update);
  if (report.staleness() != expected) {
    return absl::InternalError(absl::StrCat(
        "staleness of update ", update, " at stage ", stage, " is ",
        report.staleness(), ", the schedule expects ", expected));
  }
  told_[stage] = update;
  if (update <= versions_[stage]) return CheckReplay(report);
  versions_[stage] = update;

  const size_t index = update - rows_taken_ - 1;
  while (open_.size() <= index) {
    OpenRow& open = open_.emplace_back();
    open.row.step = rows_taken_ + static_cast<int64_t>(open_.size());
    open.row.staleness.resize(schedule_.stages);
    open.square_sums.resize(schedule_.stages);
  }
  OpenRow& open = open_[index];
  ++open.reported;
  open.square_sums[stage] = report.gradient_square_sum();
  open.row.staleness[stage] = report.staleness();
  if (report.has_basis()) {
    open.row.offdiagonal_ratios.resize(schedule_.stages);
    open.row.offdiagonal_ratios[stage] = report.basis().offdiagonal_ratio();
  }
  if (report.has_loss()) {
    open.loss = report.loss();
    NoteIfNotFinite(report.loss(), "the loss", &open.row);
  }
  NoteIfNotFinite(report.gradient_square_sum(),
                  absl::StrCat("the sum of squared gradients of stage ", stage),
                  &open.row);
  if (report.weights_not_finite() && open.row.not_finite.empty()) {
    open.row.not_finite =
        absl::StrCat("a weight of stage ", stage, " is infinite or no number");
  }
  return absl::OkStatus();
}

absl::Status VersionLedger::Record(const v1::Evaluation& report) {
  const int last = schedule_.stages - 1;
  const int64_t index = report.update() - rows_taken_ - 1;
  // A replay tells what is known.
  if (index < 0 && report.update() <= told_[last]) return absl::OkStatus();
  if (report.update() > versions_[last] || index < 0 ||
      !evaluated_.contains(report.update())) {
    return absl::InternalError(
        absl::StrCat("held-out loss of update ", report.update(),
                     " was reported, the last stage stands at ",
                     versions_[last], " and no such evaluation is open"));
  }
  MetricsRow& row = open_[index].row;
  std::optional<double>& loss = row.valid_loss;
  if (loss.has_value() && !SameBits(*loss, report.loss())) {
    return absl::InternalError(absl::StrCat(
        "the replay gave the held-out loss ", report.loss(), " at update ",
        report.update(), ", it was ", *loss, " before"));
  }
  loss = report.loss();
  NoteIfNotFinite(report.loss(), "the held-out loss", &row);
  return absl::OkStatus();
}

absl::Status VersionLedger::CheckReplay(const v1::StageUpdate& report) const {
  const int64_t index = report.update() - rows_taken_ - 1;
  if (index < 0) return absl::OkStatus();  // its row is written
  const OpenRow& open = open_[index];
  const bool same =
      SameBits(open.square_sums[report.stage()],
               report.gradient_square_sum()) &&
      (!report.has_loss() ||
       (open.loss.has_value() && SameBits(*open.loss, report.loss())));
  if (same) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(
      "the replay of stage ", report.stage(), " gave other numbers for update ",
      report.update(), " than the first run: one of them is wrong"));
}

bool VersionLedger::Complete(const OpenRow& open) const {
  return open.reported == schedule_.stages && open.loss.has_value() &&
         (open.row.valid_loss.has_value() ||
          !evaluated_.contains(open.row.step));
}

std::vector<MetricsRow> VersionLedger::TakeRows() {
  std::vector<MetricsRow> rows;
  while (!open_.empty() && Complete(open_.front())) {
    OpenRow& open = open_.front();
    // In stage order: the sum must not depend on who reported first.
    double square_sum = 0;
    for (double sum : open.square_sums) square_sum += sum;
    open.row.grad_norm = std::sqrt(square_sum);
    open.row.loss = *open.loss;
    evaluated_.erase(open.row.step);
    rows_taken_ = open.row.step;
    rows.push_back(std::move(open.row));
    open_.pop_front();
  }
  return rows;
}

int64_t VersionLedger::common_version() const {
  return *std::min_element(versions_.begin(), versions_.end());
}

}  // namespace gimbal::coordinator
