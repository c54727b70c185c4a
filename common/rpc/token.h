// The shared secret that callers carry in the metadata of every call.
#pragma once

#include <grpc/grpc_security.h>
#include <grpcpp/support/client_interceptor.h>

#include <memory>
#include <mutex>
#include <string>

#include "absl/status/statusor.h"

namespace gimbal::rpc {

// Thread-safe.
class Token {
 public:
  // FAILED_PRECONDITION when the file does not hold a token: 16 to 4096
  // characters that can be seen, in one line.
  static absl::StatusOr<std::shared_ptr<Token>> Read(const std::string& path);

  // What the file holds now, or held when it was last good.
  std::string Get();

 private:
  Token(std::string path, std::string value);

  const std::string path_;
  std::mutex mutex_;
  std::string value_;
};

// Adds the token to every call of a channel.
std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>
SendToken(std::shared_ptr<Token> token);

// Has a server's calls end with UNAUTHENTICATED unless they carry the token.
void RequireToken(grpc_server_credentials* credentials,
                  std::shared_ptr<Token> token);

}  // namespace gimbal::rpc
