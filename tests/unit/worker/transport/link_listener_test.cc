// Who may connect to a worker's links, and what others can do.
#include "worker/transport/link_listener.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/status_matchers.h"

namespace gimbal::worker {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test_support::IsOk;
using test_support::StatusIs;
using ::testing::HasSubstr;

const EdgeIdentity kEdge{.run = 5, .generation = 3, .edge = 2};
const std::string kKey(32, 'k');
const std::string kOtherKey(32, 'o');

base::SteadyTime In(milliseconds t) { return base::Clock::Real().Now() + t; }

class LinkListenerTest : public ::testing::Test {
 protected:
  Socket Connect() {
    return *net::ConnectTo(listener_->address(), In(seconds(20)));
  }

  absl::StatusOr<Socket> Dial(const std::string& key, milliseconds patience) {
    return DialEdge(listener_->address(), kEdge, key, In(patience),
                    [] { return false; });
  }

  // The peer has closed the connection.
  static void ExpectDropped(const Socket& socket) {
    char byte;
    EXPECT_THAT(socket.ReadAll(&byte, 1, In(seconds(20))),
                StatusIs(absl::StatusCode::kUnavailable));
  }

  void ExpectServed() {
    absl::StatusOr<Socket> dialled;
    std::thread dialler([&] { dialled = Dial(kKey, seconds(20)); });
    EXPECT_THAT(listener_->Accept(kEdge, In(seconds(20))), IsOk());
    dialler.join();
    EXPECT_THAT(dialled, IsOk());
  }

  const std::unique_ptr<LinkListener> listener_ =
      *LinkListener::Start("127.0.0.1:0");
};

TEST_F(LinkListenerTest, ADiallerWithoutTheKeyIsRefused) {
  listener_->Admit(5, 3, kKey);
  const Socket socket = Connect();
  const LinkHello hello = MakeHello(kEdge);
  ASSERT_THAT(socket.WriteAll(&hello, sizeof hello, nullptr, 0), IsOk());
  LinkChallenge challenge;
  ASSERT_THAT(socket.ReadAll(&challenge, sizeof challenge, In(seconds(20))),
              IsOk());
  const LinkProof proof = DiallerProof(kOtherKey, hello, challenge);
  ASSERT_THAT(socket.WriteAll(proof.data(), proof.size(), nullptr, 0), IsOk());
  ExpectDropped(socket);
  EXPECT_THAT(listener_->Accept(kEdge, In(milliseconds(0))),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
}

// Of a host that is gone nothing comes back, not even a refusal.
TEST(DialEdge, IsGivenUpSoonWhenNobodyAnswers) {
  // A queue of one: the kernel drops what comes when it is full.
  const Socket full(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(
      bind(full.fd(), reinterpret_cast<sockaddr*>(&address), sizeof address),
      0);
  ASSERT_EQ(listen(full.fd(), 0), 0);
  ASSERT_OK_AND_ASSIGN(const std::string name, net::LocalAddress(full));
  std::vector<Socket> waiting;
  for (;;) {
    auto socket = net::ConnectTo(name, In(milliseconds(500)));
    if (!socket.ok()) break;
    waiting.push_back(*std::move(socket));
    ASSERT_LT(waiting.size(), 100u);
  }
  const base::SteadyTime begin = base::Clock::Real().Now();
  EXPECT_THAT(DialEdge(name, kEdge, kKey, In(seconds(60)),
                       [&] { return In(seconds(0)) > begin + seconds(1); }),
              StatusIs(absl::StatusCode::kAborted));
  EXPECT_LT(In(seconds(0)), begin + seconds(30));
}

TEST_F(LinkListenerTest, AListenerWithoutTheKeyIsNotTrusted) {
  listener_->Admit(5, 3, kOtherKey);
  EXPECT_THAT(Dial(kKey, milliseconds(0)),
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr("does not know the run's link key")));
}

// What was heard on one connection opens no other one.
TEST_F(LinkListenerTest, AProofIsGoodForOneConnection) {
  listener_->Admit(5, 3, kKey);
  const LinkHello hello = MakeHello(kEdge);
  LinkProof heard;
  for (const bool again : {false, true}) {
    const Socket socket = Connect();
    ASSERT_THAT(socket.WriteAll(&hello, sizeof hello, nullptr, 0), IsOk());
    LinkChallenge challenge;
    ASSERT_THAT(socket.ReadAll(&challenge, sizeof challenge, In(seconds(20))),
                IsOk());
    if (!again) heard = DiallerProof(kKey, hello, challenge);
    ASSERT_THAT(socket.WriteAll(heard.data(), heard.size(), nullptr, 0),
                IsOk());
    if (again) {
      ExpectDropped(socket);
    } else {
      EXPECT_THAT(listener_->Accept(kEdge, In(seconds(20))), IsOk());
    }
  }
}

// Nobody can have the listener make the proof that it wants to see.
TEST_F(LinkListenerTest, AProofIsGoodForOneRole) {
  listener_->Admit(5, 3, kKey);
  const Socket socket = Connect();
  const LinkHello hello = MakeHello(kEdge);
  ASSERT_THAT(socket.WriteAll(&hello, sizeof hello, nullptr, 0), IsOk());
  LinkChallenge challenge;
  ASSERT_THAT(socket.ReadAll(&challenge, sizeof challenge, In(seconds(20))),
              IsOk());
  ASSERT_THAT(
      socket.WriteAll(challenge.proof, sizeof challenge.proof, nullptr, 0),
      IsOk());
  ExpectDropped(socket);
}

// Every field of the greeting is under the key.
TEST(LinkHandshake, AProofIsGoodForOneEdge) {
  const LinkHello hello = MakeHello(kEdge);
  const LinkChallenge challenge = MakeChallenge(kKey, hello);
  EXPECT_TRUE(ChallengeHolds(kKey, hello, challenge));
  EXPECT_TRUE(
      ProofHolds(kKey, hello, challenge, DiallerProof(kKey, hello, challenge)));
  const std::function<void(LinkHello&)> changes[] = {
      [](LinkHello& h) { h.run = 6; }, [](LinkHello& h) { h.generation = 4; },
      [](LinkHello& h) { h.edge = 1; }, [](LinkHello& h) { h.nonce[31] ^= 1; }};
  for (const auto& change : changes) {
    LinkHello other = hello;
    change(other);
    EXPECT_FALSE(ChallengeHolds(kKey, other, challenge));
    EXPECT_FALSE(ProofHolds(kKey, hello, challenge,
                            DiallerProof(kKey, other, challenge)));
  }
}

// The coordinator may have told the dialling worker first.
TEST_F(LinkListenerTest, APeerThatIsEarlyWaitsForTheKey) {
  absl::StatusOr<Socket> dialled;
  std::atomic<int> asked = 0;
  std::thread dialler([&] {
    dialled = DialEdge(listener_->address(), kEdge, kKey, In(seconds(20)), [&] {
      ++asked;
      return false;
    });
  });
  while (asked == 0) std::this_thread::yield();  // it waits for an answer
  listener_->Admit(5, 3, kKey);
  EXPECT_THAT(listener_->Accept(kEdge, In(seconds(20))), IsOk());
  dialler.join();
  EXPECT_THAT(dialled, IsOk());
}

TEST_F(LinkListenerTest, KeysOfAbandonedGenerationsOpenNothing) {
  listener_->Admit(5, 3, kKey);
  listener_->Abandon(5, 3);
  listener_->Admit(5, 3, kKey);  // too late
  EXPECT_THAT(Dial(kKey, milliseconds(0)),
              StatusIs(absl::StatusCode::kUnavailable));
}

// Connections that say nothing, or say it slowly, hold nobody up, and none of
// them is kept for long.
TEST_F(LinkListenerTest, ManySilentConnectionsDoNotKeepTheNeighbourOut) {
  listener_->Admit(5, 3, kKey);
  std::vector<Socket> silent;
  for (int i = 0; i < 200; ++i) {
    silent.push_back(Connect());
    const LinkHello hello = MakeHello(kEdge);
    EXPECT_THAT(
        silent.back().WriteAll(&hello, static_cast<size_t>(i % 64), nullptr, 0),
        IsOk());
  }
  ExpectServed();
  for (const Socket& socket : silent) ExpectDropped(socket);
  ExpectServed();
}

}  // namespace
}  // namespace gimbal::worker
