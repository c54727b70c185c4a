#include "coordinator/service/admin_service.h"

#include <grpcpp/grpcpp.h>

#include <utility>

#include "common/base/clock.h"
#include "common/rpc/status_conversion.h"
#include "gimbal/v1/admin_service.grpc.pb.h"

namespace gimbal::coordinator {
namespace {

using CommandFunction = std::function<absl::StatusOr<v1::CommandResponse>(
    const v1::CommandRequest&)>;

base::SteadyTime Now() { return base::Clock::Real().Now(); }

class AdminService final : public v1::AdminService::CallbackService {
 public:
  AdminService(EventLoop& loop, const Core& core, StatusBoard& board,
               CommandFunction command)
      : loop_(loop), core_(core), board_(board), command_(std::move(command)) {}

  grpc::ServerUnaryReactor* GetStatus(
      grpc::CallbackServerContext* context, const v1::GetStatusRequest* request,
      v1::GetStatusResponse* response) override {
    const base::SteadyTime arrived = Now();
    *response =
        request->watching() ? board_.GetAndNote(context->peer()) : board_.Get();
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    // Before the call ends: until then all that is counted with is there.
    loop_.Post([core = &core_, taken = Now() - arrived] {
      core->Answered("GetStatus", absl::OkStatus(), taken);
    });
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

  grpc::ServerUnaryReactor* Command(grpc::CallbackServerContext* context,
                                    const v1::CommandRequest* request,
                                    v1::CommandResponse* response) override {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    loop_.Post([this, reactor, request, response, arrived = Now()] {
      const absl::StatusOr<v1::CommandResponse> result = command_(*request);
      if (result.ok()) *response = *result;
      core_.Answered("Command", result.status(), Now() - arrived);
      reactor->Finish(rpc::ToGrpc(result.status()));
    });
    return reactor;
  }

 private:
  EventLoop& loop_;
  const Core& core_;
  StatusBoard& board_;
  const CommandFunction command_;
};

}  // namespace

std::shared_ptr<grpc::Service> MakeAdminService(EventLoop& loop,
                                                const Core& core,
                                                StatusBoard& board,
                                                CommandFunction command) {
  return std::make_shared<AdminService>(loop, core, board, std::move(command));
}

}  // namespace gimbal::coordinator
