// An authority and certificates that deploy/certs.sh makes in a folder.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "common/rpc/credentials.h"
#include "tests/support/command.h"

namespace gimbal::test_support {

class TestCertificates {
 public:
  explicit TestCertificates(std::string folder) : folder_(std::move(folder)) {
    Run({"ca"});
  }

  // For NAME and localhost, signed again when they are there already.
  rpc::SecurityFiles Make(const std::string& name, int days = 2) const {
    setenv("DAYS", std::to_string(days).c_str(), 1);
    Run({"host", name});
    unsetenv("DAYS");
    return {.ca = folder_ + "/ca.pem",
            .cert = folder_ + "/" + name + ".pem",
            .key = folder_ + "/" + name + ".key",
            .token = ""};
  }

 private:
  void Run(const std::vector<std::string>& arguments) const {
    std::vector<std::string> argv = {
        std::string(std::getenv("GIMBAL_SOURCE_DIR")) + "/deploy/certs.sh",
        folder_};
    argv.insert(argv.end(), arguments.begin(), arguments.end());
    const CommandResult result = test_support::Run(argv);
    ASSERT_EQ(result.exit_code, 0) << result.output;
  }

  const std::string folder_;
};

}  // namespace gimbal::test_support
