#include "common/rpc/credentials.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpcpp/channel.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <cstdlib>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/net/address.h"
#include "common/rpc/certificate_files.h"
#include "common/rpc/token.h"

namespace gimbal::rpc {
namespace {

using grpc::experimental::FileWatcherCertificateProvider;

// How soon a changed certificate counts.
constexpr unsigned kRereadSeconds = 2;

void Fallback(std::string& path, const char* variable) {
  if (!path.empty()) return;
  if (const char* value = std::getenv(variable)) path = value;
}

// Credentials of gRPC's core library, whose C++ wrapper has none that ask for
// metadata without TLS.
class CoreCredentials final : public grpc::ServerCredentials {
 public:
  explicit CoreCredentials(grpc_server_credentials* core) : core_(core) {}
  ~CoreCredentials() override { grpc_server_credentials_release(core_); }

  // Ours check tokens themselves.
  void SetAuthMetadataProcessor(
      const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {}

 private:
  int AddPortToServer(const std::string& address,
                      grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), core_);
  }

  grpc_server_credentials* const core_;
};

}  // namespace

struct Credentials::Impl {
  std::shared_ptr<FileWatcherCertificateProvider> certificates;  // or null
  std::shared_ptr<Token> token;                                  // or null

  void Use(grpc::experimental::TlsCredentialsOptions& options) const {
    options.set_certificate_provider(certificates);
    options.watch_root_certs();
    options.watch_identity_key_cert_pairs();
  }
};

SecurityFiles FilesOf(const v1::ClusterSection& cluster) {
  return {.ca = cluster.tls().ca(),
          .cert = cluster.tls().cert(),
          .key = cluster.tls().key(),
          .token = cluster.token_file()};
}

SecurityFiles FromEnvironment(SecurityFiles files) {
  Fallback(files.ca, "GIMBAL_TLS_CA");
  Fallback(files.cert, "GIMBAL_TLS_CERT");
  Fallback(files.key, "GIMBAL_TLS_KEY");
  Fallback(files.token, "GIMBAL_TOKEN_FILE");
  return files;
}

absl::StatusOr<Credentials> Credentials::Load(const SecurityFiles& files) {
  auto impl = std::make_shared<Impl>();
  if (!files.ca.empty() || !files.cert.empty() || !files.key.empty()) {
    if (files.ca.empty() || files.cert.empty() || files.key.empty()) {
      return absl::FailedPreconditionError(absl::StrCat(
          "TLS needs three files, found ca '", files.ca, "', cert '",
          files.cert, "', key '", files.key,
          "'; give all of them (cluster.tls, --tls-ca, --tls-cert and "
          "--tls-key, or GIMBAL_TLS_CA, GIMBAL_TLS_CERT and GIMBAL_TLS_KEY)"));
    }
    GIMBAL_RETURN_IF_ERROR(
        CheckCertificateFiles(files.ca, files.cert, files.key));
    impl->certificates = std::make_shared<FileWatcherCertificateProvider>(
        files.key, files.cert, files.ca, kRereadSeconds);
  }
  if (!files.token.empty()) {
    GIMBAL_ASSIGN_OR_RETURN(impl->token, Token::Read(files.token));
  }
  Credentials credentials;
  if (impl->certificates != nullptr || impl->token != nullptr) {
    credentials.impl_ = std::move(impl);
  }
  return credentials;
}

absl::Status Credentials::CheckListen(const std::string& what,
                                      const std::string& address) const {
  if (any() || net::IsLoopback(net::HostOf(address))) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      what, ": other hosts could connect to ", address,
      " and nothing would tell who they are; set cluster.tls (or --tls-ca, "
      "--tls-cert, --tls-key) or cluster.token_file (or --token-file), see "
      "deploy/SECURITY.md, or use a loopback address such as 127.0.0.1:0"));
}

std::shared_ptr<grpc::Channel> Credentials::MakeChannel(
    const std::string& address, const grpc::ChannelArguments& arguments) const {
  std::shared_ptr<grpc::ChannelCredentials> credentials =
      grpc::InsecureChannelCredentials();
  if (any() && impl_->certificates != nullptr) {
    grpc::experimental::TlsChannelCredentialsOptions options;
    impl_->Use(options);
    credentials = grpc::experimental::TlsCredentials(options);
  }
  std::vector<
      std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>>
      interceptors;
  if (any() && impl_->token != nullptr) {
    interceptors.push_back(SendToken(impl_->token));
  }
  return grpc::experimental::CreateCustomChannelWithInterceptors(
      address, credentials, arguments, std::move(interceptors));
}

std::shared_ptr<grpc::ServerCredentials> Credentials::ForServer() const {
  grpc_server_credentials* core = nullptr;
  if (any() && impl_->certificates != nullptr) {
    grpc::experimental::TlsServerCredentialsOptions options(
        impl_->certificates);
    impl_->Use(options);
    options.set_cert_request_type(
        GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
    core = grpc_tls_server_credentials_create(options.c_credentials_options());
  } else {
    core = grpc_insecure_server_credentials_create();
  }
  if (any() && impl_->token != nullptr) RequireToken(core, impl_->token);
  return std::make_shared<CoreCredentials>(core);
}

}  // namespace gimbal::rpc
