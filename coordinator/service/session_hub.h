// Which open session belongs to which worker. Not thread-safe; runs on the
// loop.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "gimbal/v1/control_service.pb.h"

namespace gimbal::coordinator {

// The coordinator's end of one session stream. Thread-safe.
class Session {
 public:
  virtual ~Session() = default;
  // Queues the message; dropped once the session is closed.
  virtual void Send(const v1::CoordinatorMessage& message) = 0;
  // Ends the session after what was queued. The first call counts.
  virtual void Close(const absl::Status& status) = 0;
};

class SessionHub {
 public:
  // A session becomes the worker's with its first message. False when the
  // worker has another one, the session another worker, or the hub is closed.
  bool Bind(int64_t worker, const std::shared_ptr<Session>& session);
  // Forgets the session; the worker it was bound to.
  std::optional<int64_t> Unbind(const std::shared_ptr<Session>& session);

  void Send(int64_t worker, const v1::CoordinatorMessage& message);
  void Disconnect(int64_t worker, const absl::Status& reason);
  // Closes all of them, and binds none from now on: a message that was under way
  // meanwhile would have its worker counted as lost when its session ends.
  void Close(const absl::Status& reason);

 private:
  bool closed_ = false;
  std::map<int64_t, std::shared_ptr<Session>> sessions_;  // by worker
};

}  // namespace gimbal::coordinator
