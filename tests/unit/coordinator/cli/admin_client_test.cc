#include "coordinator/cli/admin_client.h"

#include <gtest/gtest.h>

#include "common/io/checkpoint_layout.h"
#include "common/io/file.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace gimbal::cli {
namespace {

using absl::StatusCode;
using test_support::IsOk;
using test_support::StatusIs;
using test_support::TempDir;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class CoordinatorAddressTest : public testing::Test {
 protected:
  void Write(const std::string& name, const std::string& text) {
    ASSERT_THAT(io::WriteFileAtomically(run_ + "/" + name, text), IsOk());
  }
  void MakeRun(int64_t committed) {
    Write("config.yaml",
          "run: {steps: 10}\ndata: {train: a}\n"
          "model: {layers: 1, hidden: 8, heads: 2, context: 16}\n");
    Write(
        "checkpoints/" + io::StepFolderName(committed) + "/" + io::kCommitFile,
        "");
  }

  const TempDir dir_;
  const std::string run_ = dir_ / "my run";
};

TEST_F(CoordinatorAddressTest, IsThatOfTheServingOne) {
  EXPECT_THAT(CoordinatorAddress(run_),
              StatusIs(StatusCode::kNotFound, HasSubstr("not a run folder")));
  MakeRun(5);
  Write("coordinator.json", R"({"address": "127.0.0.1:5", "pid": 1})");
  ASSERT_OK_AND_ASSIGN(const std::string address, CoordinatorAddress(run_));
  EXPECT_EQ(address, "127.0.0.1:5");
}

TEST_F(CoordinatorAddressTest, ARunThatEndedEarlyCanBeGoneOnWith) {
  MakeRun(5);
  EXPECT_THAT(CoordinatorAddress(run_),
              StatusIs(StatusCode::kNotFound,
                       HasSubstr("--run-dir '" + run_ + "' --resume`")));
}

// A finished run was once said to go on with --resume.
TEST_F(CoordinatorAddressTest, AFinishedRunIsNotResumed) {
  MakeRun(10);
  EXPECT_THAT(CoordinatorAddress(run_),
              StatusIs(StatusCode::kNotFound,
                       AllOf(HasSubstr("all its updates are done"),
                             Not(HasSubstr("--resume")))));
}

}  // namespace
}  // namespace gimbal::cli
