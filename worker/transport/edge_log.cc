#include "worker/transport/edge_log.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"

namespace gimbal::worker {
namespace {

Positions::Position PositionOf(const Message& message) {
  return {message.header.index, message.header.part};
}

bool Reached(const Positions& positions, const Message& message) {
  return PositionOf(message) <= positions[message.header.kind];
}

// A file that is gone with its descriptor, whatever ends the process. NFS has
// no O_TMPFILE.
int OpenUnnamed(const std::string& folder) {
  const int file = open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file >= 0 || (errno != EOPNOTSUPP && errno != EISDIR)) return file;
  std::string path = folder + "/.edge-log-XXXXXX";
  const int named = mkostemp(path.data(), O_CLOEXEC);
  if (named >= 0) unlink(path.c_str());
  return named;
}

}  // namespace

EdgeLog::EdgeLog(EdgeLogLimits limits) : limits_(std::move(limits)) {}

EdgeLog::~EdgeLog() {
  if (file_ >= 0) close(file_);
}

void EdgeLog::Append(Message message) {
  const int64_t bytes = message.payload.size();
  std::lock_guard lock(mutex_);
  memory_bytes_ += bytes;
  entries_.push_back({.message = std::make_shared<Message>(std::move(message)),
                      .bytes = bytes});
}

int64_t EdgeLog::unsent() const {
  std::lock_guard lock(mutex_);
  return static_cast<int64_t>(entries_.size() - next_);
}

absl::Status EdgeLog::Resume(const Positions& peer) {
  std::lock_guard lock(mutex_);
  for (const MessageKind kind :
       {MessageKind::kForward, MessageKind::kBackward, MessageKind::kEvaluate,
        MessageKind::kNormPart, MessageKind::kNormTotal}) {
    if (dropped_[kind] <= peer[kind]) continue;
    return absl::OutOfRangeError(absl::StrCat(
        "the neighbour needs messages from number ", peer[kind].index + 1,
        " on, but only those after ", dropped_[kind].index,
        " are kept (cluster.replay_memory_mb, cluster.replay_disk_mb)"));
  }
  peer_ = peer;
  next_ = 0;
  SkipReached();
  return absl::OkStatus();
}

void EdgeLog::SkipReached() {
  while (next_ < entries_.size() && Reached(peer_, *entries_[next_].message)) {
    ++next_;
  }
}

absl::StatusOr<std::shared_ptr<const Message>> EdgeLog::Next(BufferPool& host) {
  std::lock_guard lock(mutex_);
  SkipReached();
  if (next_ == entries_.size()) return std::shared_ptr<const Message>();
  const Entry& entry = entries_[next_++];
  if (entry.offset < 0) return std::shared_ptr<const Message>(entry.message);
  auto copy = std::make_shared<Message>();
  copy->header = entry.message->header;
  copy->payload = host.Take(entry.bytes);
  const ssize_t read = pread(file_, copy->payload.data(),
                             static_cast<size_t>(entry.bytes), entry.offset);
  if (read != entry.bytes) {
    return absl::OutOfRangeError(absl::StrCat(
        "reading a kept message back from ", limits_.folder, ": ",
        read < 0 ? std::strerror(errno) : "the file is too short"));
  }
  return std::shared_ptr<const Message>(std::move(copy));
}

EdgeLog::Entry* EdgeLog::NextOnDevice(bool unsent) {
  const size_t end = unsent ? entries_.size() : next_;
  while (on_host_ < end) {
    Entry& entry = entries_[on_host_];
    if (entry.message->payload.on_device()) return &entry;
    ++on_host_;
  }
  return nullptr;
}

void EdgeLog::BringToHost(BufferPool& host, bool unsent) {
  std::unique_lock lock(mutex_);
  while (const Entry* entry = NextOnDevice(unsent)) {
    const std::shared_ptr<const Message> message = entry->message;
    lock.unlock();  // the executor goes on
    auto copy = std::make_shared<Message>();
    const PooledBuffer& payload = message->payload;
    copy->header = message->header;
    copy->payload = host.Take(payload.size());
    payload.memory().ToHost(payload.data(), payload.size(),
                            copy->payload.data());
    lock.lock();
    // Unless it was pruned meanwhile.
    Entry* now = NextOnDevice(unsent);
    if (now != nullptr && now->message == message) now->message = copy;
  }
}

void EdgeLog::Spill() {
  std::lock_guard lock(mutex_);
  while (memory_bytes_ > limits_.memory_bytes && on_disk_ < next_) {
    if (ToDisk(entries_[on_disk_])) {
      ++on_disk_;
    } else {
      for (size_t i = on_disk_ + 1; i > 0; --i) DropOldest();
    }
  }
}

bool EdgeLog::ToDisk(Entry& entry) {
  if (disk_bytes_ + entry.bytes > limits_.disk_bytes) return false;
  if (file_ < 0) {
    file_ = OpenUnnamed(limits_.folder);
  }
  if (file_ < 0 || !DiskHasRoom(entry.bytes) ||
      pwrite(file_, entry.message->payload.data(),
             static_cast<size_t>(entry.bytes), file_end_) != entry.bytes) {
    return false;
  }
  // Whoever is sending it holds the message with its payload.
  auto header = std::make_shared<Message>();
  header->header = entry.message->header;
  entry.message = std::move(header);
  entry.offset = file_end_;
  file_end_ += entry.bytes;
  disk_bytes_ += entry.bytes;
  memory_bytes_ -= entry.bytes;
  return true;
}

bool EdgeLog::DiskHasRoom(int64_t bytes) const {
  struct statvfs disk = {};
  if (fstatvfs(file_, &disk) != 0) return false;
  const auto free =
      static_cast<double>(disk.f_bavail) * static_cast<double>(disk.f_frsize);
  return static_cast<double>(bytes) +
             static_cast<double>(limits_.reserve_bytes) <=
         free;
}

void EdgeLog::Prune(const Positions& cut) {
  std::lock_guard lock(mutex_);
  while (next_ > 0 && Reached(cut, *entries_.front().message)) DropOldest();
}

void EdgeLog::DropOldest() {
  const Entry& entry = entries_.front();
  const Message& message = *entry.message;
  Positions::Position& dropped = dropped_[message.header.kind];
  dropped = std::max(dropped, PositionOf(message));
  if (entry.offset < 0) {
    memory_bytes_ -= entry.bytes;
  } else {
    disk_bytes_ -= entry.bytes;
    // Gives the blocks back; where a file system cannot, the file stays large.
    fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, entry.offset,
              entry.bytes);
  }
  entries_.pop_front();
  --next_;
  if (on_disk_ > 0) --on_disk_;
  if (on_host_ > 0) --on_host_;
}

int64_t EdgeLog::memory_bytes() const {
  std::lock_guard lock(mutex_);
  return memory_bytes_;
}

int64_t EdgeLog::disk_bytes() const {
  std::lock_guard lock(mutex_);
  return disk_bytes_;
}

}  // namespace gimbal::worker
