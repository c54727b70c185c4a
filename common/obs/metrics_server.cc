#include "common/obs/metrics_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <prometheus/exposer.h>
#include <prometheus/registry.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"

namespace gimbal::obs {
namespace {

void Connect(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  sockaddr_in peer{};
  peer.sin_family = AF_INET;
  peer.sin_port = htons(static_cast<uint16_t>(port));
  peer.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  (void)!connect(fd, reinterpret_cast<sockaddr*>(&peer), sizeof(peer));
  close(fd);
}

}  // namespace

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Start(
    const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("metrics address '", address,
                     "': expected host:port, e.g. 127.0.0.1:0"));
  }
  // civetweb wants addresses as numbers.
  std::string host = address.substr(0, colon);
  if (host == "localhost") host = "127.0.0.1";
  try {
    auto exposer = std::make_unique<prometheus::Exposer>(
        absl::StrCat(host, address.substr(colon)), /*num_threads=*/2);
    const int port = exposer->GetListeningPorts().at(0);
    return std::unique_ptr<MetricsServer>(
        new MetricsServer(std::move(exposer), absl::StrCat(host, ":", port)));
  } catch (const std::exception& error) {
    return absl::UnavailableError(absl::StrCat(
        "cannot serve metrics on ", address, " (", error.what(),
        "): the port is taken or the address is not one of this machine; free "
        "it, or use port 0 to pick a free one"));
  }
}

MetricsServer::MetricsServer(std::unique_ptr<prometheus::Exposer> exposer,
                             std::string address)
    : registry_(std::make_shared<prometheus::Registry>()),
      exposer_(std::move(exposer)),
      address_(std::move(address)) {
  exposer_->RegisterCollectable(registry_);
}

// civetweb's acceptor looks at its stop flag every two seconds or after a
// connection; a process that ends should not wait for the former.
MetricsServer::~MetricsServer() {
  const int port = exposer_->GetListeningPorts().at(0);
  std::atomic<bool> stopped = false;
  std::thread waker([&] {
    while (!stopped) {
      Connect(port);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  });
  exposer_.reset();
  stopped = true;
  waker.join();
}

}  // namespace gimbal::obs
