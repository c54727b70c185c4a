#include "worker/transport/link_listener.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/net/secret.h"

namespace gimbal::worker {
namespace {

using std::chrono::milliseconds;

constexpr size_t kMaxStrangers = 64;
constexpr std::chrono::seconds kHandshakeTime{5};
// For one try: a host that is gone does not say so, and whoever gives the edge
// up waits for it.
constexpr std::chrono::seconds kConnectTime{1};
// What the thread is woken for.
constexpr char kStop = 's';
constexpr char kNewKey = 'k';

}  // namespace

absl::StatusOr<std::unique_ptr<LinkListener>> LinkListener::Start(
    const std::string& address) {
  GIMBAL_ASSIGN_OR_RETURN(Socket socket, net::ListenOn(address));
  GIMBAL_ASSIGN_OR_RETURN(std::string bound, net::LocalAddress(socket));
  int wake[2];
  if (pipe2(wake, O_CLOEXEC) != 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("making a pipe: ", std::strerror(errno)));
  }
  return std::unique_ptr<LinkListener>(new LinkListener(
      std::move(socket), Socket(wake[0]), Socket(wake[1]), bound));
}

LinkListener::LinkListener(Socket socket, Socket wake_read, Socket wake_write,
                           std::string address)
    : socket_(std::move(socket)),
      wake_read_(std::move(wake_read)),
      wake_write_(std::move(wake_write)),
      address_(std::move(address)) {
  thread_ = std::thread([this] { Loop(); });
}

LinkListener::~LinkListener() {
  Wake(kStop);
  thread_.join();
}

void LinkListener::Wake(char why) const {
  GIMBAL_CHECK(write(wake_write_.fd(), &why, 1) == 1);
}

void LinkListener::Loop() {
  for (;;) {
    std::vector<pollfd> fds = {{wake_read_.fd(), POLLIN, 0},
                               {socket_.fd(), POLLIN, 0}};
    for (const Stranger& stranger : strangers_) {
      const short events = stranger.waits() ? 0 : POLLIN;
      fds.push_back({stranger.socket.fd(), events, 0});
    }
    poll(fds.data(), fds.size(), strangers_.empty() ? -1 : 100);
    if (fds[0].revents != 0) {
      char why = kStop;
      if (read(wake_read_.fd(), &why, 1) != 1 || why == kStop) return;
    }
    const auto now = base::Clock::Real().Now();
    // From the back, so that erasing does not move what is still to be looked
    // at.
    for (size_t i = strangers_.size(); i-- > 0;) {
      Stranger& stranger = strangers_[i];
      const short seen = fds[i + 2].revents;
      const bool gone = (seen & (POLLERR | POLLHUP)) != 0;
      const bool due = seen != 0 || stranger.waits();
      const bool late = stranger.deadline < now;
      if (!gone && !late && (!due || Advance(stranger))) continue;
      strangers_.erase(strangers_.begin() + static_cast<ptrdiff_t>(i));
    }
    if (fds[1].revents != 0) AcceptStranger();
  }
}

void LinkListener::AcceptStranger() {
  Socket socket = net::AcceptFrom(socket_);
  if (!socket.valid()) return;
  if (strangers_.size() >= kMaxStrangers) strangers_.erase(strangers_.begin());
  strangers_.push_back({.socket = std::move(socket),
                        .deadline = base::Clock::Real().Now() + kHandshakeTime,
                        .inbox = {},
                        .hello = {},
                        .challenge = {}});
}

bool LinkListener::Advance(Stranger& stranger) {
  if (!stranger.hello && !ReadHello(stranger)) return false;
  if (stranger.waits()) return Challenge(stranger);
  return !stranger.challenge || TakeProof(stranger);
}

int LinkListener::Stranger::Read(size_t bytes) {
  const size_t had = inbox.size();
  inbox.resize(bytes);
  const ssize_t got =
      recv(socket.fd(), inbox.data() + had, bytes - had, MSG_DONTWAIT);
  inbox.resize(had + static_cast<size_t>(std::max<ssize_t>(got, 0)));
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
  if (got <= 0) return -1;
  return inbox.size() == bytes ? 1 : 0;
}

bool LinkListener::ReadHello(Stranger& stranger) {
  LinkHello hello;
  const int read = stranger.Read(sizeof hello);
  if (read <= 0) return read == 0;
  std::memcpy(&hello, stranger.inbox.data(), sizeof hello);
  stranger.inbox.clear();
  if (hello.magic != MessageHeader::kMagic ||
      hello.version != MessageHeader::kVersion) {
    base::LogWarning("dropped a connection that is not a gimbal link");
    return false;
  }
  stranger.hello = hello;
  return true;
}

bool LinkListener::Challenge(Stranger& stranger) {
  {
    std::lock_guard lock(mutex_);
    if (Abandoned(stranger.hello->run, stranger.hello->generation)) {
      return false;
    }
    const std::string* key = KeyOf(*stranger.hello);
    // The coordinator may have told the neighbour first.
    if (key == nullptr) return true;
    stranger.challenge = MakeChallenge(*key, *stranger.hello);
  }
  // There is room: nothing was sent before.
  return send(stranger.socket.fd(), &*stranger.challenge,
              sizeof *stranger.challenge, MSG_DONTWAIT | MSG_NOSIGNAL) ==
         static_cast<ssize_t>(sizeof *stranger.challenge);
}

bool LinkListener::TakeProof(Stranger& stranger) {
  const int read = stranger.Read(net::kSecretBytes);
  if (read <= 0) return read == 0;
  const LinkProof& proof = stranger.inbox;
  const LinkHello& hello = *stranger.hello;
  {
    std::lock_guard lock(mutex_);
    const std::string* key = KeyOf(hello);
    if (key == nullptr) return false;  // abandoned
    if (!ProofHolds(*key, hello, *stranger.challenge, proof)) {
      base::LogWarning(absl::StrCat("refused a connection for edge ",
                                    hello.edge,
                                    " that does not know the run's link key"));
      return false;
    }
    parked_[{hello.run, hello.generation, hello.edge}] =
        std::move(stranger.socket);
  }
  parked_changed_.notify_all();
  return false;  // no stranger any more
}

const std::string* LinkListener::KeyOf(const LinkHello& hello) const {
  const auto key = keys_.find({hello.run, hello.generation});
  return key == keys_.end() ? nullptr : &key->second;
}

void LinkListener::Admit(uint64_t run, int64_t generation,
                         const std::string& key) {
  {
    std::lock_guard lock(mutex_);
    if (Abandoned(run, generation)) return;
    keys_[{run, generation}] = key;
  }
  Wake(kNewKey);
}

absl::StatusOr<Socket> LinkListener::Accept(const EdgeIdentity& edge,
                                            base::SteadyTime deadline) {
  const Key key{edge.run, edge.generation, edge.edge};
  Socket socket;
  {
    std::unique_lock lock(mutex_);
    const bool found = parked_changed_.wait_until(lock, deadline, [&] {
      return Abandoned(edge.run, edge.generation) || parked_.contains(key);
    });
    if (Abandoned(edge.run, edge.generation)) {
      return absl::AbortedError("the assignment was replaced");
    }
    if (!found) {
      return absl::DeadlineExceededError(absl::StrCat(
          "stage ", edge.edge, " did not connect to stage ", edge.edge + 1));
    }
    socket = std::move(parked_.extract(key).mapped());
  }
  GIMBAL_RETURN_IF_ERROR(net::ConfigureLinkSocket(socket));
  GIMBAL_RETURN_IF_ERROR(
      socket.WriteAll(&kWelcome, sizeof kWelcome, nullptr, 0));
  return socket;
}

void LinkListener::Abandon(uint64_t run, int64_t generation) {
  {
    std::lock_guard lock(mutex_);
    int64_t& newest = abandoned_[run];
    newest = std::max(newest, generation);
    std::erase_if(parked_, [&](const auto& entry) {
      return Abandoned(std::get<0>(entry.first), std::get<1>(entry.first));
    });
    std::erase_if(keys_, [&](const auto& entry) {
      return Abandoned(entry.first.first, entry.first.second);
    });
  }
  parked_changed_.notify_all();
}

bool LinkListener::Abandoned(uint64_t run, int64_t generation) const {
  const auto found = abandoned_.find(run);
  return found != abandoned_.end() && generation <= found->second;
}

namespace {

// Reads what the other stage may still be long in sending, and looks up now and
// then whether it is still wanted.
absl::Status ReadWhileWanted(const Socket& socket, void* data, size_t bytes,
                             const std::function<bool()>& cancelled) {
  for (;;) {
    const absl::Status here =
        socket.WaitForInput(base::Clock::Real().Now() + milliseconds(100));
    if (here.ok()) {
      return socket.ReadAll(data, bytes,
                            base::Clock::Real().Now() + kHandshakeTime);
    }
    if (!absl::IsDeadlineExceeded(here)) return here;
    if (cancelled()) return absl::AbortedError("the assignment was replaced");
  }
}

absl::StatusOr<Socket> DialOnce(const std::string& address,
                                const EdgeIdentity& edge,
                                const std::string& key,
                                base::SteadyTime deadline,
                                const std::function<bool()>& cancelled) {
  GIMBAL_ASSIGN_OR_RETURN(
      Socket socket,
      net::ConnectTo(address, std::min(deadline, base::Clock::Real().Now() +
                                                     kConnectTime)));
  GIMBAL_RETURN_IF_ERROR(net::ConfigureLinkSocket(socket));
  const LinkHello hello = MakeHello(edge);
  GIMBAL_RETURN_IF_ERROR(socket.WriteAll(&hello, sizeof hello, nullptr, 0));
  LinkChallenge challenge;
  GIMBAL_RETURN_IF_ERROR(
      ReadWhileWanted(socket, &challenge, sizeof challenge, cancelled));
  if (!ChallengeHolds(key, hello, challenge)) {
    return absl::PermissionDeniedError(
        "who answers does not know the run's link key");
  }
  const LinkProof proof = DiallerProof(key, hello, challenge);
  GIMBAL_RETURN_IF_ERROR(
      socket.WriteAll(proof.data(), proof.size(), nullptr, 0));
  uint32_t answer = 0;
  GIMBAL_RETURN_IF_ERROR(
      ReadWhileWanted(socket, &answer, sizeof answer, cancelled));
  if (answer != kWelcome) {
    return absl::DataLossError("the peer is not a gimbal link");
  }
  return socket;
}

}  // namespace

absl::StatusOr<Socket> DialEdge(const std::string& address,
                                const EdgeIdentity& edge,
                                const std::string& key,
                                base::SteadyTime deadline,
                                const std::function<bool()>& cancelled) {
  const base::Clock& clock = base::Clock::Real();
  for (milliseconds pause{10};;
       pause = std::min(pause * 2, milliseconds(500))) {
    absl::StatusOr<Socket> socket =
        DialOnce(address, edge, key, deadline, cancelled);
    if (socket.ok() || absl::IsAborted(socket.status())) return socket;
    if (clock.Now() + pause >= deadline) {
      return absl::UnavailableError(absl::StrCat(
          "stage ", edge.edge, " could not reach stage ", edge.edge + 1, " at ",
          address, ": ", absl::string_view(socket.status().message())));
    }
    for (auto until = clock.Now() + pause; clock.Now() < until;
         std::this_thread::sleep_for(milliseconds(10))) {
      if (cancelled()) return absl::AbortedError("the assignment was replaced");
    }
  }
}

}  // namespace gimbal::worker
