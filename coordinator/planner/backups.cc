#include "coordinator/planner/backups.h"

#include <algorithm>

namespace gimbal::coordinator {

std::map<int64_t, int64_t> BackupsOf(
    const std::vector<int64_t>& slots,
    const std::map<int64_t, std::string>& machines) {
  std::vector<int64_t> workers;  // once each, in the order of their slots
  for (const int64_t worker : slots) {
    if (std::ranges::find(workers, worker) == workers.end()) {
      workers.push_back(worker);
    }
  }
  const size_t count = workers.size();
  std::map<int64_t, int64_t> backups;
  for (size_t i = 0; i < count; ++i) {
    int64_t& backup = backups[workers[i]];
    for (size_t step = 0; step < count; ++step) {
      const int64_t other =
          workers[(i + std::max<size_t>(1, count / 2) + step) % count];
      if (other == workers[i]) continue;
      if (backup == 0) backup = other;
      if (machines.at(other) == machines.at(workers[i])) continue;
      backup = other;
      break;
    }
  }
  return backups;
}

}  // namespace gimbal::coordinator
