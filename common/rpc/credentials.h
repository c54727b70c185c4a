// What both ends of a gRPC connection show each other: certificates of one
// authority (mutual TLS), a token, both or nothing.
//
//   GIMBAL_ASSIGN_OR_RETURN(const rpc::Credentials credentials,
//       rpc::Credentials::Load(rpc::FromEnvironment(files)));
//   rpc::MakeChannel("trainer-1:7000", credentials);
//   rpc::Server::Start({.credentials = credentials, ...});
//
// Certificates are read again when their files change and count for new
// connections; those that stand are not disturbed. A changed token counts from
// the next call on. Copies share what was loaded. Thread-safe.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gimbal/v1/run_config.pb.h"

namespace grpc {
class Channel;
class ChannelArguments;
class ServerCredentials;
}  // namespace grpc

namespace gimbal::rpc {

// Paths; "" for what is not used. The first three belong together.
struct SecurityFiles {
  std::string ca;    // certificates of the authority, PEM
  std::string cert;  // this host's, PEM
  std::string key;   // its private key, PEM
  std::string token;
};

SecurityFiles FilesOf(const v1::ClusterSection& cluster);
// With GIMBAL_TLS_CA, GIMBAL_TLS_CERT, GIMBAL_TLS_KEY and GIMBAL_TOKEN_FILE for
// what is not given.
SecurityFiles FromEnvironment(SecurityFiles files);

class Credentials {
 public:
  // Nothing: whoever reaches the port is believed.
  Credentials() = default;

  // FAILED_PRECONDITION, with the file and what to do, for one that cannot be
  // read, is not what it should be or does not fit the others.
  static absl::StatusOr<Credentials> Load(const SecurityFiles& files);

  bool any() const { return impl_ != nullptr; }

  // FAILED_PRECONDITION when others than this machine could connect to the
  // address and nothing would tell friend from foe. `what` names the setting.
  absl::Status CheckListen(const std::string& what,
                           const std::string& address) const;

  // For channel.cc and server.cc.
  std::shared_ptr<grpc::Channel> MakeChannel(
      const std::string& address,
      const grpc::ChannelArguments& arguments) const;
  std::shared_ptr<grpc::ServerCredentials> ForServer() const;

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

}  // namespace gimbal::rpc
