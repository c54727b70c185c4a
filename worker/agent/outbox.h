// Messages of one assignment on their way to the coordinator, in the order in
// which the stages made them. Updates and evaluations are gathered and sent
// together; every other message sends what was gathered before it.
//
// What was reported of updates is remembered until no coordinator can need it
// any more: one that was started again is told once more.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>

#include "gimbal/v1/control_service.pb.h"
#include "worker/pipeline/stage_runner.h"

namespace gimbal::worker {

// Thread-safe.
class Outbox {
 public:
  Outbox(int64_t generation, std::function<void(v1::WorkerMessage)> send)
      : generation_(generation), send_(std::move(send)) {}

  // For messages from now on. Ahead of them goes once more what was reported of
  // updates beyond `repeat_after`, if that is set.
  void SetGeneration(int64_t generation, std::optional<int64_t> repeat_after);
  // Nobody will ask again for updates up to this one.
  void Forget(int64_t update);
  void AddUpdate(const UpdateReport& report);
  void AddEvaluation(int64_t update, double loss);
  void Post(v1::WorkerMessage message);
  // Sends what was gathered.
  void Flush();

 private:
  void FlushLocked();
  void SendLocked(v1::WorkerMessage message);

  int64_t generation_;
  const std::function<void(v1::WorkerMessage)> send_;
  std::mutex mutex_;
  v1::StageReports reports_;
  std::deque<v1::WorkerMessage> history_;
};

}  // namespace gimbal::worker
