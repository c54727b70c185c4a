#include "worker/pipeline/executor.h"

#include "common/base/status_macros.h"

namespace gimbal::worker {

absl::Status Executor::Run() {
  for (;;) {
    const uint64_t seen = signal_.count();
    bool ran = false;
    size_t finished = 0;
    for (size_t i = runners_.size(); i-- > 0;) {
      if (cancelled_)
        return absl::CancelledError("the assignment was replaced");
      GIMBAL_ASSIGN_OR_RETURN(const StageRunner::Progress progress,
                              runners_[i]->Step(grants_));
      if (progress == StageRunner::Progress::kRan) {
        ran = true;
        break;  // perhaps a later stage has got its input
      }
      if (progress == StageRunner::Progress::kFinished) ++finished;
    }
    if (finished == runners_.size()) return absl::OkStatus();
    if (!ran) signal_.WaitPast(seen);
  }
}

void Executor::Extend(const Grant& grant) {
  grants_.Add(grant);
  signal_.Notify();
}

void Executor::Cancel() {
  cancelled_ = true;
  signal_.Notify();
}

}  // namespace gimbal::worker
