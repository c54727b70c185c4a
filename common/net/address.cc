#include "common/net/address.h"

#include <arpa/inet.h>

#include <charconv>
#include <system_error>

namespace gimbal::net {

std::string HostOf(const std::string& address) {
  return address.substr(0, address.rfind(':'));
}

bool IsHostAndPort(const std::string& address) {
  const std::string host = HostOf(address);
  if (host.empty() || host.size() == address.size()) return false;
  if (host.find(':') != std::string::npos && !IsIpv6(host)) return false;
  int port = 0;
  const char* end = address.data() + address.size();
  const auto [rest, error] =
      std::from_chars(address.data() + host.size() + 1, end, port);
  return error == std::errc() && rest == end && port > 0 && port <= 65535;
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

std::string AdvertiseOpen(const std::string& address,
                          const std::string& advertised) {
  return IsWildcard(HostOf(address)) ? Advertise(address, advertised) : address;
}

std::string ScrapeAddress(const std::string& address, const std::string& peer,
                          bool here) {
  if (!here && IsLoopback(HostOf(address))) return "";
  return AdvertiseOpen(address, peer);
}

std::string HostOfPeer(const std::string& peer) {
  const std::string host = HostOf(peer.substr(peer.find(':') + 1));
  if (peer.starts_with("ipv4:") && IsIpv4(host)) return host;
  if (!peer.starts_with("ipv6:")) return "";
  const size_t begin = host.starts_with("%5B") ? 3 : host.starts_with('[');
  const size_t end = host.find_first_of("%]", begin);
  const std::string bracketed =
      "[" + host.substr(begin, end == std::string::npos ? end : end - begin) +
      "]";
  return IsIpv6(bracketed) ? bracketed : "";
}

}  // namespace gimbal::net
