// How the two ends of a TCP edge find each other: the upstream worker dials the
// downstream worker's data address and says which edge of which run and
// generation it is; the listener parks the connection until the stage asks for
// it. Either side may be first.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "worker/transport/message.h"
#include "worker/transport/socket.h"

namespace gimbal::worker {

// Thread-safe.
class LinkListener {
 public:
  // Errors: ALREADY_EXISTS names an address that is taken.
  static absl::StatusOr<std::unique_ptr<LinkListener>> Start(
      const std::string& address);
  ~LinkListener();

  const std::string& address() const { return address_; }  // host:port

  // Waits for the connection of the edge. ABORTED after Abandon of its
  // generation, DEADLINE_EXCEEDED after the deadline. Without one it waits
  // until it is abandoned: how long a neighbour takes to load is not known, and
  // whether it is alive is the coordinator's to say.
  absl::StatusOr<Socket> Accept(
      const EdgeIdentity& edge,
      base::SteadyTime deadline = base::SteadyTime::max());
  // Ends every wait of this generation of the run and of older ones, now and
  // later, and closes their parked connections.
  void Abandon(uint64_t run, int64_t generation);

 private:
  using Key = std::tuple<uint64_t, int64_t, int32_t>;  // run, generation, edge
  // A connection whose handshake has not come yet.
  struct Stranger {
    Socket socket;
    base::SteadyTime deadline;
  };

  LinkListener(Socket socket, Socket wake_read, Socket wake_write,
               std::string address);
  void Loop();
  void AcceptStranger();
  void Introduce(Stranger stranger);
  void DropLateStrangers();
  // Requires the lock.
  bool Abandoned(uint64_t run, int64_t generation) const;

  const Socket socket_;
  const Socket wake_read_, wake_write_;
  const std::string address_;
  std::vector<Stranger> strangers_;  // the loop's own
  std::mutex mutex_;
  std::condition_variable parked_changed_;
  std::map<Key, Socket> parked_;
  std::map<uint64_t, int64_t> abandoned_;  // newest generation, by run
  std::thread thread_;
};

// The dialling side: connects, retrying with backoff until the deadline, and
// introduces the edge. Then it waits for the other stage, which may still be
// loading, as long as the connection stands; `cancelled`, asked every now and
// then, ends everything with ABORTED.
absl::StatusOr<Socket> DialEdge(const std::string& address,
                                const EdgeIdentity& edge,
                                base::SteadyTime deadline,
                                const std::function<bool()>& cancelled);

}  // namespace gimbal::worker
