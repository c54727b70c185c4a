// Who may call whom, with and without certificates and tokens.
#include "common/rpc/credentials.h"

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <thread>

#include "common/net/socket.h"
#include "common/rpc/channel.h"
#include "common/rpc/server.h"
#include "common/rpc/status_conversion.h"
#include "gimbal/v1/admin_service.grpc.pb.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_certificates.h"

namespace gimbal::rpc {
namespace {

using absl::StatusCode;
using std::chrono::milliseconds;
using std::chrono::seconds;
using test_support::IsOk;
using test_support::StatusIs;
using test_support::TestCertificates;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kToken[] = "0123456789abcdef";

class Echo final : public v1::AdminService::Service {
  grpc::Status GetStatus(grpc::ServerContext*, const v1::GetStatusRequest*,
                         v1::GetStatusResponse* response) override {
    response->set_name("served");
    return grpc::Status::OK;
  }
};

base::SteadyTime In(seconds s) { return base::Clock::Real().Now() + s; }

class CredentialsTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return folder_ / name;
  }

  SecurityFiles TokenFile(const std::string& name, const std::string& text) {
    return {.ca = "", .cert = "", .key = "", .token = Write(name, text)};
  }

  void Serve(const SecurityFiles& files,
             const std::string& address = "127.0.0.1:0") {
    ASSERT_OK_AND_ASSIGN(const Credentials credentials,
                         Credentials::Load(files));
    ASSERT_OK_AND_ASSIGN(server_, Server::Start({.address = address,
                                                 .services = {&echo_},
                                                 .credentials = credentials}));
  }

  // One call over a connection of its own.
  absl::Status Call(const SecurityFiles& files) {
    const auto credentials = Credentials::Load(files);
    if (!credentials.ok()) return credentials.status();
    return CallWith(*credentials);
  }

  absl::Status CallWith(const Credentials& credentials) {
    const auto stub =
        v1::AdminService::NewStub(MakeChannel(server_->address(), credentials));
    return CallOn(*stub);
  }

  static absl::Status CallOn(v1::AdminService::Stub& stub) {
    grpc::ClientContext context;
    SetTimeout(context, seconds(20));
    v1::GetStatusResponse response;
    return FromGrpc(stub.GetStatus(&context, {}, &response));
  }

  const test_support::TempDir folder_;
  Echo echo_;
  std::optional<Server> server_;
};

TEST_F(CredentialsTest, TheTokenOpensTheServer) {
  Serve(TokenFile("token", std::string(kToken) + "\n"));
  EXPECT_THAT(Call(TokenFile("same", kToken)), IsOk());
  for (const SecurityFiles& files :
       {SecurityFiles{}, TokenFile("other", "0123456789abcdeF"),
        TokenFile("longer", std::string(kToken) + "0")}) {
    EXPECT_THAT(Call(files), StatusIs(StatusCode::kUnauthenticated,
                                      HasSubstr("--token-file")));
  }
}

// Every service of a server is behind its credentials.
TEST_F(CredentialsTest, HealthAndReflectionAreNotForEverybody) {
  Serve(TokenFile("token", kToken));
  for (const char* method : {"/grpc.health.v1.Health/Check",
                             "/grpc.reflection.v1alpha.ServerReflection/"
                             "ServerReflectionInfo",
                             "/gimbal.v1.AdminService/Command"}) {
    grpc::GenericStub stub(MakeChannel(server_->address(), {}));
    grpc::ClientContext context;
    SetTimeout(context, seconds(20));
    grpc::ByteBuffer request, response;
    grpc::CompletionQueue queue;
    const auto call = stub.PrepareUnaryCall(&context, method, request, &queue);
    call->StartCall();
    grpc::Status status;
    call->Finish(&response, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAUTHENTICATED) << method;
  }
}

TEST_F(CredentialsTest, AChangedTokenCountsFromTheNextCallOn) {
  const SecurityFiles server = TokenFile("server", kToken);
  const SecurityFiles client = TokenFile("client", kToken);
  Serve(server);
  ASSERT_OK_AND_ASSIGN(const Credentials credentials,
                       Credentials::Load(client));
  const auto stub =
      v1::AdminService::NewStub(MakeChannel(server_->address(), credentials));
  EXPECT_THAT(CallOn(*stub), IsOk());
  Write("server", "fedcba9876543210");
  EXPECT_THAT(CallOn(*stub), StatusIs(StatusCode::kUnauthenticated));
  Write("client", "fedcba9876543210");
  EXPECT_THAT(CallOn(*stub), IsOk());
  Write("client", "");  // being written: the old one counts
  EXPECT_THAT(CallOn(*stub), IsOk());
}

TEST_F(CredentialsTest, NamesTheFileThatIsNoToken) {
  for (const char* text : {"", "short", "0123456789 abcdef",
                           "\x7f"
                           "0123456789abcdef"}) {
    EXPECT_THAT(
        Credentials::Load(TokenFile("bad", text)).status(),
        StatusIs(StatusCode::kFailedPrecondition,
                 AllOf(HasSubstr(folder_ / "bad"), HasSubstr("openssl rand"))))
        << text;
  }
  EXPECT_FALSE(Credentials::Load(
                   {.ca = "", .cert = "", .key = "", .token = folder_ / "none"})
                   .ok());
}

TEST_F(CredentialsTest, CertificatesOfOneAuthorityOpenTheServer) {
  const TestCertificates certificates(folder_ / "certs");
  Serve(certificates.Make("server"));
  EXPECT_THAT(Call(certificates.Make("client")), IsOk());
  // In the clear, and with the certificate of another authority.
  EXPECT_THAT(Call({}), StatusIs(StatusCode::kUnavailable));
  const TestCertificates others(folder_ / "others");
  EXPECT_THAT(Call(others.Make("client")), StatusIs(StatusCode::kUnavailable));
  // Who trusts the server and has nothing to show that the server trusts.
  SecurityFiles mixed = others.Make("client");
  mixed.ca = folder_ / "both.pem";
  std::ofstream both(folder_ / "both.pem");
  both << std::ifstream(folder_ / "certs/ca.pem").rdbuf()
       << std::ifstream(folder_ / "others/ca.pem").rdbuf();
  both.close();
  EXPECT_THAT(Call(mixed), StatusIs(StatusCode::kUnavailable));
}

// The name that was dialled must be in the certificate.
TEST_F(CredentialsTest, ACertificateIsForItsHostAlone) {
  const TestCertificates certificates(folder_ / "certs");
  const SecurityFiles files = certificates.Make("server");
  Serve(files, "127.0.0.2:0");
  EXPECT_THAT(Call(files), StatusIs(StatusCode::kUnavailable));
}

TEST_F(CredentialsTest, WithBothBothAreNeeded) {
  const TestCertificates certificates(folder_ / "certs");
  SecurityFiles files = certificates.Make("server");
  const SecurityFiles without = files;
  files.token = TokenFile("token", kToken).token;
  Serve(files);
  EXPECT_THAT(Call(files), IsOk());
  EXPECT_THAT(Call(without), StatusIs(StatusCode::kUnauthenticated));
}

// New connections see the renewed certificate, those that stand go on.
TEST_F(CredentialsTest, RenewedCertificatesCountWithoutARestart) {
  const TestCertificates before(folder_ / "certs");
  const SecurityFiles files = before.Make("server");
  Serve(files);
  ASSERT_OK_AND_ASSIGN(const Credentials old, Credentials::Load(files));
  const auto standing =
      v1::AdminService::NewStub(MakeChannel(server_->address(), old));
  EXPECT_THAT(CallOn(*standing), IsOk());
  // Another authority takes over: whoever trusts only that one sees by itself
  // when the server shows the new certificate.
  const TestCertificates after(folder_ / "new");
  const SecurityFiles renewed = after.Make("server");
  EXPECT_THAT(Call(renewed), StatusIs(StatusCode::kUnavailable));
  for (const char* name : {"server.key", "server.pem", "ca.pem"}) {
    std::filesystem::rename(folder_ / ("new/" + std::string(name)),
                            folder_ / ("certs/" + std::string(name)));
  }
  ASSERT_OK_AND_ASSIGN(const Credentials fresh, Credentials::Load(files));
  const auto deadline = In(seconds(60));
  absl::Status status;
  do {
    status = CallWith(fresh);
    EXPECT_THAT(CallOn(*standing), IsOk());
  } while (!status.ok() && base::Clock::Real().Now() < deadline);
  EXPECT_THAT(status, IsOk());
}

TEST_F(CredentialsTest, NamesWhatIsWrongWithACertificate) {
  const TestCertificates certificates(folder_ / "certs");
  const TestCertificates others(folder_ / "others");
  const SecurityFiles good = certificates.Make("a");
  const SecurityFiles other = others.Make("b");
  const auto expect = [](const SecurityFiles& files, const std::string& file,
                         const std::string& what) {
    EXPECT_THAT(Credentials::Load(files).status(),
                StatusIs(StatusCode::kFailedPrecondition,
                         AllOf(HasSubstr(file), HasSubstr(what))));
  };
  SecurityFiles files = good;
  files.ca = other.ca;
  expect(files, good.cert, "would refuse it");
  files = good;
  files.key = other.key;
  expect(files, other.key, "not the key of the certificate");
  files = good;
  files.cert = good.key;
  expect(files, good.key, "no certificate in it");
  files = good;
  files.key = good.cert;
  expect(files, good.cert, "no private key in it");
  files = good;
  files.key = "";
  expect(files, good.cert, "TLS needs three files");
  files = good;
  files.ca = folder_ / "nowhere.pem";
  expect(files, files.ca, "No such file");
  const SecurityFiles expired = certificates.Make("late", -1);
  expect(expired, expired.cert, "expired");
}

TEST_F(CredentialsTest, OtherHostsNeedCredentials) {
  for (const char* address : {"0.0.0.0:0", "[::]:0", "127.example.com:0",
                              "127.0.0:0", "10.1.2.3:0"}) {
    EXPECT_THAT(
        Server::Start({.address = address}),
        StatusIs(StatusCode::kFailedPrecondition,
                 AllOf(HasSubstr(address), HasSubstr("cluster.token_file"))));
  }
  for (const char* address : {"localhost:0", "[::1]:0", "127.9.9.9:0"}) {
    EXPECT_THAT(Credentials().CheckListen("x", address), IsOk());
  }
  Serve(TokenFile("token", kToken), "0.0.0.0:0");
}

TEST(SecurityFiles, TheEnvironmentFillsInWhatIsNotGiven) {
  setenv("GIMBAL_TLS_CA", "env-ca", 1);
  setenv("GIMBAL_TOKEN_FILE", "env-token", 1);
  const SecurityFiles files =
      FromEnvironment({.ca = "", .cert = "c", .key = "", .token = "t"});
  unsetenv("GIMBAL_TLS_CA");
  unsetenv("GIMBAL_TOKEN_FILE");
  EXPECT_EQ(files.ca, "env-ca");
  EXPECT_EQ(files.cert, "c");
  EXPECT_EQ(files.token, "t");
}

// Whoever connects and says nothing, or says it slowly, is sent away, and there
// are never so many of them that the process lacks descriptors.
TEST_F(CredentialsTest, ConnectionsThatSayNothingAreBounded) {
  Serve(TokenFile("token", kToken));
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  rlimit few = before;
  few.rlim_cur = 256;
  setrlimit(RLIMIT_NOFILE, &few);
  std::vector<net::Socket> silent;
  const char preface[] = "PRI * HTTP/2.0\r\n";
  for (int i = 0; i < 150; ++i) {
    auto socket = net::ConnectTo(server_->address(), In(seconds(20)));
    ASSERT_THAT(socket, IsOk());
    // Those that were refused are reset.
    (void)!socket->WriteAll(preface, static_cast<size_t>(i % 16), nullptr, 0)
        .ok();
    silent.push_back(*std::move(socket));
  }
  // Both ends are here: were all of them taken, there would be no descriptor
  // left for anything else until they are dropped.
  const auto deadline = In(seconds(60));
  for (const net::Socket& socket : silent) {
    absl::Status status;
    do {
      EXPECT_TRUE(std::ifstream("/dev/null").good());
      char byte;
      status = socket.ReadAll(&byte, 1,
                              base::Clock::Real().Now() + milliseconds(20));
    } while (!absl::IsUnavailable(status) &&
             base::Clock::Real().Now() < deadline);
    EXPECT_THAT(status, StatusIs(StatusCode::kUnavailable));
  }
  silent.clear();
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_THAT(Call(TokenFile("same", kToken)), IsOk());
}

}  // namespace
}  // namespace gimbal::rpc
