#include "common/base/log_line.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace gimbal::base {
namespace {

const LogContext kContext = {
    .run = "demo-1a2b", .stages = {2, 3}, .generation = 4};

TEST(LogLine, TextIsForPeople) {
  const LogEvent event = {1796022664.44, "warning", "an edge\nbroke"};
  EXPECT_EQ(TextLine(event, "worker-1", kContext),
            "2026-11-30 07:11:04.440 W worker-1 [stages 2, 3, generation 4]: "
            "an edge broke");
  EXPECT_EQ(TextLine(event, "coordinator", {}),
            "2026-11-30 07:11:04.440 W coordinator: an edge broke");
}

TEST(LogLine, JsonIsOneObjectWithWhatIsKnown) {
  const LogEvent event = {1796022664.44, "info", "say \"a\"\n\xff"};
  const std::string line = JsonLine(event, "worker-1", kContext);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const auto json = nlohmann::json::parse(line);
  EXPECT_EQ(json["time"], "2026-11-30T07:11:04.440Z");
  EXPECT_EQ(json["level"], "info");
  EXPECT_EQ(json["program"], "worker-1");
  EXPECT_EQ(json["run"], "demo-1a2b");
  EXPECT_EQ(json["stages"], nlohmann::json({2, 3}));
  EXPECT_EQ(json["generation"], 4);
  EXPECT_EQ(json["text"].get<std::string>().substr(0, 8), "say \"a\"\n");
  const auto bare = nlohmann::json::parse(JsonLine(event, "coordinator", {}));
  EXPECT_FALSE(bare.contains("run"));
  EXPECT_FALSE(bare.contains("stages"));
  EXPECT_FALSE(bare.contains("generation"));
}

}  // namespace
}  // namespace gimbal::base
