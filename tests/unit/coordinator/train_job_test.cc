#include "coordinator/train_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>


namespace gimbal::coordinator {
namespace {

nlohmann::json Told(const v1::GetStatusResponse& status) {
  return nlohmann::json::parse(TrainJobStatusJson(status, 1e9))
      .at("trainerStatus");
}

TEST(TrainJob, TellsProgressRestAndLosses) {
  v1::GetStatusResponse status;
  status.set_steps(300);
  status.set_update(299);
  status.set_eta_seconds(0.2);
  status.set_loss(2.5);
  status.set_valid_loss(2.75);
  const nlohmann::json told = Told(status);
  EXPECT_EQ(told.at("progressPercentage"), 99);
  EXPECT_EQ(told.at("estimatedRemainingSeconds"), 1);
  EXPECT_EQ(told.at("lastUpdatedTime"), "2001-09-09T01:46:40Z");
  std::map<std::string, std::string> metrics;
  for (const auto& metric : told.at("metrics")) {
    metrics[metric.at("name")] = metric.at("value").get<std::string>();
  }
  EXPECT_EQ(metrics["loss"], "2.5");
  EXPECT_EQ(metrics["eval_loss"], "2.75");
  EXPECT_EQ(metrics["update"], "299");
  status.set_update(300);
  EXPECT_EQ(Told(status).at("progressPercentage"), 100);
}

TEST(TrainJob, LeavesOutWhatIsNotKnown) {
  v1::GetStatusResponse status;
  EXPECT_FALSE(Told(status).contains("progressPercentage"));
  EXPECT_FALSE(Told(status).contains("estimatedRemainingSeconds"));
  status.set_eta_seconds(std::numeric_limits<double>::infinity());
  EXPECT_FALSE(Told(status).contains("estimatedRemainingSeconds"));
  status.set_eta_seconds(1e12);
  EXPECT_EQ(Told(status).at("estimatedRemainingSeconds"),
            std::numeric_limits<int32_t>::max());
}

TEST(TrainJob, NobodyThereIsOfNoConsequence) {
  TrainJobReporter reporter({.url = "http://127.0.0.1:1/status"},
                            base::Seconds(0.01));
  v1::GetStatusResponse status;
  for (int i = 0; i < 3; ++i) reporter.Publish(status);
}

}  // namespace
}  // namespace gimbal::coordinator
