// CheckpointService over gRPC: the files of checkpoints, for workers that do
// not reach their folder. Which worker counts is asked of the loop, at the
// beginning of a file and again before it counts; files are written by gRPC's
// threads.
#pragma once

#include <memory>

#include "coordinator/service/control_service.h"
#include "coordinator/service/event_loop.h"

namespace gimbal::coordinator {

// Both must outlive the server that the service is registered with.
std::shared_ptr<grpc::Service> MakeCheckpointService(EventLoop& loop,
                                                     Core& core);

}  // namespace gimbal::coordinator
