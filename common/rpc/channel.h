// The client's end: one way to make a channel and to bound a call.
//
//   auto stub = v1::AdminService::NewStub(rpc::MakeChannel(
//       "127.0.0.1:41234", credentials));
//   grpc::ClientContext context;
//   rpc::SetTimeout(context, 2s);      // every unary call has one
//   absl::Status status = rpc::FromGrpc(stub->GetStatus(&context, ...));
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "common/rpc/credentials.h"

namespace grpc {
class Channel;
class ClientContext;
}  // namespace grpc

namespace gimbal::rpc {

// Set on both sides together: a client must not ping more often than the
// server allows.
inline constexpr int kKeepaliveMs = 10000;
// Largest message that either side takes; what is larger comes in chunks.
inline constexpr int kMaxMessageBytes = 4 << 20;

// Connects lazily and again after every loss, within a second; resolves the
// name anew every half minute at most. Never through an HTTP proxy.
std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address,
                                           const Credentials& credentials);

void SetTimeout(grpc::ClientContext& context,
                std::chrono::milliseconds timeout);

}  // namespace gimbal::rpc
