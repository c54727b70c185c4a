#include "coordinator/cli/sweep_curves.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace gimbal::cli {
namespace {

constexpr size_t kUpdates = 10;  // that a loss of the file is the mean of
constexpr size_t kHead = 5;      // fields before the losses

// As the file holds it.
double Rounded(double value, double per_unit) {
  return std::round(value * per_unit) / per_unit;
}

// "" or what is wrong with the fields.
std::string Parse(const std::vector<absl::string_view>& fields,
                  FinishedRun* run) {
  int64_t updates = 0;
  double seconds = 0, valid = 0;
  if (fields.size() <= kHead || fields[0].empty() || fields[1].empty() ||
      !absl::SimpleAtoi(fields[2], &updates) || updates < 1 ||
      !absl::SimpleAtod(fields[3], &seconds) ||
      (!fields[4].empty() && !absl::SimpleAtod(fields[4], &valid))) {
    return "expected run,digest,updates,seconds,valid loss,losses";
  }
  const size_t losses = fields.size() - kHead;
  if (losses != (updates + kUpdates - 1) / kUpdates) {
    return absl::StrCat("expected a loss for every ", kUpdates, " of ", updates,
                        " updates, found ", losses);
  }
  run->digest = std::string(fields[1]);
  run->record.label = std::string(fields[0]);
  for (int64_t t = 0; t < updates; ++t) {
    const absl::string_view loss = fields[kHead + t / kUpdates];
    MetricsRow row = {.step = t + 1};
    if (!absl::SimpleAtod(loss, &row.loss)) {
      return absl::StrCat("\"", loss, "\" is no loss");
    }
    run->record.rows.push_back(row);
  }
  run->record.rows.back().seconds = seconds;
  if (!fields[4].empty()) run->record.rows.back().valid_loss = valid;
  return "";
}

}  // namespace

FinishedRun Condense(const std::string& digest, const RunRecord& record) {
  FinishedRun run = {.digest = digest, .record = {.label = record.label}};
  const size_t updates = record.rows.size();
  std::optional<double> valid;
  for (size_t first = 0; first < updates; first += kUpdates) {
    const size_t end = std::min(first + kUpdates, updates);
    double sum = 0;
    for (size_t t = first; t < end; ++t) {
      sum += record.rows[t].loss;
      if (record.rows[t].valid_loss) valid = record.rows[t].valid_loss;
    }
    const double mean = Rounded(sum / static_cast<double>(end - first), 1e5);
    for (size_t t = first; t < end; ++t) {
      run.record.rows.push_back(
          {.step = static_cast<int64_t>(t + 1), .loss = mean});
    }
  }
  run.record.rows.back().seconds = Rounded(record.rows.back().seconds, 10);
  if (valid) run.record.rows.back().valid_loss = Rounded(*valid, 1e5);
  return run;
}

std::string CurvesCsv(const FinishedRuns& runs) {
  std::string csv;
  for (const auto& [name, run] : runs) {
    const std::vector<MetricsRow>& rows = run.record.rows;
    absl::StrAppendFormat(&csv, "%s,%s,%d,%.1f,", name, run.digest, rows.size(),
                          rows.back().seconds);
    if (rows.back().valid_loss) {
      absl::StrAppendFormat(&csv, "%.5f", *rows.back().valid_loss);
    }
    for (size_t t = 0; t < rows.size(); t += kUpdates) {
      absl::StrAppendFormat(&csv, ",%.5f", rows[t].loss);
    }
    csv += "\n";
  }
  return csv;
}

absl::StatusOr<FinishedRuns> ParseCurves(const std::string& text,
                                         const std::string& name) {
  FinishedRuns runs;
  int line = 0;
  for (const absl::string_view at : absl::StrSplit(text, '\n')) {
    ++line;
    if (at.empty()) continue;
    const std::vector<absl::string_view> fields = absl::StrSplit(at, ',');
    FinishedRun run;
    const std::string wrong = Parse(fields, &run);
    if (!wrong.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, ":", line, ": ", wrong,
                       "; delete the line to train that run anew"));
    }
    runs[run.record.label] = std::move(run);
  }
  return runs;
}

}  // namespace gimbal::cli
