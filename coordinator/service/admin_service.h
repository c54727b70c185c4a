// AdminService over gRPC. GetStatus reads the board and never waits for the
// loop; a command is posted to it.
#pragma once

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "coordinator/service/control_service.h"
#include "coordinator/service/event_loop.h"
#include "coordinator/service/status_board.h"
#include "gimbal/v1/admin_service.pb.h"

namespace grpc {
class Service;
}

namespace gimbal::coordinator {

// `command` runs on the loop; so does core.answered. All must outlive the
// server that the service is registered with.
std::shared_ptr<grpc::Service> MakeAdminService(
    EventLoop& loop, const Core& core, StatusBoard& board,
    std::function<
        absl::StatusOr<v1::CommandResponse>(const v1::CommandRequest&)>
        command);

}  // namespace gimbal::coordinator
