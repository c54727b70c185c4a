#include "common/net/address.h"

#include <arpa/inet.h>

namespace gimbal::net {

std::string HostOf(const std::string& address) {
  return address.substr(0, address.rfind(':'));
}

bool IsIpv4(const std::string& host) {
  in_addr number = {};
  return inet_pton(AF_INET, host.c_str(), &number) == 1;
}

bool IsIpv6(const std::string& host) {
  if (host.size() < 2 || host.front() != '[' || host.back() != ']') {
    return false;
  }
  in6_addr number = {};
  return inet_pton(AF_INET6, host.substr(1, host.size() - 2).c_str(),
                   &number) == 1;
}

bool IsLoopback(const std::string& host) {
  return host == "localhost" || host == "[::1]" ||
         (IsIpv4(host) && host.starts_with("127."));
}

bool IsWildcard(const std::string& host) {
  return host == "0.0.0.0" || host == "[::]";
}

std::string Advertise(const std::string& address,
                      const std::string& advertised) {
  if (advertised.empty() || IsLoopback(HostOf(address))) return address;
  return advertised + address.substr(address.rfind(':'));
}

}  // namespace gimbal::net
