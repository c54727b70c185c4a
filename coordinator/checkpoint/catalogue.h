// The checkpoints of a run on disk: which count, which is the newest good one,
// which may go.
//
//   Catalogue catalogue(root, keep);
//   catalogue.RemoveLeftovers();           // once, before the run starts
//   catalogue.Commit(manifest);            // all files were written
//   catalogue.FindNewestGood();            // 0: none
//
// A folder counts from the moment its COMMIT is on disk; `latest` follows, and
// only then older ones are pruned. Not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/checkpoint/manifest.h"

namespace gimbal::coordinator {

// Updates of the committed checkpoints below `root`, ascending; empty when the
// folder does not exist. Whether they are good is not looked at.
std::vector<int64_t> CommittedCheckpoints(const std::string& root);

struct NewestGood {
  int64_t update = 0;  // 0: there is none
  // Why newer ones were passed over; each names the bad file.
  std::vector<absl::Status> passed_over;
};
// Verifies sizes and hashes, from the newest committed checkpoint down.
NewestGood FindNewestGood(const std::string& root);

class Catalogue {
 public:
  // `keep`: how many of the newest committed checkpoints stay.
  Catalogue(std::string root, int keep) : root_(std::move(root)), keep_(keep) {}

  const std::string& root() const { return root_; }
  std::string Folder(int64_t update) const;

  // Removes step folders without COMMIT: what a crash left behind.
  absl::Status RemoveLeftovers() const;
  // Checks that every file is there with its size, then writes the manifest,
  // COMMIT and `latest`, then prunes. On an error the checkpoint does not
  // count.
  absl::Status Commit(const Manifest& manifest) const;
  // Makes `latest` name this checkpoint; 0: there is none. A crash between
  // COMMIT and `latest` leaves an older name, so whoever takes a run up says
  // what it found.
  absl::Status SetLatest(int64_t update) const;
  // Removes what there is of a checkpoint that will never be whole.
  void Discard(int64_t update) const;

 private:
  void Prune(int64_t newest) const;

  std::string root_;
  int keep_;
};

}  // namespace gimbal::coordinator
