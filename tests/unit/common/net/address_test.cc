#include "common/net/address.h"

#include <gtest/gtest.h>

namespace gimbal::net {
namespace {

TEST(Address, KnowsWhatOnlyThisMachineReaches) {
  for (const char* host : {"localhost", "127.0.0.1", "127.9.9.9", "[::1]"}) {
    EXPECT_TRUE(IsLoopback(host)) << host;
  }
  for (const char* host : {"0.0.0.0", "[::]", "10.0.0.1", "127.example.com",
                           "127.0.0", "::1", "", "localhost.example.com"}) {
    EXPECT_FALSE(IsLoopback(host)) << host;
  }
}

TEST(Address, KnowsWhatNobodyCanConnectTo) {
  EXPECT_TRUE(IsWildcard("0.0.0.0"));
  EXPECT_TRUE(IsWildcard("[::]"));
  EXPECT_FALSE(IsWildcard("10.0.0.1"));
}

TEST(Address, TellsOthersTheAdvertisedHost) {
  EXPECT_EQ(Advertise("0.0.0.0:7101", "trainer-1"), "trainer-1:7101");
  EXPECT_EQ(Advertise("[::]:7101", "[fd00::1]"), "[fd00::1]:7101");
  EXPECT_EQ(Advertise("10.0.0.1:7101", ""), "10.0.0.1:7101");
  // Nobody else gets there.
  EXPECT_EQ(Advertise("127.0.0.1:7101", "trainer-1"), "127.0.0.1:7101");
  EXPECT_EQ(AdvertiseOpen("0.0.0.0:7401", "trainer-1"), "trainer-1:7401");
  EXPECT_EQ(AdvertiseOpen("192.168.0.1:7401", "trainer-1"), "192.168.0.1:7401");
}

TEST(Address, TakesTheHostOfAPeer) {
  EXPECT_EQ(HostOfPeer("ipv4:10.0.0.1:4711"), "10.0.0.1");
  EXPECT_EQ(HostOfPeer("ipv6:%5Bfd00::1%5D:4711"), "[fd00::1]");
  EXPECT_EQ(HostOfPeer("ipv6:[::1]:4711"), "[::1]");
  for (const char* peer : {"", "unix:/tmp/socket", "ipv4:", "ipv6:4711",
                           "ipv4:name:1", "10.0.0.1:4711", "fd:5"}) {
    EXPECT_EQ(HostOfPeer(peer), "") << peer;
  }
}

// Prometheus was once sent to its own loopback for a worker elsewhere.
TEST(Address, LoopbackOfAnotherMachineIsNoScrapeTarget) {
  EXPECT_EQ(ScrapeAddress("127.0.0.1:9", "10.0.0.7", /*here=*/false), "");
  EXPECT_EQ(ScrapeAddress("127.0.0.1:9", "10.0.0.7", /*here=*/true),
            "127.0.0.1:9");
  EXPECT_EQ(ScrapeAddress("0.0.0.0:9", "10.0.0.7", false), "10.0.0.7:9");
  EXPECT_EQ(ScrapeAddress("10.1.0.7:9", "10.0.0.7", false), "10.1.0.7:9");
}

TEST(Address, KnowsWhatSaysWhomToConnectTo) {
  for (const char* address :
       {"trainer-1:7000", "10.0.0.1:1", "[::1]:65535", "localhost:80"}) {
    EXPECT_TRUE(IsHostAndPort(address)) << address;
  }
  for (const char* address :
       {"", "trainer-1", "trainer-1:", ":7000", "trainer-1:0",
        "trainer-1:65536", "trainer-1:7000x", "trainer-1: 7000", "::1:7000",
        "http://trainer-1:80", "trainer-1:99999999999999999999"}) {
    EXPECT_FALSE(IsHostAndPort(address)) << address;
  }
}

TEST(Address, TakesTheHostBeforeTheLastColon) {
  EXPECT_EQ(HostOf("[::1]:80"), "[::1]");
  EXPECT_EQ(HostOf("name:0"), "name");
}

}  // namespace
}  // namespace gimbal::net
