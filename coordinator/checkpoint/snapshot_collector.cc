#include "coordinator/checkpoint/snapshot_collector.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace gimbal::coordinator {

absl::StatusOr<std::optional<CheckpointContent>> SnapshotCollector::Add(
    const v1::SnapshotWritten& snapshot) {
  const int stage = snapshot.stage();
  if (stage < 0 || stage >= stages_) {
    return absl::InternalError(absl::StrCat("snapshot of stage ", stage,
                                            ", expected 0 to ", stages_ - 1));
  }
  if (whole_.contains(snapshot.update())) return std::nullopt;
  Open& open = open_[snapshot.update()];
  open.written.resize(stages_);
  if (open.written[stage]) return std::nullopt;
  open.written[stage] = true;
  open.seconds = std::max(open.seconds, snapshot.seconds());
  const bool first_error = !snapshot.error().empty() && !open.given_up;
  if (!snapshot.error().empty()) open.given_up = true;
  for (const v1::CheckpointFile& file : snapshot.files()) {
    if (!open.files.emplace(file.path(), file).second) {
      return absl::InternalError(absl::StrCat(
          "two stages wrote ", file.path(), " at update ", snapshot.update()));
    }
  }
  CheckpointContent content{.update = snapshot.update(),
                            .seconds = open.seconds};
  const bool whole = std::all_of(open.written.begin(), open.written.end(),
                                 [](bool written) { return written; });
  if (whole && !open.given_up) {
    for (auto& [path, file] : open.files) content.files.push_back(file);
  }
  const bool good = whole && !open.given_up;
  if (whole) {
    open_.erase(snapshot.update());
    whole_.insert(snapshot.update());
  }
  if (first_error) {
    return absl::DataLossError(absl::StrCat("stage ", stage, " at update ",
                                            snapshot.update(), ": ",
                                            snapshot.error()));
  }
  if (!good) return std::nullopt;
  return content;
}

bool SnapshotCollector::Has(int stage, int64_t update) const {
  const auto open = open_.find(update);
  return whole_.contains(update) ||
         (open != open_.end() && open->second.written[stage]);
}

}  // namespace gimbal::coordinator
