#include "common/config/run_config_io.h"

#include "common/base/status_macros.h"
#include "common/config/sources.h"
#include "common/config/validation.h"
#include "common/io/file.h"

namespace gimbal::config {

absl::StatusOr<v1::RunConfig> LoadRunConfig(
    const std::string& path, std::span<const std::string> overrides) {
  const absl::StatusOr<std::string> text = io::ReadFile(path);
  if (absl::IsNotFound(text.status())) return text.status();
  if (!text.ok()) return absl::InvalidArgumentError(text.status().message());
  return ParseRunConfig(*text, path, overrides);
}

absl::StatusOr<v1::RunConfig> ParseRunConfig(
    const std::string& text, const std::string& name,
    std::span<const std::string> overrides) {
  v1::RunConfig config;
  Origins origins;
  GIMBAL_RETURN_IF_ERROR(ReadYaml(text, name, config, origins));
  for (const std::string& override : overrides) {
    GIMBAL_RETURN_IF_ERROR(ApplyOverride(override, config, origins));
  }
  GIMBAL_RETURN_IF_ERROR(FillDefaults(name, origins, config));
  GIMBAL_RETURN_IF_ERROR(Validate(config, name, origins));
  return config;
}

}  // namespace gimbal::config
