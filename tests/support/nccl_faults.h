// Faults of the look-alike NCCL (tests/cuda_host/nccl_end.h), which a test
// asks for.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/temp_dir.h"

namespace gimbal::test_support {

// For this process and those it starts, while this lives.
class NcclFaults {
 public:
  NcclFaults() {
    setenv("GIMBAL_NCCL_HOST_FAULTS", folder_.path().c_str(), /*overwrite=*/1);
  }
  ~NcclFaults() { unsetenv("GIMBAL_NCCL_HOST_FAULTS"); }

  // It happens once, in whatever end meets it first.
  void Ask(const std::string& fault) { std::ofstream(folder_ / fault); }
  bool Met(const std::string& fault) const {
    return !std::filesystem::exists(folder_ / fault);
  }

 private:
  const TempDir folder_;
};

}  // namespace gimbal::test_support
