// gimbal-coordinator: one per run.
#include <pthread.h>
#include <signal.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/log_format.h"
#include "common/base/stop_signals.h"
#include "common/config/run_config_io.h"
#include "common/rpc/credentials.h"
#include "coordinator/coordinator.h"
#include "coordinator/planner/placement.h"

namespace gimbal::coordinator {
namespace {

constexpr int kInternalError = 1;
constexpr int kBadUsage = 2;

struct Flags {
  std::string config;
  std::string run_dir;
  std::string listen;
  std::string metrics_listen;
  std::string advertise;
  rpc::SecurityFiles security;
  std::string log_level = "info";
  std::string log_format = "text";
  int workers = 0;
  bool resume = false;
  bool check_config = false;
};

int Report(const absl::Status& status) {
  base::LogError(std::string(status.message()));
  return absl::IsInternal(status) ? kInternalError : kBadUsage;
}

void AddFlags(CLI::App& app, Flags& flags) {
  app.set_version_flag("--version", "gimbal-coordinator " GIMBAL_VERSION);
  app.add_option("--config", flags.config, "config of the run (YAML)")
      ->required();
  app.add_option("--run-dir", flags.run_dir, "folder of the run")->required();
  app.add_option("--workers", flags.workers,
                 "workers that share the stages; 0: one per stage")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_flag("--resume", flags.resume,
               "go on from the newest good checkpoint of the folder");
  app.add_option("--listen", flags.listen,
                 "gRPC address, instead of cluster.listen");
  app.add_option("--metrics-listen", flags.metrics_listen,
                 "address of the HTTP port, instead of cluster.metrics_listen");
  app.add_option(
      "--advertise", flags.advertise,
      "host that coordinator.json and prometheus-targets.json tell, instead of "
      "that of --listen");
  app.add_option("--tls-ca", flags.security.ca,
                 "authority's certificates, instead of cluster.tls.ca "
                 "[GIMBAL_TLS_CA]");
  app.add_option("--tls-cert", flags.security.cert,
                 "this host's certificate, instead of cluster.tls.cert "
                 "[GIMBAL_TLS_CERT]");
  app.add_option("--tls-key", flags.security.key,
                 "its private key, instead of cluster.tls.key "
                 "[GIMBAL_TLS_KEY]");
  app.add_option("--token-file", flags.security.token,
                 "file of the secret, instead of cluster.token_file "
                 "[GIMBAL_TOKEN_FILE]");
  app.add_flag("--check-config", flags.check_config,
               "validate the config and the plan, then exit");
  app.add_option("--log-level", flags.log_level,
                 "debug, info, warning or error")
      ->check(CLI::IsMember({"debug", "info", "warning", "error"}))
      ->capture_default_str();
  app.add_option("--log-format", flags.log_format,
                 "text, or json: one object per line")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
}

std::vector<std::string> Overrides(const Flags& flags) {
  std::vector<std::string> overrides;
  const auto add = [&](const std::string& key, const std::string& value) {
    if (!value.empty()) overrides.push_back(absl::StrCat(key, "=", value));
  };
  add("cluster.listen", flags.listen);
  add("cluster.metrics_listen", flags.metrics_listen);
  add("cluster.tls.ca", flags.security.ca);
  add("cluster.tls.cert", flags.security.cert);
  add("cluster.tls.key", flags.security.key);
  add("cluster.token_file", flags.security.token);
  return overrides;
}

// The first request stops the run at a checkpoint, the second one ends at once.
void StopOnSignals(const sigset_t& signals, Coordinator& coordinator) {
  const auto now = [] { return base::Clock::Real().Now(); };
  int signal = 0;
  sigwait(&signals, &signal);
  const base::SteadyTime asked = now();
  coordinator.RequestStop(absl::StrCat("signal ", sigabbrev_np(signal)));
  do {
    sigwait(&signals, &signal);
  } while (now() - asked < base::kSameRequest);
  base::LogError("a second signal: ends without waiting for the checkpoint");
  std::_Exit(kInternalError);
}

int Run(const Flags& flags) {
  auto config = config::LoadRunConfig(flags.config, Overrides(flags));
  if (!config.ok()) return Report(config.status());
  if (flags.check_config) {
    const auto plan = PlanStages(*config);
    return plan.ok() ? 0 : Report(plan.status());
  }
  // Before the first thread, so that all of them inherit the mask.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  const auto& stop_signals = config->cluster().stop_signals();
  for (const std::string_view name : base::kStopSignals) {
    const int number = *base::StopSignal(name);
    if (std::ranges::find(stop_signals, name) == stop_signals.end()) {
      signal(number, SIG_IGN);
    } else {
      sigaddset(&signals, number);
    }
  }
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  auto coordinator = Coordinator::Start({.config = *config,
                                         .run_dir = flags.run_dir,
                                         .resume = flags.resume,
                                         .workers = flags.workers,
                                         .advertise = flags.advertise});
  if (!coordinator.ok()) return Report(coordinator.status());
  // Ends with the process.
  std::thread([&signals, &coordinator] {
    StopOnSignals(signals, **coordinator);
  }).detach();
  const int exit_code = (*coordinator)->Wait();
  // All is shut down; the thread above still stands in sigwait.
  std::_Exit(exit_code);
}

}  // namespace
}  // namespace gimbal::coordinator

int main(int argc, char** argv) {
  gimbal::coordinator::Flags flags;
  CLI::App app("Coordinates one gimbal run: membership, grants, checkpoints.",
               "gimbal-coordinator");
  gimbal::coordinator::AddFlags(app, flags);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : gimbal::coordinator::kBadUsage;
  }
  gimbal::base::InitLog("coordinator", flags.log_level);
  gimbal::base::SetLogFormat(flags.log_format);
  return gimbal::coordinator::Run(flags);
}
