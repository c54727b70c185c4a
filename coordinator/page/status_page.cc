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

}  // namespace

void ServeStartingPage(obs::HttpServer& server) {
  for (const char* path : {"/", "/status.json", "/history.json"}) {
    server.Handle(path, [](std::string_view) {
      return obs::HttpResponse{.status = 503,
                               .body = "the coordinator is starting\n"};
    });
  }
}

void ServeStatusPage(obs::HttpServer& server, StatusBoard& board,
                     const LossCurve& curve) {
  server.Handle("/", [](std::string_view) {
    return obs::HttpResponse{.content_type = "text/html; charset=utf-8",
                             .body = kStatusPage};
  });
  server.Handle("/status.json", [&board](std::string_view query) {
    return Status(board, query);
  });
  server.Handle("/history.json",
                [&curve](std::string_view) { return History(curve); });
}

}  // namespace gimbal::coordinator
