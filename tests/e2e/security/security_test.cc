// Nothing that somebody without the right certificate or token does to the
// ports of a running job disturbs it: it ends with the numbers of an
// undisturbed run, and nobody was restarted.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "common/base/random.h"
#include "tests/e2e/security/attacks.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test_certificates.h"
#include "tests/support/train_fixture.h"

namespace gimbal {
namespace {

using absl::StatusCode;
using nlohmann::json;
using rpc::Credentials;
using std::chrono::seconds;
using test_support::Command;
using test_support::CommandResult;
using test_support::Difference;
using test_support::IsOk;
using test_support::ReadText;
using test_support::StatusIs;
using test_support::TestCertificates;
using ::testing::HasSubstr;

constexpr char kToken[] = "0123456789-the-token-of-the-job";
constexpr int kHeldPerPort = 30;
const std::vector<std::string> kLength = {"--set", "run.steps=1500"};

class SecurityTest : public test_support::TrainFixture {
 protected:
  SecurityTest() {
    // For the connections that are held.
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, 4096);
    setrlimit(RLIMIT_NOFILE, &limit);
  }

  Credentials WithToken(const std::string& token) {
    std::ofstream(folder_ / "other-token") << token;
    return *Credentials::Load(
        {.ca = "", .cert = "", .key = "", .token = folder_ / "other-token"});
  }

  std::string AddressOf(const std::string& run) {
    return json::parse(ReadText(folder_ / (run + "/coordinator.json")))
        .at("address");
  }

  std::string RunId(const std::string& run) {
    const CommandResult status = test_support::Run(
        {"gimbal", "status", "--json", "--run-dir", folder_ / run});
    return json::parse(status.output).at("run_id");
  }

  std::vector<std::string> PortsOfJob(const std::string& run) {
    std::vector<int> pids = WorkerPids(run);
    EXPECT_EQ(pids.size(), 4u);
    pids.push_back(CoordinatorPid(run));
    std::vector<std::string> ports = test_support::PortsOf(pids);
    EXPECT_EQ(ports.size(), 4u * 3 + 2);
    return ports;
  }

  void Verb(const std::string& run, const char* verb) {
    const CommandResult result =
        test_support::Run({"gimbal", verb, "--run-dir", folder_ / run});
    EXPECT_EQ(result.exit_code, 0) << result.output;
  }

  // Serial number of the certificate that a server shows.
  static std::string SerialShownBy(const std::string& address,
                                   const rpc::SecurityFiles& files) {
    return test_support::Run(
               {"/bin/sh", "-c",
                "openssl s_client -connect " + address + " -cert " +
                    files.cert + " -key " + files.key +
                    " </dev/null 2>/dev/null | openssl x509 -noout -serial"})
        .output;
  }

  // How many certificates the coordinator has refused.
  int64_t Refused(const std::string& run) const {
    return test_support::CountOf(
        "certificate verify failed",
        ReadText(folder_ / (run + "/logs/coordinator.log")));
  }

  // What a process without the right credentials prints.
  static void ExpectTurnedAway(const std::vector<std::string>& argv,
                               const std::string& what) {
    const CommandResult result = test_support::Run(argv);
    EXPECT_NE(result.exit_code, 0);
    EXPECT_THAT(result.output, HasSubstr(what));
  }

  // Trains with `settings` while `calls` are tried and every port is attacked.
  // The run waits until all of it was done once, so that none of it comes after
  // the end, and then trains on under attack.
  void TrainUnderAttack(const std::vector<std::string>& settings,
                        const std::function<void(const std::string&)>& calls) {
    std::vector<std::string> arguments = {"--workers", "4"};
    for (const auto& more : {kLength, settings}) {
      arguments.insert(arguments.end(), more.begin(), more.end());
    }
    Command command(TrainArguments("run", arguments));
    ASSERT_TRUE(WaitForRows(command, "run", 20))
        << command.Wait(seconds(0)).output << Logs("run");
    Verb("run", "pause");
    const std::vector<std::string> ports = PortsOfJob("run");
    const std::string address = AddressOf("run");
    const std::string id = RunId("run");  // no secret
    std::vector<test_support::HeldConnection> held;
    for (const std::string& port : ports) {
      for (auto& each : test_support::HoldConnections(port, kHeldPerPort)) {
        held.push_back(std::move(each));
      }
    }
    calls(address);
    Attack(ports, id, 0);
    Verb("run", "resume");
    std::atomic<bool> over = false;
    std::thread attacker([&] {
      for (unsigned round = 1; !over; ++round) {
        Attack(ports, id, round);
        test_support::Dribble(held);
      }
    });
    const CommandResult result = command.Wait(seconds(240));
    over = true;
    attacker.join();
    ASSERT_EQ(result.exit_code, 0) << result.output << Logs("run");
    MustTrain("alone", [&] {
      std::vector<std::string> alone = {"--workers", "1"};
      alone.insert(alone.end(), kLength.begin(), kLength.end());
      return alone;
    }());
    EXPECT_EQ(Difference(NumbersOf("run"), NumbersOf("alone")), "");
    EXPECT_EQ(Summary("run").at("recoveries").size(), 0u)
        << ReadText(folder_ / "run/events.jsonl");
    EXPECT_EQ(test_support::CountOf(kToken, Logs("run")), 0);
  }

  void Attack(const std::vector<std::string>& ports, const std::string& id,
              unsigned round) {
    for (const std::string& port : ports) {
      test_support::SendGarbage(port, round);
      test_support::SendForgedLink(
          port, {.run = base::StreamOf(id), .generation = 1, .edge = 1});
    }
  }
};

TEST_F(SecurityTest, AJobWithATokenIsNotDisturbed) {
  std::ofstream(folder_ / "token") << kToken << "\n";
  const std::string token = folder_ / "token";
  TrainUnderAttack(
      {"--set", "cluster.token_file=" + token},
      [&](const std::string& address) {
        EXPECT_THAT(test_support::TryToStop(address, {}),
                    StatusIs(StatusCode::kUnauthenticated));
        EXPECT_THAT(test_support::TryToStop(
                        address, WithToken("0123456789-the-token-of-the-jo8")),
                    StatusIs(StatusCode::kUnauthenticated));
        const auto good = *Credentials::Load(
            {.ca = "", .cert = "", .key = "", .token = token});
        // Who may call, and calls badly.
        const std::string command = "/gimbal.v1.AdminService/Command";
        EXPECT_THAT(test_support::CallWithBytes(address, good, command,
                                                std::string(5 << 20, 'x')),
                    StatusIs(StatusCode::kResourceExhausted));
        EXPECT_FALSE(test_support::CallWithBytes(address, good, command,
                                                 "\xff\xff\xff\xff\xff")
                         .ok());
        // Just ends.
        (void)test_support::CallWithBytes(address, good,
                                          "/gimbal.v1.ControlService/Session",
                                          std::string(1000, '\xff'));
        EXPECT_THAT(
            test_support::CallWithBytes(address, good, "/no/Method", ""),
            StatusIs(StatusCode::kUnimplemented));
        ExpectTurnedAway({"gimbal", "status", "--coordinator", address},
                         "GIMBAL_TOKEN_FILE");
        ExpectTurnedAway({"gimbal-worker", "--coordinator", address},
                         "--token-file");
      });
}

TEST_F(SecurityTest, AJobWithCertificatesIsNotDisturbed) {
  const TestCertificates certificates(folder_ / "certs");
  const TestCertificates others(folder_ / "others");
  const rpc::SecurityFiles own = certificates.Make("job");
  const rpc::SecurityFiles foreign = others.Make("job");
  const rpc::SecurityFiles expired = certificates.Make("late", -1);
  TrainUnderAttack(
      {"--set", "cluster.tls.ca=" + own.ca, "--set",
       "cluster.tls.cert=" + own.cert, "--set", "cluster.tls.key=" + own.key},
      [&](const std::string& address) {
        EXPECT_THAT(test_support::TryToStop(address, {}),
                    StatusIs(StatusCode::kUnavailable));
        EXPECT_THAT(
            test_support::TryToStop(address, WithToken("0123456789abcdef")),
            StatusIs(StatusCode::kUnavailable));
        EXPECT_THAT(
            test_support::TryToStop(address, *Credentials::Load(foreign)),
            StatusIs(StatusCode::kUnavailable));
        const auto deadline = std::chrono::steady_clock::now() + seconds(90);
        // By a client that does not look at its own certificate first.
        for (const rpc::SecurityFiles& files : {expired, foreign}) {
          const int64_t before = Refused("run");
          SerialShownBy(address, files);
          while (Refused("run") == before) {
            ASSERT_LT(std::chrono::steady_clock::now(), deadline);
          }
        }
        const int64_t refused = Refused("run");
        // A renewed certificate is shown to who connects from now on.
        const std::string before = SerialShownBy(address, own);
        certificates.Make("job");
        while (SerialShownBy(address, own) == before) {
          ASSERT_LT(std::chrono::steady_clock::now(), deadline);
        }
        EXPECT_EQ(Refused("run"), refused);
        ExpectTurnedAway(
            {"gimbal-worker", "--coordinator", address, "--tls-ca", expired.ca,
             "--tls-cert", expired.cert, "--tls-key", expired.key},
            "expired");
        ExpectTurnedAway(
            {"gimbal-worker", "--coordinator", address, "--patience", "1"},
            "no coordinator at");
      });
}

// The programs say what is missing before they open a port.
TEST_F(SecurityTest, NobodyListensToOtherHostsWithoutCredentials) {
  ExpectTurnedAway({"gimbal-worker", "--coordinator", "127.0.0.1:1", "--listen",
                    "0.0.0.0:0", "--advertise", "here"},
                   "--token-file");
  ExpectTurnedAway({"gimbal-worker", "--coordinator", "127.0.0.1:1",
                    "--snapshot-listen", "0.0.0.0:0"},
                   "--snapshot-listen: other hosts");
  const CommandResult train = test_support::Run(
      TrainArguments("open", {"--set", "cluster.listen=0.0.0.0:0"}));
  EXPECT_EQ(train.exit_code, 2);
  EXPECT_THAT(train.output, HasSubstr("cluster.token_file"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "open"));
  std::ofstream(folder_ / "token") << "0123456789abcdef";
  ExpectTurnedAway({"gimbal-worker", "--coordinator", "127.0.0.1:1", "--listen",
                    "0.0.0.0:0", "--token-file", folder_ / "token"},
                   "--advertise HOST");
}

}  // namespace
}  // namespace gimbal
