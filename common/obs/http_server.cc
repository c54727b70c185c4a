#include "common/obs/http_server.h"

#include <arpa/inet.h>
#include <civetweb.h>
#include <netinet/in.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace gimbal::obs {
namespace {

// What a browser may do with a page of ours: show it, run the script inside it,
// and ask this server again.
constexpr char kSecurityPolicy[] =
    "default-src 'none'; script-src 'unsafe-inline'; style-src "
    "'unsafe-inline'; img-src data:; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'";

void Connect(const std::string& host, int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  sockaddr_in peer{};
  peer.sin_family = AF_INET;
  peer.sin_port = htons(static_cast<uint16_t>(port));
  if (inet_pton(AF_INET, host.c_str(), &peer.sin_addr) != 1 ||
      peer.sin_addr.s_addr == htonl(INADDR_ANY)) {
    peer.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  }
  (void)!connect(fd, reinterpret_cast<sockaddr*>(&peer), sizeof(peer));
  close(fd);
}

int PortOf(const mg_context* context) {
  mg_server_port port[1];
  return mg_get_server_ports(context, 1, port) == 1 ? port[0].port : 0;
}

// The server would write its own lines to standard error.
int Silence(const mg_connection*, const char*) { return 1; }

void Write(mg_connection* connection, const HttpResponse& response,
           bool with_body) {
  mg_printf(
      connection,
      "HTTP/1.1 %d %s\r\n"
      "Content-Type: %s\r\n"
      "Content-Length: %zu\r\n"
      "Cache-Control: no-store\r\n"
      "Content-Security-Policy: %s\r\n"
      "X-Content-Type-Options: nosniff\r\n"
      "Connection: close\r\n\r\n",
      response.status, mg_get_response_code_text(connection, response.status),
      response.content_type.c_str(), response.body.size(), kSecurityPolicy);
  if (with_body) {
    mg_write(connection, response.body.data(), response.body.size());
  }
}

HttpResponse NotFound(const std::map<std::string, HttpHandler>& handlers) {
  HttpResponse response{.status = 404, .body = "there is no such page here"};
  for (const char* separator = ": "; const auto& [path, handler] : handlers) {
    absl::StrAppend(&response.body, separator, path);
    separator = ", ";
  }
  response.body += "\n";
  return response;
}

}  // namespace

HttpServer::HttpServer()
    : registry_(std::make_unique<prometheus::Registry>()) {}

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(
    const std::string& address) {
  std::unique_ptr<HttpServer> server(new HttpServer);
  server->Handle("/metrics", [server = server.get()](std::string_view) {
    return server->Metrics();
  });
  GIMBAL_RETURN_IF_ERROR(server->Listen(address));
  return server;
}

absl::Status HttpServer::Listen(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat(
        "HTTP address '", address, "': expected host:port, e.g. 127.0.0.1:0"));
  }
  // civetweb wants addresses as numbers.
  host_ = address.substr(0, colon);
  if (host_ == "localhost") host_ = "127.0.0.1";
  const std::string port = absl::StrCat(host_, address.substr(colon));
  const std::string threads = std::to_string(kThreads);
  const std::string queue = std::to_string(kQueue);
  const std::string bytes = std::to_string(kMaxRequestBytes);
  const std::string timeout = std::to_string(kRequestTimeout.count());
  const char* options[] = {"listening_ports",
                           port.c_str(),
                           "num_threads",
                           threads.c_str(),
                           "connection_queue",
                           queue.c_str(),
                           "max_request_size",
                           bytes.c_str(),
                           "request_timeout_ms",
                           timeout.c_str(),
                           "enable_keep_alive",
                           "no",
                           nullptr};
  mg_callbacks callbacks{};
  callbacks.begin_request = OnRequest;
  callbacks.log_message = Silence;
  char text[256] = "";
  mg_init_data init{&callbacks, this, options};
  mg_error_data error{nullptr, text, sizeof(text)};
  context_ = mg_start2(&init, &error);
  if (context_ == nullptr) {
    return absl::UnavailableError(absl::StrCat(
        "cannot serve HTTP on ", address, " (", text,
        "): the port is taken or the address is not one of this machine; free "
        "it, or use port 0 to pick a free one"));
  }
  address_ = absl::StrCat(host_, ":", PortOf(context_));
  return absl::OkStatus();
}

// civetweb's acceptor looks at its stop flag every two seconds or after a
// connection; a process that ends should not wait for the former.
HttpServer::~HttpServer() {
  if (context_ == nullptr) return;
  // mg_stop cuts answers off, such as that of the scrape that was waited for.
  const auto until = std::chrono::steady_clock::now() + kRequestTimeout;
  while (answering_ > 0 && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const int port = PortOf(context_);
  std::atomic<bool> stopped = false;
  std::thread waker([&] {
    while (!stopped) {
      Connect(host_, port);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  });
  mg_stop(context_);
  stopped = true;
  waker.join();
}

void HttpServer::Handle(const std::string& path, HttpHandler handler) {
  std::lock_guard lock(mutex_);
  handlers_[path] = std::move(handler);
}

int HttpServer::OnRequest(mg_connection* connection) {
  const mg_request_info* request = mg_get_request_info(connection);
  auto* server = static_cast<HttpServer*>(request->user_data);
  ++server->answering_;
  const std::string_view method = request->request_method;
  const HttpResponse response = server->Answer(
      method, request->local_uri == nullptr ? "" : request->local_uri,
      request->query_string == nullptr ? "" : request->query_string);
  Write(connection, response, method != "HEAD");
  --server->answering_;
  return response.status;
}

HttpResponse HttpServer::Answer(std::string_view method,
                                const std::string& path,
                                std::string_view query) const {
  if (method != "GET" && method != "HEAD") {
    return {.status = 405, .body = "only GET and HEAD are served here\n"};
  }
  HttpHandler handler;
  {
    std::lock_guard lock(mutex_);
    const auto found = handlers_.find(path);
    if (found == handlers_.end()) return NotFound(handlers_);
    handler = found->second;
  }
  return handler(query);
}

HttpResponse HttpServer::Metrics() {
  scrapes_.Note();
  return {.content_type = "text/plain; version=0.0.4; charset=utf-8",
          .body = prometheus::TextSerializer().Serialize(registry_->Collect())};
}

}  // namespace gimbal::obs
