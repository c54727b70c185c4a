// gimbal-worker: hosts stages of the pipeline for a coordinator.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/log.h"
#include "common/base/log_format.h"
#include "common/base/stop_signals.h"
#include "common/net/address.h"
#include "worker/pipeline/link_choice.h"
#include "worker/worker.h"

namespace {

constexpr int kInternalError = 1;
// For an assignment to leave what it is in the middle of: a microbatch, a file.
constexpr std::chrono::seconds kEndGrace{5};

std::atomic<int> signals_received = 0;
static_assert(std::atomic<int>::is_always_lock_free);

std::atomic<int64_t> first_signal_ms = 0;
static_assert(std::atomic<int64_t>::is_always_lock_free);

// Whatever the threads are blocked in, a second request ends the process.
void CountSignal(int) {
  using std::chrono::milliseconds;
  const int64_t now = std::chrono::duration_cast<milliseconds>(
                          std::chrono::steady_clock::now().time_since_epoch())
                          .count();
  int64_t first = 0;
  if (!first_signal_ms.compare_exchange_strong(first, now) &&
      now - first >= milliseconds(gimbal::base::kSameRequest).count()) {
    _exit(kInternalError);
  }
  ++signals_received;
}

void TakeSignals(const std::vector<std::string>& stop_signals) {
  std::signal(SIGINT, CountSignal);
  for (const std::string_view name : gimbal::base::kStopSignals) {
    const bool stops =
        std::ranges::find(stop_signals, name) != stop_signals.end();
    std::signal(*gimbal::base::StopSignal(name), stops ? CountSignal : SIG_IGN);
  }
}

int ExitCode(const absl::StatusOr<int>& code) {
  if (code.ok()) return *code;
  gimbal::base::LogError(std::string(code.status().message()));
  return absl::IsFailedPrecondition(code.status()) ? 3 : kInternalError;
}

// Ends the process with `code` unless it has ended by itself by then.
void ExitAfterGrace(int code) {
  std::thread([code] {
    std::this_thread::sleep_for(kEndGrace);
    gimbal::base::LogWarning("the assignment does not end: leaves without it");
    _exit(code);
  }).detach();
}

}  // namespace

int main(int argc, char** argv) {
  using gimbal::worker::Worker;
  Worker::Options options;
  options.name = "worker-" + std::to_string(getpid());
  std::string device = "auto";
  int gpu = -1;
  std::string log_level = "info";
  std::string log_format = "text";
  std::string stop_signals = absl::StrJoin(gimbal::base::kStopSignals, ",");
  int patience = static_cast<int>(options.patience.count());
  CLI::App app{
      "gimbal-worker: hosts pipeline stages for a gimbal-coordinator.\n"
      "Example: gimbal-worker --coordinator 127.0.0.1:7001 --name worker-0"};
  app.option_defaults()->always_capture_default();
  app.set_version_flag("--version", "gimbal-worker " GIMBAL_VERSION);
  app.add_option("--coordinator", options.coordinator,
                 "host:port of the coordinator's gRPC port")
      ->required()
      ->check(CLI::Validator(
          [](const std::string& text) {
            return gimbal::net::IsHostAndPort(text)
                       ? ""
                       : text + ": expected HOST:PORT, e.g. trainer-1:7000";
          },
          ""));
  app.add_option("--name", options.name, "name shown in status and logs");
  app.add_option("--listen", options.listen,
                 "host:port at which neighbours reach the links; port 0 picks "
                 "a free one");
  app.add_option("--advertise", options.advertise,
                 "host that the coordinator and neighbours are told instead of "
                 "that of --listen, e.g. with --listen 0.0.0.0:7101");
  app.add_option("--tls-ca", options.security.ca,
                 "certificates of the authority that both ends of a "
                 "connection must be signed by, PEM [GIMBAL_TLS_CA]");
  app.add_option("--tls-cert", options.security.cert,
                 "this host's certificate, PEM [GIMBAL_TLS_CERT]");
  app.add_option("--tls-key", options.security.key,
                 "its private key, PEM [GIMBAL_TLS_KEY]");
  app.add_option("--token-file", options.security.token,
                 "file with the secret that the coordinator and all workers "
                 "share [GIMBAL_TOKEN_FILE]");
  app.add_option("--metrics-listen", options.metrics_listen,
                 "host:port of the HTTP port: /metrics, /healthz, /readyz");
  app.add_option("--snapshot-listen", options.snapshot_listen,
                 "host:port at which other workers keep and fetch snapshots; "
                 "empty: a free port at the address of --listen");
  app.add_option("--device", device,
                 "cpu, cuda, or auto: cuda where there is a device");
  app.add_option("--gpu", gpu,
                 "which GPU of those that CUDA_VISIBLE_DEVICES shows, from 0; "
                 "-1: the first")
      ->check(CLI::Range(-1, 1023));
  app.add_option("--patience", patience,
                 "seconds without a coordinator before giving up")
      ->check(CLI::PositiveNumber);
  app.add_option("--stop-signals", stop_signals,
                 "signals besides INT that end the run at a checkpoint, as "
                 "cluster.stop_signals; the others are ignored");
  app.add_option("--log-level", log_level, "debug, info, warning or error")
      ->check(CLI::IsMember({"debug", "info", "warning", "error"}));
  app.add_option("--log-format", log_format,
                 "text, or json: one object per line")
      ->check(CLI::IsMember({"text", "json"}));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  options.patience = std::chrono::seconds(patience);
  gimbal::base::InitLog(options.name, log_level);
  gimbal::base::SetLogFormat(log_format);
  TakeSignals(absl::StrSplit(stop_signals, ',', absl::SkipEmpty()));

  if (gpu >= 0) {
    const absl::Status shown = gimbal::worker::ShowOneGpu(gpu);
    if (!shown.ok()) {
      gimbal::base::LogError(std::string(shown.message()));
      return 2;
    }
  }
  if (device != "cpu") {
    gimbal::base::LogInfo("CUDA: " + gimbal::worker::FindCuda().text);
  }
  auto backend = gimbal::worker::ChooseBackend(device);
  if (!backend.ok()) {
    gimbal::base::LogError(std::string(backend.status().message()));
    return 2;
  }
  options.backend = *std::move(backend);
  gimbal::base::LogInfo("computes on " + options.backend.device +
                        ", numerics: " + options.backend.numerics);
  const gimbal::worker::DeviceLinks& links = options.backend.links;
  if (!links.gpu.empty()) {
    gimbal::base::LogInfo(
        links.gpu + ", NCCL: " +
        (links.nccl_version > 0
             ? gimbal::worker::NcclVersionText(links.nccl_version)
             : links.nccl_missing));
  }
  auto worker = Worker::Start(options, signals_received);
  if (!worker.ok()) {
    gimbal::base::LogError(std::string(worker.status().message()));
    return 2;
  }
  const int code = ExitCode((*worker)->Run());
  ExitAfterGrace(code);
  worker->reset();
  return code;
}
