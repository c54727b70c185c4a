// A folder that appears whole or not at all: it is filled under another name
// beside its place and renamed by Commit; without a Commit the destructor
// removes it. Not thread-safe.
//
//   GIMBAL_ASSIGN_OR_RETURN(DraftFolder draft, DraftFolder::Make(path));
//   ... write below draft.path() ...
//   GIMBAL_RETURN_IF_ERROR(draft.Commit());
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace gimbal::io {

class DraftFolder {
 public:
  // Makes the parent folder. ALREADY_EXISTS when something is at `path`.
  static absl::StatusOr<DraftFolder> Make(const std::string& path);
  DraftFolder(DraftFolder&& other) noexcept;
  DraftFolder& operator=(DraftFolder&&) = delete;
  ~DraftFolder();

  // PATH.draft-PID, until it is committed.
  const std::string& path() const { return draft_; }
  absl::Status Commit();

 private:
  DraftFolder(std::string path, std::string draft);

  std::string path_;
  std::string draft_;  // empty once committed or moved from
};

}  // namespace gimbal::io
