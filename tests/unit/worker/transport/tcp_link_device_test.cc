// A TCP link whose boundary tensors lie on a device: over the connection,
// through the host's memory, or through channels.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <thread>

#include "tests/support/fake_device.h"
#include "worker/transport/tcp_link.h"

namespace gimbal::worker {
namespace {

const EdgeSpec kEdge{{.run = 5, .generation = 1, .edge = 2}, 2, 2};

std::pair<Socket, Socket> SocketPair() {
  int fds[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
  return {Socket(fds[0]), Socket(fds[1])};
}

class DeviceLinkTest : public ::testing::TestWithParam<bool> {
 protected:
  TcpLinkChannels Channels() {
    if (!GetParam()) return {};
    return {.maker = &channels_, .timeout = std::chrono::seconds(60)};
  }

  std::unique_ptr<TcpLink> Make(Socket socket, Positions received = {},
                                int64_t generation = 1) {
    EdgeSpec edge = kEdge;
    edge.identity.generation = generation;
    return std::make_unique<TcpLink>(
        edge, std::move(socket), signal_,
        TcpLinkOptions{.received = received,
                       .log = {.memory_bytes = 1 << 20},
                       .on_broken =
                           [this](const absl::Status& why) {
                             EXPECT_TRUE(absl::IsUnavailable(why)) << why;
                             ++broken_;
                           },
                       .tensors = &device_,
                       .channels = Channels()});
  }

  void SendTensor(Link& link, MessageKind kind, int64_t index) {
    while (!link.Writable()) std::this_thread::yield();
    Message message;
    message.header.kind = kind;
    message.header.index = index;
    message.header.rows = kEdge.rows;
    message.header.cols = kEdge.cols;
    message.payload = link.TakeBuffer(kEdge.payload_capacity());
    const std::vector<float> values(4, static_cast<float>(index) + 0.5f);
    device_.FromHost(reinterpret_cast<const std::byte*>(values.data()), 16,
                     message.payload.data());
    link.Send(std::move(message));
  }

  void SendNorm(Link& link, int64_t index) {
    Message message;
    message.header.kind = MessageKind::kNormPart;
    message.header.type = MessageHeader::Type::kFp64;
    message.header.index = index;
    message.header.rows = message.header.cols = 1;
    message.payload = link.TakeHostBuffer(sizeof(double));
    *reinterpret_cast<double*>(message.payload.data()) = 0.25;
    link.Send(std::move(message));
  }

  Message Await(Link& link, MessageKind kind, int64_t index) {
    for (;;) {
      const uint64_t seen = signal_.count();
      EXPECT_TRUE(link.status().ok()) << link.status();
      if (auto message = link.Take(kind, index)) return std::move(*message);
      if (!link.status().ok()) return {};
      signal_.WaitPast(seen);
    }
  }

  void ExpectTensors(Link& link, MessageKind kind, int64_t first,
                     int64_t last) {
    for (int64_t i = first; i <= last; ++i) {
      const Message message = Await(link, kind, i);
      ASSERT_TRUE(message.payload.on_device());
      std::vector<float> values(4);
      device_.ToHost(message.payload.data(), 16,
                     reinterpret_cast<std::byte*>(values.data()));
      EXPECT_EQ(values, std::vector<float>(4, static_cast<float>(i) + 0.5f));
    }
  }

  void AwaitBroken(int count) {
    while (broken_ < count) std::this_thread::yield();
  }

  test_support::FakeDeviceMemory device_;
  test_support::FakeChannels channels_;
  Signal signal_;
  std::atomic<int> broken_ = 0;
};

TEST_P(DeviceLinkTest, CarriesTensorsAndNumbersBothWays) {
  auto [a, b] = SocketPair();
  auto up = Make(std::move(a)), down = Make(std::move(b));
  std::thread upstream([&] {
    for (int64_t i = 0; i < 30; ++i) {
      SendTensor(*up, MessageKind::kForward, i);
      ExpectTensors(*up, MessageKind::kBackward, i, i);
      EXPECT_FALSE(Await(*up, MessageKind::kNormPart, i).payload.on_device());
    }
  });
  for (int64_t i = 0; i < 30; ++i) {
    SendTensor(*down, MessageKind::kBackward, i);
    SendNorm(*down, i);
    ExpectTensors(*down, MessageKind::kForward, i, i);
  }
  upstream.join();
  EXPECT_EQ(channels_.transfers, GetParam() ? 60 : 0);
}

TEST_P(DeviceLinkTest, SendsNoMoreThanThePeerHasRoomFor) {
  auto [a, b] = SocketPair();
  auto up = Make(std::move(a)), down = Make(std::move(b));
  std::thread sender([&] {
    for (int64_t i = 0; i < 20; ++i) SendTensor(*up, MessageKind::kForward, i);
  });
  // Nobody takes anything, and yet the other direction goes on.
  for (int64_t i = 0; i < 20; ++i) {
    SendTensor(*down, MessageKind::kBackward, i);
    ExpectTensors(*up, MessageKind::kBackward, i, i);
  }
  if (GetParam()) {
    EXPECT_LE(channels_.transfers, 20 + static_cast<int>(Mailbox::kCapacity));
  }
  ExpectTensors(*down, MessageKind::kForward, 0, 19);
  sender.join();
}

TEST_P(DeviceLinkTest, ASuccessorIsFedFromItsCut) {
  auto [a, b] = SocketPair();
  auto up = Make(std::move(a)), lost = Make(std::move(b));
  std::thread sender([&] {
    for (int64_t i = 0; i < 20; ++i) SendTensor(*up, MessageKind::kForward, i);
  });
  ExpectTensors(*lost, MessageKind::kForward, 0, 19);
  sender.join();
  lost.reset();
  AwaitBroken(1);
  for (int64_t generation : {2, 3}) {
    auto [c, d] = SocketPair();
    up->Attach(generation, std::move(c), Channels());
    auto successor = Make(std::move(d), Positions::AtCut(8, 1), generation);
    ExpectTensors(*successor, MessageKind::kForward, 8, 19);
  }
}

TEST_P(DeviceLinkTest, KeepsOnTheHostWhatItHasSent) {
  auto [a, b] = SocketPair();
  auto up = Make(std::move(a)), down = Make(std::move(b));
  for (int64_t i = 0; i < 40; ++i) {
    SendTensor(*up, MessageKind::kForward, i);
    ExpectTensors(*down, MessageKind::kForward, i, i);
  }
  EXPECT_EQ(device_.allocated, 2 * 12) << "reserved, and never more";
}

INSTANTIATE_TEST_SUITE_P(Through, DeviceLinkTest, ::testing::Bool(),
                         [](const auto& info) {
                           return info.param ? "Channels" : "TheHost";
                         });

class ChannelLinkTest : public DeviceLinkTest {};
INSTANTIATE_TEST_SUITE_P(Through, ChannelLinkTest, ::testing::Values(true));

TEST_P(ChannelLinkTest, AFailedTransferIsAnEndOfTheConnectionAlone) {
  auto [a, b] = SocketPair();
  auto up = Make(std::move(a)), down = Make(std::move(b));
  SendTensor(*up, MessageKind::kForward, 0);
  ExpectTensors(*down, MessageKind::kForward, 0, 0);
  for (int64_t generation = 2; generation < 6; ++generation) {
    const int before = broken_;
    channels_.fails = 1;
    SendTensor(*up, MessageKind::kForward, generation - 1);
    // The other end, which may be in a transfer, hears of it at once.
    AwaitBroken(before + 2);
    auto [c, d] = SocketPair();
    up->Detach();
    down->Detach();
    up->Attach(generation, std::move(c), Channels());
    down->Attach(generation, std::move(d), Channels());
    ExpectTensors(*down, MessageKind::kForward, generation - 1, generation - 1);
  }
}

TEST_P(ChannelLinkTest, TheOtherEndMustHaveThemToo) {
  auto [a, b] = SocketPair();
  auto up = Make(std::move(a));
  TcpLink down(kEdge, std::move(b), signal_, {.tensors = &device_});
  SendTensor(down, MessageKind::kBackward, 0);
  // Whichever end sees it first; the other may see a closed connection.
  while (!absl::IsDataLoss(up->status()) && !absl::IsDataLoss(down.status())) {
    std::this_thread::yield();
  }
}

}  // namespace
}  // namespace gimbal::worker
