#include "common/rpc/token.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/io/file.h"
#include "common/net/secret.h"

namespace gimbal::rpc {
namespace {

constexpr size_t kMinLength = 16;
constexpr size_t kMaxLength = 4096;
constexpr char kMetadataKey[] = "authorization";
constexpr std::string_view kScheme = "Bearer ";

absl::StatusOr<std::string> ReadToken(const std::string& path) {
  GIMBAL_ASSIGN_OR_RETURN(const std::string text, io::ReadFile(path));
  std::string token(absl::StripAsciiWhitespace(text));
  const bool seen = std::all_of(token.begin(), token.end(), [](char c) {
    return absl::ascii_isgraph(static_cast<unsigned char>(c));
  });
  if (token.size() < kMinLength || token.size() > kMaxLength || !seen) {
    return absl::FailedPreconditionError(absl::StrCat(
        path, ": no token: expected one line of ", kMinLength, " to ",
        kMaxLength, " letters, digits and signs; `openssl rand -hex 32 > ",
        path, "` makes one"));
  }
  return token;
}

class Sender final : public grpc::experimental::Interceptor {
 public:
  explicit Sender(std::shared_ptr<Token> token) : token_(std::move(token)) {}

  void Intercept(
      grpc::experimental::InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(
            grpc::experimental::InterceptionHookPoints::
                PRE_SEND_INITIAL_METADATA)) {
      methods->GetSendInitialMetadata()->emplace(
          kMetadataKey,
          absl::StrCat(absl::string_view(kScheme.data(), kScheme.size()),
                       token_->Get()));
    }
    methods->Proceed();
  }

 private:
  const std::shared_ptr<Token> token_;
};

class SenderFactory final
    : public grpc::experimental::ClientInterceptorFactoryInterface {
 public:
  explicit SenderFactory(std::shared_ptr<Token> token)
      : token_(std::move(token)) {}

  grpc::experimental::Interceptor* CreateClientInterceptor(
      grpc::experimental::ClientRpcInfo*) override {
    return new Sender(token_);
  }

 private:
  const std::shared_ptr<Token> token_;
};

std::string_view View(const grpc_slice& slice) {
  return {reinterpret_cast<const char*>(GRPC_SLICE_START_PTR(slice)),
          GRPC_SLICE_LENGTH(slice)};
}

bool Carries(const grpc_metadata* metadata, size_t count,
             const std::string& token) {
  bool found = false;
  for (size_t i = 0; i < count; ++i) {
    const std::string_view value = View(metadata[i].value);
    found |= View(metadata[i].key) == kMetadataKey &&
             value.starts_with(kScheme) &&
             net::SameSecret(value.substr(kScheme.size()), token);
  }
  return found;
}

using SharedToken = std::shared_ptr<Token>;

void Check(void* state, grpc_auth_context*, const grpc_metadata* metadata,
           size_t count, grpc_process_auth_metadata_done_cb done,
           void* user_data) {
  const bool known =
      Carries(metadata, count, (*static_cast<SharedToken*>(state))->Get());
  done(user_data, nullptr, 0, nullptr, 0,
       known ? GRPC_STATUS_OK : GRPC_STATUS_UNAUTHENTICATED,
       known ? nullptr
             : "no token, or another one than this server's; give the caller "
               "the server's token file (cluster.token_file, --token-file or "
               "GIMBAL_TOKEN_FILE)");
}

}  // namespace

Token::Token(std::string path, std::string value)
    : path_(std::move(path)), value_(std::move(value)) {}

absl::StatusOr<std::shared_ptr<Token>> Token::Read(const std::string& path) {
  GIMBAL_ASSIGN_OR_RETURN(std::string value, ReadToken(path));
  return std::shared_ptr<Token>(new Token(path, std::move(value)));
}

std::string Token::Get() {
  absl::StatusOr<std::string> now = ReadToken(path_);
  std::lock_guard lock(mutex_);
  if (now.ok()) value_ = *std::move(now);
  return value_;
}

std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>
SendToken(std::shared_ptr<Token> token) {
  return std::make_unique<SenderFactory>(std::move(token));
}

void RequireToken(grpc_server_credentials* credentials,
                  std::shared_ptr<Token> token) {
  const grpc_auth_metadata_processor processor = {
      .process = Check,
      .destroy = [](void* state) { delete static_cast<SharedToken*>(state); },
      .state = new SharedToken(std::move(token))};
  grpc_server_credentials_set_auth_metadata_processor(credentials, processor);
}

}  // namespace gimbal::rpc
