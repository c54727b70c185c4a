// The checkpoints of a run on disk: which count, which is the newest good one,
// which may go.
//
//   GIMBAL_RETURN_IF_ERROR(CheckUnused(root));      // a new run
//   Catalogue catalogue(root, run_id, keep);
//   GIMBAL_RETURN_IF_ERROR(catalogue.Claim());      // once, before the run
//   catalogue.RemoveLeftovers();                    // no worker holds a stage
//   catalogue.Commit(manifest);                     // all files were written
//   FindNewestGood(root, run_id).update;            // 0: none
//
// One run owns the folder: ROOT/run names it, and so does every manifest.
// A checkpoint of another run is never read, never removed.
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
#include "gimbal/v1/run_config.pb.h"

namespace gimbal::coordinator {

// Folder of a run's checkpoints.
std::string CheckpointRoot(const std::string& run_dir,
                           const v1::RunConfig& config);

// Updates of the committed checkpoints below `root`, ascending; empty when the
// folder does not exist. Whether they are good is not looked at.
std::vector<int64_t> CommittedCheckpoints(const std::string& root);

struct NewestGood {
  int64_t update = 0;  // 0: there is none
  // Why newer ones were passed over; each names the bad file.
  std::vector<absl::Status> passed_over;
};
// Verifies sizes and hashes, from the newest committed checkpoint down. With a
// `run_id`, those of other runs are passed over without a word.
NewestGood FindNewestGood(const std::string& root,
                          const std::string& run_id = "");

// ALREADY_EXISTS when some run owns the folder or has step folders in it.
absl::Status CheckUnused(const std::string& root);

class Catalogue {
 public:
  // `keep`: how many of the newest committed checkpoints of the run stay. That
  // of update `origin` stays as well: nobody could go back beyond it.
  Catalogue(std::string root, std::string run_id, int keep, int64_t origin = 0)
      : root_(std::move(root)),
        run_id_(std::move(run_id)),
        keep_(keep),
        origin_(origin) {}

  const std::string& root() const { return root_; }
  std::string Folder(int64_t update) const;

  // Makes the folder this run's. FAILED_PRECONDITION when it is another's, by
  // ROOT/run or by a committed checkpoint.
  absl::Status Claim() const;
  // Removes step folders without COMMIT: what a crash left behind.
  absl::Status RemoveLeftovers() const;
  // Removes the committed checkpoints of the run beyond update `last`; others
  // may be written just now. Whether committed ones are left.
  absl::StatusOr<bool> RemoveAfter(int64_t last) const;
  // Checks that every file is there with its size, then writes the manifest,
  // COMMIT and `latest`, then prunes, also step folders that were given up. On
  // an error the checkpoint does not count; what goes wrong after COMMIT is a
  // warning.
  absl::Status Commit(const Manifest& manifest) const;
  // Makes `latest` name this checkpoint; 0: there is none. A crash between
  // COMMIT and `latest` leaves an older name, so whoever takes a run up says
  // what it found.
  absl::Status SetLatest(int64_t update) const;

 private:
  void Prune(int64_t newest) const;

  std::string root_;
  std::string run_id_;
  int keep_;
  int64_t origin_;
};

}  // namespace gimbal::coordinator
