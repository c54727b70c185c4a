#include "coordinator/data_identity.h"

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/data/fingerprint.h"
#include "worker/pipeline/specs.h"

namespace gimbal::coordinator {

absl::StatusOr<std::string> DataIdentity(const v1::RunConfig& config) {
  const worker::DataFormat format = worker::DataFormatOf(config);
  GIMBAL_ASSIGN_OR_RETURN(
      const std::string train,
      worker::DataFingerprint(config.data().train(), format, "train"));
  std::string valid = "none";
  if (!config.data().valid().empty()) {
    GIMBAL_ASSIGN_OR_RETURN(
        valid, worker::DataFingerprint(config.data().valid(), format, "valid"));
  }
  return absl::StrCat("data.train is ", train, "\ndata.valid is ", valid);
}

}  // namespace gimbal::coordinator
