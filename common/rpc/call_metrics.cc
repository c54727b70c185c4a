#include "common/rpc/call_metrics.h"

#include <google/protobuf/descriptor.h>
#include <prometheus/counter.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <utility>

namespace gimbal::rpc {
namespace {

const prometheus::Histogram::BucketBoundaries kSeconds = {
    0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30};

// Of the services' documented answers; any other is an "other".
constexpr std::pair<absl::StatusCode, const char*> kCodes[] = {
    {absl::StatusCode::kUnavailable, "unavailable"},
    {absl::StatusCode::kAborted, "aborted"},
    {absl::StatusCode::kFailedPrecondition, "failed_precondition"},
    {absl::StatusCode::kInvalidArgument, "invalid_argument"},
    {absl::StatusCode::kOutOfRange, "out_of_range"},
    {absl::StatusCode::kNotFound, "not_found"},
    {absl::StatusCode::kDataLoss, "data_loss"},
    {absl::StatusCode::kResourceExhausted, "resource_exhausted"},
    {absl::StatusCode::kUnknown, "other"}};

std::vector<std::string> MethodsOf(
    const std::vector<const google::protobuf::FileDescriptor*>& files) {
  std::vector<std::string> methods;
  for (const auto* file : files) {
    for (int s = 0; s < file->service_count(); ++s) {
      for (int m = 0; m < file->service(s)->method_count(); ++m) {
        methods.push_back(file->service(s)->method(m)->name());
      }
    }
  }
  return methods;
}

}  // namespace

CallMetrics::CallMetrics(
    prometheus::Registry& registry, const std::string& run,
    const std::vector<const google::protobuf::FileDescriptor*>& files)
    : registry_(registry),
      seconds_(prometheus::BuildHistogram()
                   .Name("gimbal_rpc_seconds")
                   .Help("From a call's arrival to its answer")
                   .Register(registry)),
      errors_(prometheus::BuildCounter()
                  .Name("gimbal_rpc_errors_total")
                  .Help("Calls that were answered with an error")
                  .Register(registry)) {
  for (const std::string& name : MethodsOf(files)) {
    Method& method = methods_[name];
    method.seconds = &seconds_.Add({{"run", run}, {"method", name}}, kSeconds);
    for (const auto& [code, label] : kCodes) {
      method.errors[code] =
          &errors_.Add({{"run", run}, {"method", name}, {"code", label}});
    }
  }
}

void CallMetrics::OnCall(const std::string& method, const absl::Status& status,
                         base::Seconds taken) {
  const auto found = methods_.find(method);
  if (found == methods_.end()) return;
  found->second.seconds->Observe(taken.count());
  if (status.ok()) return;
  const auto& errors = found->second.errors;
  const auto error = errors.find(status.code());
  (error != errors.end() ? error : errors.find(absl::StatusCode::kUnknown))
      ->second->Increment();
}

void CallMetrics::Remove() {
  registry_.Remove(seconds_);
  registry_.Remove(errors_);
}

}  // namespace gimbal::rpc
