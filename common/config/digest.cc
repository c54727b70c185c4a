#include "absl/strings/str_cat.h"
#include "common/config/run_config_io.h"
#include "common/config/schema.h"
#include "common/config/value_text.h"
#include "common/io/file.h"

namespace gimbal::config {

std::string ConfigDigest(const v1::RunConfig& config) {
  std::string text;
  for (const Key& key : AllKeys()) {
    if (!key.affects_numbers) continue;
    absl::StrAppend(&text, key.path, "=", ValueText(config, key), "\n");
  }
  return io::Sha256(text);
}

std::string FirstDifference(const v1::RunConfig& a, const v1::RunConfig& b) {
  for (const Key& key : AllKeys()) {
    if (!key.affects_numbers) continue;
    const std::string here = ValueText(a, key);
    const std::string there = ValueText(b, key);
    if (here != there) {
      return absl::StrCat(key.path, ": ", here, " here, ", there, " there");
    }
  }
  return "";
}

}  // namespace gimbal::config
