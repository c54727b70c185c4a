#include "common/obs/health.h"

#include "absl/strings/str_cat.h"

namespace gimbal::obs {
namespace {

constexpr int kUnavailable = 503;

}  // namespace

void Health::Beat() {
  std::lock_guard lock(mutex_);
  beat_ = clock_.Now();
}

void Health::SetWaiting(const std::string& what) {
  std::lock_guard lock(mutex_);
  waiting_ = what;
}

HttpResponse Health::Alive() const {
  std::lock_guard lock(mutex_);
  const auto silence =
      std::chrono::duration_cast<std::chrono::seconds>(clock_.Now() - beat_);
  if (silence < kSilence) return {.body = "alive\n"};
  return {.status = kUnavailable,
          .body = absl::StrCat("the main loop stands still for ",
                               silence.count(), " s\n")};
}

HttpResponse Health::Ready() const {
  std::lock_guard lock(mutex_);
  if (waiting_.empty()) return {.body = "ready\n"};
  return {.status = kUnavailable, .body = absl::StrCat(waiting_, "\n")};
}

void Health::Serve(HttpServer& server) const {
  server.Handle("/healthz", [this](std::string_view) { return Alive(); });
  server.Handle("/readyz", [this](std::string_view) { return Ready(); });
}

}  // namespace gimbal::obs
