// The HTTP port of a daemon: its Prometheus metrics at /metrics, and pages that
// it registers.
//
//   GIMBAL_ASSIGN_OR_RETURN(auto http, obs::HttpServer::Start("127.0.0.1:0"));
//   auto& family = prometheus::BuildGauge().Name("gimbal_train_loss")
//                      .Register(http->registry());
//   http->Handle("/healthz", [](std::string_view) {
//     return obs::HttpResponse{.body = "ok\n"};
//   });
//
// It only shows: GET and HEAD, no request has a body, nothing a request says
// changes the daemon. A client takes one of kThreads threads for as long as its
// one request lasts; one that does not send it within kRequestTimeout, or reads
// nothing for as long, is dropped. kQueue more wait for their turn: a thousand
// connections that say nothing hold the next client up for four seconds.
//
// A daemon keeps its metrics in one struct of its own (coordinator/metrics.h,
// worker/agent/worker_metrics.h). Names, units and labels are those of the
// design: prefix `gimbal_`, base units, labels with few values.
//
// Thread-safe; metrics live as long as the server object.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/obs/scrape_watch.h"

struct mg_connection;
struct mg_context;

namespace prometheus {
class Registry;
}

namespace gimbal::obs {

struct HttpResponse {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
};

// `query` is what follows the "?" of the request, as it was sent. Called on
// several threads at once; must not block for long.
using HttpHandler = std::function<HttpResponse(std::string_view query)>;

class HttpServer {
 public:
  // As many clients as may be slow at once without anybody waiting for them. A
  // thread that waits takes some 10 KiB.
  static constexpr int kThreads = 256;
  // Connections that wait for a thread. Without room here the kernel would let
  // clients try again after seconds.
  static constexpr int kQueue = 768;
  // Request line and headers.
  static constexpr int kMaxRequestBytes = 8192;
  static constexpr std::chrono::milliseconds kRequestTimeout{1000};

  // `address` is host:port; port 0 picks a free one. UNAVAILABLE, naming the
  // address, when it cannot be listened on.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(
      const std::string& address);
  // Lets the requests that are being answered end, for kRequestTimeout at most;
  // no handler runs any more after it.
  ~HttpServer();

  // From now on `path` is answered by `handler`. Before, it is 404.
  void Handle(const std::string& path, HttpHandler handler);

  // Returns once /metrics was asked for again, so that whoever reads it
  // regularly has the last numbers; at once when nobody does, or less often
  // than every `most` / 2.
  void WaitForScrape(std::chrono::milliseconds most) {
    scrapes_.WaitForNext(most);
  }

  prometheus::Registry& registry() { return *registry_; }
  const std::string& address() const { return address_; }

 private:
  HttpServer();
  absl::Status Listen(const std::string& address);
  HttpResponse Answer(std::string_view method, const std::string& path,
                      std::string_view query) const;
  HttpResponse Metrics();
  static int OnRequest(mg_connection* connection);

  const std::unique_ptr<prometheus::Registry> registry_;
  ScrapeWatch scrapes_;
  std::atomic<int> answering_ = 0;  // requests
  mutable std::mutex mutex_;
  std::map<std::string, HttpHandler> handlers_;  // guarded by mutex_
  std::string host_;
  std::string address_;
  mg_context* context_ = nullptr;
};

}  // namespace gimbal::obs
