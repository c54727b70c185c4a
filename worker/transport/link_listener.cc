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

namespace gimbal::worker {
namespace {

using std::chrono::milliseconds;

constexpr size_t kMaxStrangers = 64;
constexpr std::chrono::seconds kHandshakeTime{5};

struct Handshake {
  uint32_t magic = MessageHeader::kMagic;
  uint16_t version = MessageHeader::kVersion;
  uint16_t reserved = 0;
  uint64_t run = 0;
  int64_t generation = 0;
  int32_t edge = 0;
  uint32_t reserved2 = 0;
};
static_assert(sizeof(Handshake) == 32);

// Answer to a handshake, once the stage has taken the connection.
constexpr uint32_t kWelcome = 0x4f4b4d47;  // "GMKO"

}  // namespace

absl::StatusOr<std::unique_ptr<LinkListener>> LinkListener::Start(
    const std::string& address) {
  GIMBAL_ASSIGN_OR_RETURN(Socket socket, ListenOn(address));
  GIMBAL_ASSIGN_OR_RETURN(std::string bound, LocalAddress(socket));
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
  const char stop = 0;
  GIMBAL_CHECK(write(wake_write_.fd(), &stop, 1) == 1);
  thread_.join();
}

void LinkListener::Loop() {
  for (;;) {
    std::vector<pollfd> fds = {{wake_read_.fd(), POLLIN, 0},
                               {socket_.fd(), POLLIN, 0}};
    for (const Stranger& stranger : strangers_) {
      fds.push_back({stranger.socket.fd(), POLLIN, 0});
    }
    poll(fds.data(), fds.size(), strangers_.empty() ? -1 : 100);
    if (fds[0].revents != 0) return;
    // From the back, so that erasing does not move what is still to be looked
    // at.
    for (size_t i = strangers_.size(); i-- > 0;) {
      if (fds[i + 2].revents == 0) continue;
      Stranger stranger = std::move(strangers_[i]);
      strangers_.erase(strangers_.begin() + static_cast<ptrdiff_t>(i));
      Introduce(std::move(stranger));
    }
    DropLateStrangers();
    if (fds[1].revents != 0) AcceptStranger();
  }
}

void LinkListener::AcceptStranger() {
  Socket socket(accept4(socket_.fd(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!socket.valid() || strangers_.size() >= kMaxStrangers) return;
  strangers_.push_back(
      {std::move(socket), base::Clock::Real().Now() + kHandshakeTime});
}

void LinkListener::Introduce(Stranger stranger) {
  Handshake hello;
  const ssize_t here =
      recv(stranger.socket.fd(), &hello, sizeof hello, MSG_PEEK | MSG_DONTWAIT);
  if (here <= 0) return;  // gone
  if (here < static_cast<ssize_t>(sizeof hello)) {
    strangers_.push_back(std::move(stranger));
    return;
  }
  recv(stranger.socket.fd(), &hello, sizeof hello, MSG_DONTWAIT);
  if (hello.magic != MessageHeader::kMagic ||
      hello.version != MessageHeader::kVersion) {
    base::LogWarning("dropped a connection that is not a gimbal link");
    return;
  }
  {
    std::lock_guard lock(mutex_);
    if (Abandoned(hello.run, hello.generation)) return;
    parked_[{hello.run, hello.generation, hello.edge}] =
        std::move(stranger.socket);
  }
  parked_changed_.notify_all();
}

void LinkListener::DropLateStrangers() {
  const auto now = base::Clock::Real().Now();
  std::erase_if(strangers_,
                [&](const Stranger& s) { return s.deadline < now; });
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
  GIMBAL_RETURN_IF_ERROR(ConfigureLinkSocket(socket));
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
  }
  parked_changed_.notify_all();
}

bool LinkListener::Abandoned(uint64_t run, int64_t generation) const {
  const auto found = abandoned_.find(run);
  return found != abandoned_.end() && generation <= found->second;
}

absl::StatusOr<Socket> DialEdge(const std::string& address,
                                const EdgeIdentity& edge,
                                base::SteadyTime deadline,
                                const std::function<bool()>& cancelled) {
  const base::Clock& clock = base::Clock::Real();
  const Handshake hello{
      .run = edge.run, .generation = edge.generation, .edge = edge.edge};
  const auto try_once = [&]() -> absl::StatusOr<Socket> {
    GIMBAL_ASSIGN_OR_RETURN(Socket socket, ConnectTo(address, deadline));
    GIMBAL_RETURN_IF_ERROR(ConfigureLinkSocket(socket));
    GIMBAL_RETURN_IF_ERROR(socket.WriteAll(&hello, sizeof hello, nullptr, 0));
    uint32_t answer = 0;
    // The answer comes when the other stage has loaded; look up now and then
    // whether it is still wanted.
    for (;;) {
      const absl::Status read = socket.ReadAll(&answer, sizeof answer,
                                               clock.Now() + milliseconds(100));
      if (read.ok()) break;
      if (!absl::IsDeadlineExceeded(read)) return read;
      if (cancelled()) return absl::AbortedError("the assignment was replaced");
    }
    if (answer != kWelcome) {
      return absl::DataLossError("the peer is not a gimbal link");
    }
    return socket;
  };
  for (milliseconds pause{10};;
       pause = std::min(pause * 2, milliseconds(500))) {
    absl::StatusOr<Socket> socket = try_once();
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
