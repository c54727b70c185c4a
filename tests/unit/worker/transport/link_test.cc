// What every link must do, run on the in-process and on the TCP link.
#include "worker/transport/link.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

#include "tests/support/status_matchers.h"
#include "worker/transport/inprocess_link.h"
#include "worker/transport/link_listener.h"
#include "worker/transport/tcp_link.h"

namespace gimbal::worker {
namespace {

using std::chrono::seconds;
using test_support::IsOk;
using test_support::StatusIs;
using ::testing::HasSubstr;

const EdgeSpec kEdge{{.run = 5, .generation = 3, .edge = 2}, 4, 8};

const std::string kKey(32, 'k');

base::SteadyTime In(seconds s) { return base::Clock::Real().Now() + s; }

struct Ends {
  std::unique_ptr<Link> up, down;
};

// Two connected sockets.
std::pair<Socket, Socket> SocketPair() {
  int fds[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
  return {Socket(fds[0]), Socket(fds[1])};
}

Ends InProcess(Signal& signal) {
  auto [up, down] = InProcessLink::MakePair(kEdge, signal);
  return {std::move(up), std::move(down)};
}

Ends Tcp(Signal& signal) {
  auto [a, b] = SocketPair();
  return {std::make_unique<TcpLink>(kEdge, std::move(a), signal),
          std::make_unique<TcpLink>(kEdge, std::move(b), signal)};
}

Message MakeMessage(Link& link, MessageKind kind, int64_t index, float fill) {
  Message message;
  message.header.kind = kind;
  message.header.index = index;
  message.header.samples = 77;
  message.header.rows = kEdge.rows;
  message.header.cols = kEdge.cols;
  message.payload = link.TakeBuffer(kEdge.payload_capacity());
  auto* data = reinterpret_cast<float*>(message.payload.data());
  std::fill_n(data, kEdge.rows * kEdge.cols, fill);
  return message;
}

class EveryLink : public ::testing::TestWithParam<Ends (*)(Signal&)> {
 protected:
  // Waits for a message or for the link's error.
  std::optional<Message> Await(Link& link, MessageKind kind, int64_t index) {
    for (;;) {
      const uint64_t seen = signal_.count();
      const absl::Status status = link.status();
      if (auto message = link.Take(kind, index)) return message;
      if (!status.ok()) return std::nullopt;
      signal_.WaitPast(seen);
    }
  }
  Signal signal_;
};

TEST_P(EveryLink, CarriesTensorsBothWays) {
  Ends ends = GetParam()(signal_);
  ends.up->Send(MakeMessage(*ends.up, MessageKind::kForward, 1, 0.5f));
  ends.down->Send(MakeMessage(*ends.down, MessageKind::kBackward, 0, 2.5f));
  const auto forward = Await(*ends.down, MessageKind::kForward, 1);
  ASSERT_TRUE(forward.has_value());
  EXPECT_EQ(forward->header.samples, 77u);
  EXPECT_EQ(forward->header.generation, 3);
  EXPECT_EQ(reinterpret_cast<float*>(forward->payload.data())[31], 0.5f);
  const auto backward = Await(*ends.up, MessageKind::kBackward, 0);
  ASSERT_TRUE(backward.has_value());
  EXPECT_EQ(reinterpret_cast<float*>(backward->payload.data())[0], 2.5f);
}

TEST_P(EveryLink, IsTakenByWhatItIsNotByOrder) {
  Ends ends = GetParam()(signal_);
  ends.up->Send(MakeMessage(*ends.up, MessageKind::kForward, 7, 1));
  ends.up->Send(MakeMessage(*ends.up, MessageKind::kEvaluate, 4, 2));
  EXPECT_TRUE(Await(*ends.down, MessageKind::kEvaluate, 4));
  EXPECT_FALSE(ends.down->Take(MessageKind::kForward, 6));
  EXPECT_TRUE(Await(*ends.down, MessageKind::kForward, 7));
}

TEST_P(EveryLink, HoldsBackAFastSenderAndLosesNothing) {
  Ends ends = GetParam()(signal_);
  std::thread sender([&] {
    for (int64_t i = 0; i < 200; ++i) {
      while (!ends.up->Writable()) std::this_thread::yield();
      ends.up->Send(MakeMessage(*ends.up, MessageKind::kForward, i,
                                static_cast<float>(i)));
    }
  });
  for (int64_t i = 0; i < 200; ++i) {
    const auto message = Await(*ends.down, MessageKind::kForward, i);
    ASSERT_TRUE(message.has_value());
    EXPECT_EQ(*reinterpret_cast<float*>(message->payload.data()),
              static_cast<float>(i));
  }
  sender.join();
}

TEST_P(EveryLink, ClosingWakesThePeerWithAnError) {
  Ends ends = GetParam()(signal_);
  std::thread closer([&] { ends.up->Close(); });
  EXPECT_FALSE(Await(*ends.down, MessageKind::kForward, 0));
  EXPECT_THAT(ends.down->status(), StatusIs(absl::StatusCode::kUnavailable));
  closer.join();
}

TEST_P(EveryLink, RefusesTheSameMessageTwice) {
  Ends ends = GetParam()(signal_);
  ends.up->Send(MakeMessage(*ends.up, MessageKind::kForward, 1, 1));
  ends.up->Send(MakeMessage(*ends.up, MessageKind::kForward, 1, 1));
  while (ends.down->status().ok()) std::this_thread::yield();
  EXPECT_THAT(ends.down->status(),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("twice")));
}

INSTANTIATE_TEST_SUITE_P(Links, EveryLink, ::testing::Values(&InProcess, &Tcp));

// Begins every connection.
struct Hello {
  uint32_t magic = MessageHeader::kMagic;
  uint32_t version = MessageHeader::kVersion;
  Positions received;
};

// What a peer that is not what it should be sends.
absl::Status StatusAfter(const MessageHeader& header) {
  Signal signal;
  auto [mine, theirs] = SocketPair();
  TcpLink link(kEdge, std::move(mine), signal);
  const Hello hello;
  EXPECT_THAT(theirs.WriteAll(&hello, sizeof hello, &header, sizeof header),
              IsOk());
  while (link.status().ok()) std::this_thread::yield();
  return link.status();
}

MessageHeader GoodHeader() {
  MessageHeader header;
  header.run = kEdge.identity.run;
  header.generation = kEdge.identity.generation;
  header.edge = kEdge.identity.edge;
  header.rows = kEdge.rows;
  header.cols = kEdge.cols;
  return header;
}

TEST(TcpLinkHeader, EveryFieldIsChecked) {
  const auto expect_refused = [](auto change, const char* text) {
    MessageHeader header = GoodHeader();
    change(header);
    EXPECT_THAT(StatusAfter(header),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr(text)));
  };
  expect_refused([](auto& h) { h.magic = 1; }, "not a gimbal link");
  expect_refused([](auto& h) { h.version = 9; }, "version 9");
  expect_refused([](auto& h) { h.run = 6; }, "another run");
  expect_refused([](auto& h) { h.generation = 2; }, "generation 3");
  expect_refused([](auto& h) { h.edge = 1; },
                 "another run, generation or edge");
  expect_refused([](auto& h) { h.kind = static_cast<MessageKind>(99); },
                 "unknown kind");
  expect_refused([](auto& h) { h.rows = int64_t{1} << 40; }, "4 x 8");
  expect_refused([](auto& h) { h.cols = -8; }, "4 x 8");
  expect_refused([](auto& h) { h.type = MessageHeader::Type::kFp64; }, "fp32");
  expect_refused([](auto& h) { h.index = -1; }, "negative");
}

// A user timeout would end a link whose peer is alive but does not read.
TEST(LinkSocket, AFullPeerHoldsTheLinkUpWithoutBreakingIt) {
  Signal signal;
  const EdgeSpec edge{kEdge.identity, 1 << 10, 1 << 10};  // 4 MiB a message
  auto listener = *LinkListener::Start("127.0.0.1:0");
  listener->Admit(5, 3, kKey);
  absl::StatusOr<Socket> dialled;
  std::thread dialler([&] {
    dialled = DialEdge(listener->address(), edge.identity, kKey,
                       In(seconds(20)), [] { return false; });
  });
  absl::StatusOr<Socket> accepted = listener->Accept(edge.identity);
  dialler.join();
  ASSERT_THAT(accepted, IsOk());
  ASSERT_THAT(dialled, IsOk());
  int timeout = -1;
  socklen_t size = sizeof timeout;
  getsockopt(dialled->fd(), IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, &size);
  EXPECT_EQ(timeout, 0);

  TcpLink up(edge, *std::move(dialled), signal);
  TcpLink down(edge, *std::move(accepted), signal);
  // The reader stops at a full mailbox; what follows fills the kernel's
  // buffers, then the sender's queue.
  int64_t sent = 0;
  constexpr std::chrono::milliseconds kPause{300};
  const auto deadline = In(seconds(60));
  for (auto pause = base::Clock::Real().Now() + kPause;
       base::Clock::Real().Now() < std::min(pause, deadline);) {
    if (!up.Writable()) {
      std::this_thread::yield();
      continue;
    }
    pause = base::Clock::Real().Now() + kPause;
    Message message;
    message.header.index = sent++;
    message.header.rows = edge.rows;
    message.header.cols = edge.cols;
    message.payload = up.TakeBuffer(edge.payload_capacity());
    up.Send(std::move(message));
  }
  EXPECT_FALSE(up.Writable());
  for (int64_t i = 0; i < sent;) {
    const uint64_t seen = signal.count();
    ASSERT_THAT(down.status(), IsOk());
    if (down.Take(MessageKind::kForward, i)) {
      ++i;
    } else {
      signal.WaitPast(seen);
    }
  }
  EXPECT_THAT(up.status(), IsOk());
}

TEST(LinkListener, JoinsEdgesWhicheverSideIsFirst) {
  auto listener = *LinkListener::Start("127.0.0.1:0");
  listener->Admit(5, 3, kKey);
  for (const bool dial_first : {true, false}) {
    EdgeIdentity edge = kEdge.identity;
    edge.edge = dial_first ? 10 : 11;
    absl::StatusOr<Socket> dialled, accepted;
    const auto dial = [&] {
      dialled = DialEdge(listener->address(), edge, kKey, In(seconds(20)),
                         [] { return false; });
    };
    const auto accept = [&] {
      accepted = listener->Accept(edge, In(seconds(20)));
    };
    std::thread first = dial_first ? std::thread(dial) : std::thread(accept);
    std::this_thread::yield();
    dial_first ? accept() : dial();
    first.join();
    EXPECT_THAT(accepted, IsOk());
    EXPECT_THAT(dialled, IsOk());
  }
}

TEST(LinkListener, AbandonedGenerationsEndTheirWaits) {
  auto listener = *LinkListener::Start("127.0.0.1:0");
  listener->Admit(5, 3, kKey);
  std::thread abandoner([&] { listener->Abandon(5, 3); });
  EXPECT_THAT(listener->Accept(kEdge.identity),
              StatusIs(absl::StatusCode::kAborted));
  abandoner.join();
  EdgeIdentity next = kEdge.identity;
  next.generation = 4;
  EXPECT_THAT(listener->Accept(next, base::Clock::Real().Now()),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       HasSubstr("stage 2 did not connect to stage 3")));
}

// A worker's listener outlives a run; the next one counts from 1 again.
TEST(LinkListener, GenerationsOfAnotherRunAreNotAbandoned) {
  auto listener = *LinkListener::Start("127.0.0.1:0");
  listener->Admit(5, 3, kKey);
  listener->Abandon(5, 3);
  const EdgeIdentity other{.run = 6, .generation = 1, .edge = 2};
  listener->Admit(6, 1, kKey);
  absl::StatusOr<Socket> dialled;
  std::thread dialler([&] {
    dialled = DialEdge(listener->address(), other, kKey, In(seconds(20)),
                       [] { return false; });
  });
  EXPECT_THAT(listener->Accept(other, In(seconds(20))), IsOk());
  dialler.join();
  EXPECT_THAT(dialled, IsOk());
}

TEST(LinkListener, StrangersAreDroppedAndOthersStillServed) {
  auto listener = *LinkListener::Start("127.0.0.1:0");
  listener->Admit(5, 3, kKey);
  const Socket silent = *net::ConnectTo(listener->address(), In(seconds(5)));
  const Socket rude = *net::ConnectTo(listener->address(), In(seconds(5)));
  const char garbage[64] = "GET / HTTP/1.1\r\nHost: example\r\n\r\n";
  EXPECT_THAT(rude.WriteAll(garbage, sizeof garbage, nullptr, 0), IsOk());
  char answer;
  EXPECT_THAT(rude.ReadAll(&answer, 1, In(seconds(5))),
              StatusIs(absl::StatusCode::kUnavailable));
  absl::StatusOr<Socket> dialled;
  std::thread dialler([&] {
    dialled = DialEdge(listener->address(), kEdge.identity, kKey,
                       In(seconds(20)), [] { return false; });
  });
  EXPECT_THAT(listener->Accept(kEdge.identity, In(seconds(20))), IsOk());
  dialler.join();
  EXPECT_THAT(dialled, IsOk());
}

TEST(LinkListener, ATakenPortIsNamed) {
  auto listener = *LinkListener::Start("127.0.0.1:0");
  EXPECT_THAT(LinkListener::Start(listener->address()),
              StatusIs(absl::StatusCode::kAlreadyExists,
                       HasSubstr(listener->address())));
}

// A stage that loads for long is no broken link.
TEST(DialEdge, WaitsBeyondTheDeadlineForAStageThatIsLoading) {
  auto listener = *LinkListener::Start("127.0.0.1:0");
  listener->Admit(5, 3, kKey);
  std::atomic<int> asked = 0;
  absl::StatusOr<Socket> dialled;
  const auto deadline =
      base::Clock::Real().Now() + std::chrono::milliseconds(50);
  std::thread dialler([&] {
    dialled =
        DialEdge(listener->address(), kEdge.identity, kKey, deadline, [&] {
          ++asked;
          return false;
        });
  });
  while (asked < 2) std::this_thread::yield();  // 100 ms apart
  EXPECT_GT(base::Clock::Real().Now(), deadline);
  EXPECT_THAT(listener->Accept(kEdge.identity), IsOk());
  dialler.join();
  EXPECT_THAT(dialled, IsOk());
}

TEST(DialEdge, GivesUpAtTheDeadlineAndSaysWhereItTried) {
  std::string address;
  { address = (*LinkListener::Start("127.0.0.1:0"))->address(); }
  EXPECT_THAT(DialEdge(address, kEdge.identity, kKey, In(seconds(0)),
                       [] { return false; }),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr(address)));
}

}  // namespace
}  // namespace gimbal::worker
