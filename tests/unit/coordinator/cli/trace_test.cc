#include "coordinator/cli/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "common/io/file.h"
#include "common/trace/trace_file.h"
#include "coordinator/cli/exit_code.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace gimbal::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class TraceMergeCommand : public ::testing::Test {
 protected:
  // A file of one worker with so many forwards; its path.
  std::string Record(const std::string& worker, int64_t spans) {
    auto file =
        trace::TraceFile::Create(dir_ / "run/trace", {.worker = worker});
    for (int64_t i = 0; i < spans; ++i) {
      const trace::Span span = {
          .begin_ns = 10 * i, .end_ns = 10 * i + 5, .index = i};
      EXPECT_THAT((*file)->Append({&span, 1}), test_support::IsOk());
    }
    return (*file)->path();
  }
  // Returns the exit code; what it says of errors is in said_.
  int Merge(const std::string& out = "") {
    ::testing::internal::CaptureStderr();
    const int code = RunTraceMerge({.run_dir = dir_ / "run/", .out = out});
    said_ = ::testing::internal::GetCapturedStderr();
    return code;
  }
  // Of spans in the merged trace.
  static int64_t Count(const std::string& path) {
    const auto json = nlohmann::json::parse(*io::ReadFile(path));
    return std::ranges::count_if(json.at("traceEvents"), [](const auto& event) {
      return event.at("ph") == "X";
    });
  }

  const test_support::TempDir dir_;
  std::string said_;
};

// Each of these once failed the whole merge, or the program.
TEST_F(TraceMergeCommand, LeavesOutWhatIsNoTraceAndSaysSo) {
  Record("a", 3);
  std::ofstream(dir_ / "run/trace/empty.trace").flush();
  std::ofstream(dir_ / "run/trace/other.trace") << "no trace\n";
  std::filesystem::create_directory(dir_ / "run/trace/folder.trace");
  EXPECT_EQ(Merge(), kDone);
  EXPECT_THAT(said_, AllOf(HasSubstr("empty.trace: it is empty"),
                           HasSubstr("other.trace: it does not begin as"),
                           HasSubstr("folder.trace"), HasSubstr("; left out")));
  EXPECT_EQ(Count(dir_ / "run/trace/trace.json"), 3);
}

TEST_F(TraceMergeCommand, TakesWhatStandsAheadOfADamage) {
  const std::string path = Record("a", 3);
  std::ofstream(path, std::ios::app) << std::string(sizeof(trace::Span), '\0');
  EXPECT_EQ(Merge(), kDone);
  EXPECT_THAT(said_, AllOf(HasSubstr(path), HasSubstr("the 3 records ahead")));
  EXPECT_EQ(Count(dir_ / "run/trace/trace.json"), 3);
}

TEST_F(TraceMergeCommand, SaysNothingOfAWorkerThatWasKilledWhileItWrote) {
  const std::string path = Record("a", 3);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  EXPECT_EQ(Merge(), kDone);
  EXPECT_THAT(said_, Not(HasSubstr(path)));
  EXPECT_EQ(Count(dir_ / "run/trace/trace.json"), 2);
}

// As with every other command.
TEST_F(TraceMergeCommand, MakesTheFolderOfItsFile) {
  Record("a", 3);
  EXPECT_EQ(Merge(dir_ / "missing/folder/x.json"), kDone);
  EXPECT_EQ(Count(dir_ / "missing/folder/x.json"), 3);
}

// It once read all there was, made the folder, and then could not write.
TEST_F(TraceMergeCommand, WritesToAFileOnly) {
  Record("a", 3);
  std::filesystem::create_directory(dir_ / "folder");
  for (const char* name : {"folder", "missing/"}) {
    EXPECT_EQ(Merge(dir_ / name), kBadUsage);
    EXPECT_THAT(said_, AllOf(HasSubstr(name), HasSubstr("is a folder")));
  }
  EXPECT_FALSE(std::filesystem::exists(dir_ / "missing"));
}

TEST_F(TraceMergeCommand, SaysWhenThereIsNoRun) {
  EXPECT_EQ(Merge(), kBadUsage);
  EXPECT_THAT(said_, HasSubstr("run/: not a run folder"));
}

TEST_F(TraceMergeCommand, FailsWhenThereIsNothingToMerge) {
  ASSERT_THAT(io::WriteFileAtomically(dir_ / "run/config.yaml", ""),
              test_support::IsOk());
  EXPECT_EQ(Merge(), kBadUsage);
  EXPECT_THAT(said_, HasSubstr("no trace was recorded"));
  Record("a", 0);
  EXPECT_EQ(Merge(), kBadUsage);
  EXPECT_THAT(said_, HasSubstr("nothing is recorded yet"));
  std::filesystem::remove_all(dir_ / "run/trace");
  std::filesystem::create_directory(dir_ / "run/trace");
  std::ofstream(dir_ / "run/trace/empty.trace").flush();
  EXPECT_EQ(Merge(), kBadUsage);
  EXPECT_THAT(said_, HasSubstr("none of its 1 trace files can be read"));
}

}  // namespace
}  // namespace gimbal::cli
