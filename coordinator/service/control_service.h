// ControlService over gRPC: decodes, posts to the loop, encodes. Decisions are
// those of RunController.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "common/base/clock.h"
#include "common/rpc/call_observer.h"
#include "coordinator/run/run_controller.h"
#include "coordinator/service/event_loop.h"
#include "coordinator/service/session_hub.h"

namespace grpc {
class Service;
}

namespace gimbal::coordinator {

// What the services work on. `run` is null, and calls are UNAVAILABLE, until
// the coordinator has taken up its run; touched on the loop only.
struct Core {
  RunController* run = nullptr;
  SessionHub sessions;
  // Null until `run` is there. Session stands for one message of a worker.
  rpc::CallObserver answered;
  void Answered(const char* method, const absl::Status& status,
                base::Seconds taken) const {
    if (answered) answered(method, status, taken);
  }
  // By which others reach this machine; empty: as they see it.
  std::string advertise;
};

// Both must outlive the server that the service is registered with.
std::shared_ptr<grpc::Service> MakeControlService(EventLoop& loop, Core& core);

}  // namespace gimbal::coordinator
