// Parts of an address "host:port", where the host of IPv6 stands in brackets.
#pragma once

#include <string>

namespace gimbal::net {

// All before the last colon.
std::string HostOf(const std::string& address);
// Says whom to connect to: a name or number, and a port that is not 0. What
// gRPC would make of anything else is a guess, e.g. port 443.
bool IsHostAndPort(const std::string& address);
// Only this machine can connect: localhost, 127.0.0.0/8, [::1]. A name that
// begins like a number may be any machine (127.example.com).
bool IsLoopback(const std::string& host);
// Stands for every address of the machine, and is none to connect to.
bool IsWildcard(const std::string& host);
// The address that others are told of a port that is listened on: with the host
// `advertised` when there is one and others reach the port, as it is otherwise.
std::string Advertise(const std::string& address,
                      const std::string& advertised);

// The same for a port without certificates, which need no name: an address that
// can be connected to may be of another network than `advertised`, and stays.
std::string AdvertiseOpen(const std::string& address,
                          const std::string& advertised);

// Where others scrape a process of which a connection comes from `peer`; empty
// when its address leads nowhere but to its own machine, and that is not
// `here`.
std::string ScrapeAddress(const std::string& address, const std::string& peer,
                          bool here);

// Host of a connection's other end, as gRPC names it: "ipv4:10.0.0.1:4711",
// "ipv6:%5B::1%5D:4711". Empty for any other.
std::string HostOfPeer(const std::string& peer);

bool IsIpv4(const std::string& host);
bool IsIpv6(const std::string& host);  // in brackets

}  // namespace gimbal::net
