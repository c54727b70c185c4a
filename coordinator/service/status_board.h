// The newest answer to GetStatus, under a mutex of its own: it can be read at
// once even while the loop writes a checkpoint or hangs. Thread-safe.
#pragma once

#include <mutex>

#include "gimbal/v1/admin_service.pb.h"

namespace gimbal::coordinator {

class StatusBoard {
 public:
  void Publish(v1::GetStatusResponse status);
  v1::GetStatusResponse Get() const;

 private:
  mutable std::mutex mutex_;
  v1::GetStatusResponse status_;  // guarded by mutex_
};

}  // namespace gimbal::coordinator
