#include "coordinator/scrape_targets.h"

#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/utf8.h"
#include "common/io/file.h"

namespace gimbal::coordinator {
namespace {

constexpr int kFailed = 3;

nlohmann::ordered_json Target(const std::string& address, const char* job,
                              const std::string& run, const std::string& name) {
  return {{"targets", {address}},
          {"labels",
           {{"job", job},
            {"run", run},
            {"instance", absl::StrCat(run, "/", name)}}}};
}

}  // namespace

std::string ScrapeTargetsJson(const v1::GetStatusResponse& status,
                              const std::string& coordinator_metrics_address) {
  auto targets = nlohmann::ordered_json::array();
  if (!status.has_exit_code() || status.exit_code() == kFailed) {
    targets.push_back(Target(coordinator_metrics_address, "gimbal-coordinator",
                             status.run_id(), "coordinator"));
  }
  std::set<std::string> names = {"coordinator"};
  for (const v1::WorkerView& worker : status.workers()) {
    if (status.has_exit_code() || worker.metrics_address().empty()) continue;
    std::string name = base::ValidUtf8(worker.name());
    if (!names.insert(name).second) {
      absl::StrAppend(&name, "-", worker.worker_id());
    }
    targets.push_back(Target(worker.metrics_address(), "gimbal-worker",
                             status.run_id(), name));
  }
  return targets.dump(2) + "\n";
}

void ScrapeTargets::Publish(const v1::GetStatusResponse& status) {
  std::string text = ScrapeTargetsJson(status, metrics_address_);
  if (text == written_) return;
  const absl::Status written = io::WriteFileAtomically(path_, text);
  if (!written.ok()) {
    if (!std::exchange(warned_, true)) base::LogWarning(written.ToString());
    return;
  }
  warned_ = false;
  written_ = std::move(text);
}

}  // namespace gimbal::coordinator
