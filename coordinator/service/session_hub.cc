#include "coordinator/service/session_hub.h"

#include <algorithm>

namespace gimbal::coordinator {

bool SessionHub::Bind(int64_t worker, const std::shared_ptr<Session>& session) {
  if (closed_) return false;
  const auto bound =
      std::find_if(sessions_.begin(), sessions_.end(),
                   [&](const auto& entry) { return entry.second == session; });
  if (bound != sessions_.end()) return bound->first == worker;
  return sessions_.emplace(worker, session).second;
}

std::optional<int64_t> SessionHub::Unbind(
    const std::shared_ptr<Session>& session) {
  for (auto it = sessions_.begin(); it != sessions_.end(); ++it) {
    if (it->second != session) continue;
    const int64_t worker = it->first;
    sessions_.erase(it);
    return worker;
  }
  return std::nullopt;
}

void SessionHub::Send(int64_t worker, const v1::CoordinatorMessage& message) {
  const auto it = sessions_.find(worker);
  if (it != sessions_.end()) it->second->Send(message);
}

void SessionHub::Disconnect(int64_t worker, const absl::Status& reason) {
  const auto it = sessions_.find(worker);
  if (it == sessions_.end()) return;
  it->second->Close(reason);
  sessions_.erase(it);
}

void SessionHub::Close(const absl::Status& reason) {
  closed_ = true;
  for (const auto& [worker, session] : sessions_) session->Close(reason);
  sessions_.clear();
}

}  // namespace gimbal::coordinator
