#include "coordinator/train_job.h"

#include <curl/curl.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/io/file.h"

namespace gimbal::coordinator {
namespace {

constexpr base::Seconds kPatience{5};
constexpr base::Seconds kLastPatience{2};

std::string FromEnvironment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

size_t Ignore(char*, size_t size, size_t count, void*) { return size * count; }

struct Cleanup {
  void operator()(CURL* curl) const { curl_easy_cleanup(curl); }
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};

class Headers {
 public:
  void Add(const std::string& line) {
    list_.reset(curl_slist_append(list_.release(), line.c_str()));
  }
  curl_slist* get() const { return list_.get(); }

 private:
  std::unique_ptr<curl_slist, Cleanup> list_;
};

}  // namespace

std::optional<TrainJobServer> TrainJobServer::FromEnvironment() {
  TrainJobServer server{
      .url = coordinator::FromEnvironment("KUBEFLOW_TRAINER_SERVER_URL"),
      .ca_file =
          coordinator::FromEnvironment("KUBEFLOW_TRAINER_SERVER_CA_CERT"),
      .token_file =
          coordinator::FromEnvironment("KUBEFLOW_TRAINER_SERVER_TOKEN")};
  if (server.url.empty()) return std::nullopt;
  return server;
}

std::string TrainJobStatusJson(const v1::GetStatusResponse& status,
                               double unix_seconds) {
  using nlohmann::ordered_json;
  ordered_json told = ordered_json::object();
  if (status.steps() > 0) {
    told["progressPercentage"] =
        std::clamp<int64_t>(100 * status.update() / status.steps(), 0, 100);
  }
  if (status.has_eta_seconds() && std::isfinite(status.eta_seconds())) {
    told["estimatedRemainingSeconds"] = static_cast<int64_t>(
        std::clamp(std::ceil(status.eta_seconds()), 0.0,
                   double{std::numeric_limits<int32_t>::max()}));
  }
  ordered_json& metrics = told["metrics"] = ordered_json::array();
  const auto add = [&](const char* name, const std::string& value) {
    metrics.push_back({{"name", name}, {"value", value}});
  };
  add("update", absl::StrCat(status.update()));
  add("updates", absl::StrCat(status.steps()));
  if (status.has_loss()) add("loss", absl::StrCat(status.loss()));
  if (status.has_valid_loss()) {
    add("eval_loss", absl::StrCat(status.valid_loss()));
  }
  add("tokens_per_second",
      absl::StrCat(std::llround(status.tokens_per_second())));
  told["lastUpdatedTime"] = absl::FormatTime(
      "%Y-%m-%dT%H:%M:%SZ",
      absl::FromUnixSeconds(static_cast<int64_t>(unix_seconds)),
      absl::UTCTimeZone());
  return ordered_json{{"trainerStatus", told}}.dump();
}

TrainJobReporter::TrainJobReporter(TrainJobServer server,
                                   base::Seconds interval)
    : server_(std::move(server)), interval_(interval) {
  curl_global_init(CURL_GLOBAL_DEFAULT);
  thread_ = std::thread([this] { Loop(); });
}

TrainJobReporter::~TrainJobReporter() {
  {
    std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void TrainJobReporter::Publish(const v1::GetStatusResponse& status) {
  {
    std::lock_guard lock(mutex_);
    newest_ = status;
  }
  changed_.notify_all();
}

void TrainJobReporter::Loop() {
  absl::Status last;
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return over_ || newest_.has_value(); });
    const bool over = over_;
    const auto status = std::exchange(newest_, std::nullopt);
    lock.unlock();
    if (status) {
      const absl::Status sent =
          Send(TrainJobStatusJson(*status, base::Clock::Real().UnixSeconds()),
               over ? kLastPatience : kPatience);
      if (!sent.ok() && sent != last) {
        base::LogWarning(
            absl::StrCat("cannot tell Kubeflow Trainer of the "
                         "run's progress: ",
                         absl::string_view(sent.message())));
      }
      last = sent;
    }
    if (over) return;
    lock.lock();
    changed_.wait_for(lock, interval_, [&] { return over_; });
  }
}

absl::Status TrainJobReporter::Send(const std::string& body,
                                    base::Seconds patience) const {
  const std::unique_ptr<CURL, Cleanup> curl(curl_easy_init());
  if (curl == nullptr) return absl::InternalError("libcurl does not start");
  Headers headers;
  headers.Add("Content-Type: application/json");
  if (!server_.token_file.empty()) {
    GIMBAL_ASSIGN_OR_RETURN(const std::string token,
                            io::ReadFile(server_.token_file));
    headers.Add(absl::StrCat("Authorization: Bearer ",
                             absl::StripAsciiWhitespace(token)));
  }
  curl_easy_setopt(curl.get(), CURLOPT_URL, server_.url.c_str());
  // Redirections are not followed: the token is for this server alone.
  curl_easy_setopt(curl.get(), CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl.get(), CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(curl.get(), CURLOPT_POSTFIELDS, body.c_str());
  curl_easy_setopt(curl.get(), CURLOPT_WRITEFUNCTION, Ignore);
  curl_easy_setopt(curl.get(), CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl.get(), CURLOPT_TIMEOUT_MS,
                   static_cast<long>(1000 * patience.count()));
  if (!server_.ca_file.empty()) {
    curl_easy_setopt(curl.get(), CURLOPT_CAINFO, server_.ca_file.c_str());
  }
  const CURLcode code = curl_easy_perform(curl.get());
  if (code != CURLE_OK) {
    return absl::UnavailableError(
        absl::StrCat(server_.url, ": ", curl_easy_strerror(code)));
  }
  long answer = 0;
  curl_easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &answer);
  if (answer / 100 == 2) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat(server_.url, " answers with HTTP status ", answer));
}

}  // namespace gimbal::coordinator
