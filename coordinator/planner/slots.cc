#include "coordinator/planner/slots.h"

#include <algorithm>

#include "common/base/log.h"

namespace gimbal::coordinator {
namespace {

bool Contains(const std::vector<int64_t>& ids, int64_t id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

std::vector<int64_t> Idle(const std::vector<int64_t>& slots,
                          const std::vector<int64_t>& alive) {
  std::vector<int64_t> idle;
  for (int64_t worker : alive) {
    if (!Contains(slots, worker)) idle.push_back(worker);
  }
  return idle;
}

int64_t Fewest(const std::vector<int64_t>& slots,
               const std::vector<int64_t>& alive, size_t vacant) {
  int64_t best = 0;
  int64_t best_rank = 0;
  for (int64_t worker : alive) {
    const bool neighbour =
        (vacant > 0 && slots[vacant - 1] == worker) ||
        (vacant + 1 < slots.size() && slots[vacant + 1] == worker);
    const int64_t rank =
        2 * std::count(slots.begin(), slots.end(), worker) - neighbour;
    if (best == 0 || rank < best_rank) {
      best = worker;
      best_rank = rank;
    }
  }
  return best;
}

}  // namespace

std::vector<int64_t> FillSlots(std::vector<int64_t> slots,
                               const std::vector<int64_t>& alive) {
  GIMBAL_CHECK(!alive.empty());
  for (int64_t& slot : slots) {
    if (!Contains(alive, slot)) slot = 0;
  }
  for (int64_t worker : Idle(slots, alive)) {
    const auto vacant = std::find(slots.begin(), slots.end(), 0);
    if (vacant == slots.end()) break;
    *vacant = worker;
  }
  for (size_t i = 0; i < slots.size(); ++i) {
    if (slots[i] == 0) slots[i] = Fewest(slots, alive, i);
  }
  return slots;
}

std::vector<int64_t> SpreadSlots(std::vector<int64_t> slots,
                                 const std::vector<int64_t>& alive) {
  for (int64_t worker : Idle(slots, alive)) {
    const auto count = [&](int64_t id) {
      return std::count(slots.begin(), slots.end(), id);
    };
    const int64_t most = *std::max_element(
        slots.begin(), slots.end(),
        [&](int64_t a, int64_t b) { return count(a) < count(b); });
    if (count(most) < 2) break;
    // Its last one: the others stay together.
    *std::find(slots.rbegin(), slots.rend(), most) = worker;
  }
  return slots;
}

}  // namespace gimbal::coordinator
