#include "common/config/paths.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/base/utf8.h"

namespace gimbal::config {

absl::StatusOr<std::string> AbsolutePath(const std::string& what,
                                         const std::string& path) {
  if (path.empty()) return path;
  std::error_code error;
  const auto absolute = std::filesystem::absolute(path, error);
  if (error) {
    return absl::ErrnoToStatus(error.value(), absl::StrCat(what, ": ", path));
  }
  std::string text = absolute.lexically_normal().string();
  if (!base::IsValidUtf8(text)) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": ", base::ValidUtf8(text),
                     ": the name is not UTF-8; rename the folder or file"));
  }
  return text;
}

absl::Status ResolvePaths(v1::RunConfig& config) {
  v1::DataSection& data = *config.mutable_data();
  GIMBAL_ASSIGN_OR_RETURN(*data.mutable_train(),
                          AbsolutePath("data.train", data.train()));
  GIMBAL_ASSIGN_OR_RETURN(*data.mutable_valid(),
                          AbsolutePath("data.valid", data.valid()));
  v1::CheckpointSection& checkpoint = *config.mutable_checkpoint();
  GIMBAL_ASSIGN_OR_RETURN(*checkpoint.mutable_dir(),
                          AbsolutePath("checkpoint.dir", checkpoint.dir()));
  v1::ClusterSection& cluster = *config.mutable_cluster();
  if (cluster.has_tls()) {
    v1::TlsSection& tls = *cluster.mutable_tls();
    GIMBAL_ASSIGN_OR_RETURN(*tls.mutable_ca(),
                            AbsolutePath("cluster.tls.ca", tls.ca()));
    GIMBAL_ASSIGN_OR_RETURN(*tls.mutable_cert(),
                            AbsolutePath("cluster.tls.cert", tls.cert()));
    GIMBAL_ASSIGN_OR_RETURN(*tls.mutable_key(),
                            AbsolutePath("cluster.tls.key", tls.key()));
  }
  GIMBAL_ASSIGN_OR_RETURN(
      *cluster.mutable_token_file(),
      AbsolutePath("cluster.token_file", cluster.token_file()));
  return absl::OkStatus();
}

}  // namespace gimbal::config
