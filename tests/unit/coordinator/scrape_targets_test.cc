#include "coordinator/scrape_targets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "common/io/file.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace gimbal::coordinator {
namespace {

using ::testing::ElementsAre;

v1::GetStatusResponse Status() {
  v1::GetStatusResponse status;
  status.set_run_id("demo-1");
  for (const char* name : {"a", "b", "a", "coordinator"}) {
    v1::WorkerView& worker = *status.add_workers();
    worker.set_worker_id(status.workers_size());
    worker.set_name(name);
    worker.set_metrics_address("127.0.0.1:" +
                               std::to_string(100 + status.workers_size()));
  }
  return status;
}

std::vector<std::string> Lines(const v1::GetStatusResponse& status) {
  std::vector<std::string> lines;
  for (const auto& group :
       nlohmann::json::parse(ScrapeTargetsJson(status, "127.0.0.1:1"))) {
    const auto& labels = group.at("labels");
    EXPECT_EQ(labels.at("run"), "demo-1");
    lines.push_back(group.at("targets").at(0).get<std::string>() + " " +
                    labels.at("job").get<std::string>() + " " +
                    labels.at("instance").get<std::string>());
  }
  return lines;
}

TEST(ScrapeTargets, NamesEveryProcessOnce) {
  EXPECT_THAT(Lines(Status()),
              ElementsAre("127.0.0.1:1 gimbal-coordinator demo-1/coordinator",
                          "127.0.0.1:101 gimbal-worker demo-1/a",
                          "127.0.0.1:102 gimbal-worker demo-1/b",
                          "127.0.0.1:103 gimbal-worker demo-1/a-3",
                          "127.0.0.1:104 gimbal-worker demo-1/coordinator-4"));
}

TEST(ScrapeTargets, OnlyAFailedRunIsMissed) {
  v1::GetStatusResponse status = Status();
  status.set_exit_code(0);
  EXPECT_THAT(Lines(status), ElementsAre());
  status.set_exit_code(4);
  EXPECT_THAT(Lines(status), ElementsAre());
  status.set_exit_code(3);
  EXPECT_THAT(Lines(status),
              ElementsAre("127.0.0.1:1 gimbal-coordinator demo-1/coordinator"));
}

TEST(ScrapeTargets, WritesOnlyWhatIsNew) {
  test_support::TempDir folder;
  const std::string path = folder / "prometheus-targets.json";
  ScrapeTargets targets(folder.path(), "127.0.0.1:1");
  v1::GetStatusResponse status = Status();
  targets.Publish(status);
  EXPECT_EQ(*io::ReadFile(path), ScrapeTargetsJson(status, "127.0.0.1:1"));
  std::filesystem::remove(path);
  status.mutable_workers(0)->set_heartbeat_age_seconds(3);
  targets.Publish(status);
  EXPECT_FALSE(std::filesystem::exists(path));
  status.mutable_workers()->RemoveLast();
  targets.Publish(status);
  EXPECT_EQ(*io::ReadFile(path), ScrapeTargetsJson(status, "127.0.0.1:1"));
}

}  // namespace
}  // namespace gimbal::coordinator
