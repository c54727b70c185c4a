// The messages that one end of an edge has sent and still has to send, in
// order. They are kept until no restart of the peer can need them again, so
// that a stage that was lost alone can be replayed alone.
//
// The oldest payloads go to an unlinked file once those in memory take too
// much, and are dropped once the file does too: then a peer that needs them
// cannot be served (Resume says so) and all stages have to go back to a
// checkpoint.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/transport/message.h"

namespace gimbal::worker {

struct EdgeLogLimits {
  int64_t memory_bytes = 0;
  int64_t disk_bytes = 0;
  std::string folder;  // of the file
  // Of its disk, not to be taken: checkpoints go there, too.
  int64_t reserve_bytes = 0;
};

// Thread-safe.
class EdgeLog {
 public:
  explicit EdgeLog(EdgeLogLimits limits);
  ~EdgeLog();

  void Append(Message message);
  // At most so many are still to be sent; exact when it is zero.
  int64_t unsent() const;

  // Goes back to what a peer at these positions still needs. OUT_OF_RANGE when
  // part of that is gone.
  absl::Status Resume(const Positions& peer);
  // Moves on to the next message that the peer needs; null when there is none.
  // Reads its payload back when it is on disk, into `host`. Whoever holds it
  // may outlast a Prune.
  absl::StatusOr<std::shared_ptr<const Message>> Next(BufferPool& host);
  // Replaces payloads on a device by copies in `host`: of the messages that
  // have been sent or need not be, and of the unsent ones when asked to. Not on
  // the executor's thread, and not beside Next: it waits for the device.
  void BringToHost(BufferPool& host, bool unsent);
  // Brings memory below its limit. After BringToHost. Not on the executor's
  // thread: it writes.
  void Spill();

  // Forgets what no stage that starts at `cut` or later needs.
  void Prune(const Positions& cut);
  int64_t memory_bytes() const;
  int64_t disk_bytes() const;

 private:
  struct Entry {
    std::shared_ptr<Message> message;  // the payload is empty when on disk
    int64_t bytes = 0;
    int64_t offset = -1;  // in the file
  };
  void SkipReached();
  // The next entry that BringToHost looks at; null when there is none. Requires
  // the lock.
  Entry* NextOnDevice(bool unsent);
  bool ToDisk(Entry& entry);
  bool DiskHasRoom(int64_t bytes) const;
  void DropOldest();

  const EdgeLogLimits limits_;
  mutable std::mutex mutex_;
  std::deque<Entry> entries_;
  size_t on_disk_ = 0;  // so many of the oldest
  size_t on_host_ = 0;  // or on disk; likewise
  size_t next_ = 0;     // to be sent
  Positions peer_;      // up to here the peer has everything
  Positions dropped_;   // up to here nothing is kept
  int64_t memory_bytes_ = 0;
  int64_t disk_bytes_ = 0;
  int64_t file_end_ = 0;
  int file_ = -1;
};

}  // namespace gimbal::worker
