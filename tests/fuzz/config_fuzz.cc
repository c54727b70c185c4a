// The reader of configs: refuses or reads, and what it has read it can write
// and read again as the same run.
#include "common/config/run_config_io.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using gimbal::config::ConfigDigest;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto config = gimbal::config::ParseRunConfig(text, "fuzz.yaml", {});
  if (!config.ok()) {
    FUZZ_CHECK(!config.status().message().empty());
    return 0;
  }
  const auto again = gimbal::config::ParseRunConfig(
      gimbal::config::ToYaml(*config), "again.yaml", {});
  FUZZ_CHECK(again.ok());
  FUZZ_CHECK(ConfigDigest(*again) == ConfigDigest(*config));
  return 0;
}
