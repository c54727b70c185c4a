// How the two ends of a TCP edge find each other: the upstream worker dials the
// downstream worker's data address and says which edge of which run and
// generation it is; both prove that they know the generation's key
// (worker/transport/link_handshake.h); the listener parks the connection until
// the stage asks for it. Either side may be first. Who does not prove it within
// five seconds is dropped, and so is the eldest of too many who have not yet.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/net/socket.h"
#include "worker/transport/link_handshake.h"
#include "worker/transport/message.h"

namespace gimbal::worker {

using net::Socket;

// Thread-safe.
class LinkListener {
 public:
  // Errors: ALREADY_EXISTS names an address that is taken.
  static absl::StatusOr<std::unique_ptr<LinkListener>> Start(
      const std::string& address);
  ~LinkListener();

  const std::string& address() const { return address_; }  // host:port

  // Takes connections of this generation of the run from now on, of peers that
  // know the key.
  void Admit(uint64_t run, int64_t generation, const std::string& key);
  // Waits for the connection of the edge. ABORTED after Abandon of its
  // generation, DEADLINE_EXCEEDED after the deadline. Without one it waits
  // until it is abandoned: how long a neighbour takes to load is not known, and
  // whether it is alive is the coordinator's to say.
  absl::StatusOr<Socket> Accept(
      const EdgeIdentity& edge,
      base::SteadyTime deadline = base::SteadyTime::max());
  // Ends every wait of this generation of the run and of older ones, now and
  // later, closes their parked connections and forgets their keys.
  void Abandon(uint64_t run, int64_t generation);

 private:
  using Key = std::tuple<uint64_t, int64_t, int32_t>;  // run, generation, edge
  // A connection whose handshake is not done yet.
  struct Stranger {
    Socket socket;
    base::SteadyTime deadline;
    std::string inbox;                       // of the next piece
    std::optional<LinkHello> hello;          // has come
    std::optional<LinkChallenge> challenge;  // was sent
    // The one thing to wait for is the key, not the peer.
    bool waits() const { return hello && !challenge; }
    // Reads on; 1 when the next piece, of `bytes`, is whole, 0 when it is not
    // yet, -1 when the peer is gone.
    int Read(size_t bytes);
  };

  LinkListener(Socket socket, Socket wake_read, Socket wake_write,
               std::string address);
  void Loop();
  void AcceptStranger();
  // The next step of the handshake; false when the stranger is to be dropped.
  bool Advance(Stranger& stranger);
  static bool ReadHello(Stranger& stranger);
  bool Challenge(Stranger& stranger);
  bool TakeProof(Stranger& stranger);
  void Wake(char why) const;
  // These require the lock.
  const std::string* KeyOf(const LinkHello& hello) const;
  bool Abandoned(uint64_t run, int64_t generation) const;

  const Socket socket_;
  const Socket wake_read_, wake_write_;
  const std::string address_;
  std::vector<Stranger> strangers_;  // the loop's own, eldest first
  std::mutex mutex_;
  std::condition_variable parked_changed_;
  std::map<Key, Socket> parked_;
  std::map<uint64_t, int64_t> abandoned_;  // newest generation, by run
  std::map<std::pair<uint64_t, int64_t>, std::string> keys_;
  std::thread thread_;
};

// The dialling side: connects, retrying with backoff until the deadline, and
// does the handshake of the edge with `key`. Then it waits for the other stage,
// which may still be loading, as long as the connection stands; `cancelled`,
// asked every now and then, ends everything with ABORTED.
absl::StatusOr<Socket> DialEdge(const std::string& address,
                                const EdgeIdentity& edge,
                                const std::string& key,
                                base::SteadyTime deadline,
                                const std::function<bool()>& cancelled);

}  // namespace gimbal::worker
