#include "coordinator/page/status_page.h"

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/service/status_json.h"

namespace gimbal::coordinator {
namespace {

constexpr char kJson[] = "application/json";

nlohmann::json PointsOf(const std::vector<LossCurve::Point>& points) {
  nlohmann::json list = nlohmann::json::array();
  for (const LossCurve::Point& point : points) {
    list.push_back({point.update, point.loss});
  }
  return list;
}

obs::HttpResponse Status(StatusBoard& board, std::string_view query) {
  const bool watches = query.rfind("watch=", 0) == 0;
  const v1::GetStatusResponse status =
      watches ? board.GetAndNote("page " + std::string(query)) : board.Get();
  return {.content_type = kJson, .body = StatusJson(status, /*pretty=*/true)};
}

obs::HttpResponse History(const LossCurve& curve) {
  const nlohmann::ordered_json history = {
      {"losses", PointsOf(curve.losses())},
      {"valid_losses", PointsOf(curve.valid_losses())}};
  return {.content_type = kJson, .body = history.dump() + "\n"};
}

nlohmann::ordered_json TimesOf(const v1::StageTimes& times) {
  nlohmann::ordered_json json;
  const google::protobuf::Descriptor& fields = *times.GetDescriptor();
  for (int i = 0; i < fields.field_count(); ++i) {
    json[fields.field(i)->name()] =
        times.GetReflection()->GetDouble(times, fields.field(i));
  }
  return json;
}

// Each as status.json has it:
// [{"unix_seconds": ..., "stages": [{"stage": 0, "times": {...}}, ...]}, ...].
obs::HttpResponse Times(const TimesHistory& history) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const TimesHistory::Sample& sample : history.samples()) {
    auto stages = nlohmann::ordered_json::array();
    for (const auto& [stage, times] : sample.stages) {
      stages.push_back({{"stage", stage}, {"times", TimesOf(times)}});
    }
    list.push_back(
        {{"unix_seconds", sample.unix_seconds}, {"stages", std::move(stages)}});
  }
  return {.content_type = kJson, .body = list.dump() + "\n"};
}

}  // namespace

void ServeStartingPage(obs::HttpServer& server) {
  for (const char* path :
       {"/", "/status.json", "/history.json", "/times.json"}) {
    server.Handle(path, [](std::string_view) {
      return obs::HttpResponse{.status = 503,
                               .body = "the coordinator is starting\n"};
    });
  }
}

void ServeStatusPage(obs::HttpServer& server, StatusBoard& board,
                     const LossCurve& curve, const TimesHistory& times) {
  server.Handle("/", [](std::string_view) {
    return obs::HttpResponse{.content_type = "text/html; charset=utf-8",
                             .body = kStatusPage};
  });
  server.Handle("/status.json", [&board](std::string_view query) {
    return Status(board, query);
  });
  server.Handle("/history.json",
                [&curve](std::string_view) { return History(curve); });
  server.Handle("/times.json",
                [&times](std::string_view) { return Times(times); });
}

}  // namespace gimbal::coordinator
