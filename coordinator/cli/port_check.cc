#include "coordinator/cli/port_check.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace gimbal::cli {
namespace {

// 0, or the errno of binding a listening socket to the address.
int TryBind(const addrinfo& info) {
  const int fd = socket(info.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return errno;
  // As servers do: a port in TIME_WAIT is free, one that is listened on not.
  const int yes = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  const bool ok = bind(fd, info.ai_addr, info.ai_addrlen) == 0;
  const int error = ok ? 0 : errno;
  close(fd);
  return error;
}

}  // namespace

absl::Status CheckPortFree(const std::string& key, const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon + 1 == address.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(key, ": ", address, ": expected HOST:PORT"));
  }
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);  // [::1]:80
  }
  const std::string port = address.substr(colon + 1);
  addrinfo hints = {};
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &found);
      error != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(key, ": ", address, ": ", gai_strerror(error),
                     "; expected HOST:PORT of this machine, e.g. 127.0.0.1:0"));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found,
                                                                 &freeaddrinfo);
  if (const int error = TryBind(*found); error != 0) {
    const std::string what = absl::StrCat(key, ": cannot listen on ", address,
                                          ": ", std::strerror(error));
    if (error == EADDRNOTAVAIL) {
      return absl::NotFoundError(
          absl::StrCat(what, "; expected an address of this machine"));
    }
    return absl::FailedPreconditionError(
        absl::StrCat(what, "; choose another port, or 0 for a free one"));
  }
  return absl::OkStatus();
}

absl::Status CheckAddresses(const v1::ClusterSection& cluster) {
  const std::string& grpc = cluster.listen();
  const std::string& metrics = cluster.metrics_listen();
  GIMBAL_RETURN_IF_ERROR(CheckPortFree("cluster.listen", grpc));
  GIMBAL_RETURN_IF_ERROR(CheckPortFree("cluster.metrics_listen", metrics));
  const std::string port = grpc.substr(grpc.rfind(':') + 1);
  // Hosts need not be equal to collide: one may stand for all of them.
  if (port != "0" && port == metrics.substr(metrics.rfind(':') + 1)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "cluster.listen and cluster.metrics_listen: both have port ", port,
        "; expected two different ones, or 0 for a free one"));
  }
  return absl::OkStatus();
}

}  // namespace gimbal::cli
