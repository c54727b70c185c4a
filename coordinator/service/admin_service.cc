#include "coordinator/service/admin_service.h"

#include <grpcpp/grpcpp.h>

#include <utility>

#include "common/rpc/status_conversion.h"
#include "gimbal/v1/admin_service.grpc.pb.h"

namespace gimbal::coordinator {
namespace {

using CommandFunction = std::function<absl::StatusOr<v1::CommandResponse>(
    const v1::CommandRequest&)>;

class AdminService final : public v1::AdminService::CallbackService {
 public:
  AdminService(EventLoop& loop, StatusBoard& board, CommandFunction command)
      : loop_(loop), board_(board), command_(std::move(command)) {}

  grpc::ServerUnaryReactor* GetStatus(
      grpc::CallbackServerContext* context, const v1::GetStatusRequest* request,
      v1::GetStatusResponse* response) override {
    *response =
        request->watching() ? board_.GetAndNote(context->peer()) : board_.Get();
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

  grpc::ServerUnaryReactor* Command(grpc::CallbackServerContext* context,
                                    const v1::CommandRequest* request,
                                    v1::CommandResponse* response) override {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    loop_.Post([this, reactor, request, response] {
      const absl::StatusOr<v1::CommandResponse> result = command_(*request);
      if (result.ok()) *response = *result;
      reactor->Finish(rpc::ToGrpc(result.status()));
    });
    return reactor;
  }

 private:
  EventLoop& loop_;
  StatusBoard& board_;
  const CommandFunction command_;
};

}  // namespace

std::shared_ptr<grpc::Service> MakeAdminService(EventLoop& loop,
                                                StatusBoard& board,
                                                CommandFunction command) {
  return std::make_shared<AdminService>(loop, board, std::move(command));
}

}  // namespace gimbal::coordinator
