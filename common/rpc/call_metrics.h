// gimbal_rpc_*: how long calls take, and with which codes they fail. The series
// of every method and code are there from the start.
//
// Thread-safe.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/base/clock.h"

namespace google::protobuf {
class FileDescriptor;
}
namespace prometheus {
class Counter;
class Histogram;
class Registry;
template <typename T>
class Family;
}  // namespace prometheus

namespace gimbal::rpc {

class CallMetrics {
 public:
  // Of all methods of the services in these files; their names differ. `run` is
  // a label. The registry must outlive this, unless Remove was called.
  CallMetrics(
      prometheus::Registry& registry, const std::string& run,
      const std::vector<const google::protobuf::FileDescriptor*>& files);

  // A method that is in none of the files is ignored.
  void OnCall(const std::string& method, const absl::Status& status,
              base::Seconds taken);
  // Takes the metrics out of the registry again; nothing else may follow.
  void Remove();

 private:
  struct Method {
    prometheus::Histogram* seconds;
    std::map<absl::StatusCode, prometheus::Counter*> errors;
  };

  prometheus::Registry& registry_;
  prometheus::Family<prometheus::Histogram>& seconds_;
  prometheus::Family<prometheus::Counter>& errors_;
  std::map<std::string, Method> methods_;
};

}  // namespace gimbal::rpc
