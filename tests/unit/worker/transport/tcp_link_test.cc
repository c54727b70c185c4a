// A TCP link that outlives its connections.
#include "worker/transport/tcp_link.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <thread>

#include "tests/support/status_matchers.h"

namespace gimbal::worker {
namespace {

using test_support::IsOk;
using test_support::StatusIs;

const EdgeSpec kEdge{{.run = 5, .generation = 1, .edge = 2}, 2, 2};

std::pair<Socket, Socket> SocketPair() {
  int fds[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
  return {Socket(fds[0]), Socket(fds[1])};
}

void SendForward(Link& link, int64_t index) {
  while (!link.Writable()) std::this_thread::yield();
  Message message;
  message.header.index = index;
  message.header.rows = kEdge.rows;
  message.header.cols = kEdge.cols;
  message.payload = link.TakeBuffer(kEdge.payload_capacity());
  *reinterpret_cast<float*>(message.payload.data()) =
      static_cast<float>(index) / 2;
  link.Send(std::move(message));
}

class TcpLinkTest : public ::testing::Test {
 protected:
  std::unique_ptr<TcpLink> Make(Socket socket, Positions received = {}) {
    return std::make_unique<TcpLink>(
        kEdge, std::move(socket), signal_,
        TcpLinkOptions{.received = received,
                       .log = {.memory_bytes = 1 << 20},
                       .on_broken = [this](const absl::Status& status) {
                         last_ = status;
                         ++broken_;
                         signal_.Notify();
                       }});
  }

  void ExpectForwards(Link& link, int64_t first, int64_t last) {
    for (int64_t i = first; i <= last;) {
      const uint64_t seen = signal_.count();
      ASSERT_THAT(link.status(), IsOk());
      if (const auto message = link.Take(MessageKind::kForward, i)) {
        EXPECT_EQ(*reinterpret_cast<float*>(message->payload.data()),
                  static_cast<float>(i) / 2);
        ++i;
      } else {
        signal_.WaitPast(seen);
      }
    }
  }

  void AwaitBroken(int count) {
    while (broken_ < count) std::this_thread::yield();
  }

  Signal signal_;
  std::atomic<int> broken_ = 0;
  absl::Status last_;
};

TEST_F(TcpLinkTest, GoesOnOverAnotherConnection) {
  auto [a, b] = SocketPair();
  auto up = Make(std::move(a)), down = Make(std::move(b));
  for (int64_t i = 0; i < 3; ++i) SendForward(*up, i);
  ExpectForwards(*down, 0, 1);
  for (int64_t generation : {2, 3}) {
    up->Detach();
    down->Detach();
    // What is sent between two connections is kept for the next one.
    SendForward(*up, generation + 1);
    auto [c, d] = SocketPair();
    up->Attach(generation, std::move(c));
    down->Attach(generation, std::move(d));
    ExpectForwards(*down, generation, generation);
  }
  ExpectForwards(*down, 4, 4);
}

TEST_F(TcpLinkTest, SaysOnceThatThePeerIsGoneAndStaysUsable) {
  auto [a, b] = SocketPair();
  auto up = Make(std::move(a));
  { auto down = Make(std::move(b)); }
  AwaitBroken(1);
  EXPECT_THAT(up->status(), IsOk());
  EXPECT_TRUE(up->Writable());
  for (int64_t i = 0; i < 4; ++i) SendForward(*up, i);
  EXPECT_FALSE(up->Writable());
  auto [c, d] = SocketPair();
  EdgeSpec next = kEdge;
  next.identity.generation = 2;
  TcpLink successor(next, std::move(d), signal_);
  up->Attach(2, std::move(c));
  ExpectForwards(successor, 0, 3);
}

// The neighbours of a lost stage feed its successor from the cut on, and the
// successor does not tell them again what they know.
TEST_F(TcpLinkTest, ASuccessorIsFedFromItsCut) {
  auto [a, b] = SocketPair();
  auto up = Make(std::move(a)), lost = Make(std::move(b));
  std::thread sender([&] {
    for (int64_t i = 0; i < 20; ++i) SendForward(*up, i);
  });
  ExpectForwards(*lost, 0, 19);
  sender.join();
  lost.reset();
  AwaitBroken(1);
  up->Prune(Positions::AtCut(7, 1));
  auto [c, d] = SocketPair();
  EdgeSpec next = kEdge;
  next.identity.generation = 2;
  TcpLink successor(next, std::move(d), signal_,
                    {.received = Positions::AtCut(8, 1)});
  up->Attach(2, std::move(c));
  ExpectForwards(successor, 8, 19);
}

TEST_F(TcpLinkTest, SaysWhenItCannotFeedASuccessor) {
  auto [a, b] = SocketPair();
  auto up = Make(std::move(a)), lost = Make(std::move(b));
  for (int64_t i = 0; i < 4; ++i) SendForward(*up, i);
  ExpectForwards(*lost, 0, 3);
  lost.reset();
  AwaitBroken(1);
  up->Prune(Positions::AtCut(3, 1));
  auto [c, d] = SocketPair();
  EdgeSpec next = kEdge;
  next.identity.generation = 2;
  TcpLink successor(next, std::move(d), signal_);
  up->Attach(2, std::move(c));
  AwaitBroken(2);
  EXPECT_THAT(last_, StatusIs(absl::StatusCode::kOutOfRange));
}

TEST_F(TcpLinkTest, LeavesAFullMailbox) {
  auto [a, b] = SocketPair();
  auto up = Make(std::move(a)), down = Make(std::move(b));
  for (int64_t i = 0; i < 12; ++i) SendForward(*up, i);
  down->Detach();
  up->Detach();
  auto [c, d] = SocketPair();
  up->Attach(2, std::move(c));
  down->Attach(2, std::move(d));
  ExpectForwards(*down, 0, 11);
}

}  // namespace
}  // namespace gimbal::worker
