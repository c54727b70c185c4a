// A change of the plan of basis refreshes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gimbal::coordinator {

struct RefreshChange {
  int64_t from = 1;   // update
  int policy = 1;     // a v1::RefreshPolicy; the store knows no protobuf
  double period = 1;  // mean
  std::vector<double> periods;  // by stage
  std::string reason;
  bool asked = false;  // by a user, not made by the adaptive policy

  friend bool operator==(const RefreshChange&, const RefreshChange&) = default;
};

}  // namespace gimbal::coordinator
