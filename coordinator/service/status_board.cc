#include "coordinator/service/status_board.h"

#include <utility>

namespace gimbal::coordinator {

void StatusBoard::Publish(v1::GetStatusResponse status) {
  std::lock_guard lock(mutex_);
  status_.Swap(&status);
}

v1::GetStatusResponse StatusBoard::Get() const {
  std::lock_guard lock(mutex_);
  return status_;
}

}  // namespace gimbal::coordinator
