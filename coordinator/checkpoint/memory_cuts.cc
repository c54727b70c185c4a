#include "coordinator/checkpoint/memory_cuts.h"

#include <algorithm>
#include <iterator>

namespace gimbal::coordinator {

bool MemoryCuts::Add(int stage, int64_t update, int64_t worker) {
  if (stage < 0 || stage >= stages_ || committed_ > update ||
      given_up_.contains(update)) {
    return false;
  }
  Copies& copies = cuts_[update];
  copies.resize(static_cast<size_t>(stages_));
  copies[static_cast<size_t>(stage)].insert(worker);
  return true;
}

void MemoryCuts::Lose(int64_t worker) {
  for (auto& [update, copies] : cuts_) {
    for (std::set<int64_t>& workers : copies) workers.erase(worker);
  }
}

void MemoryCuts::GiveUp(int64_t update) {
  cuts_.erase(update);
  given_up_.insert(update);
}

void MemoryCuts::GoBack(int64_t update) {
  cuts_.erase(cuts_.upper_bound(update), cuts_.end());
  given_up_.erase(given_up_.upper_bound(update), given_up_.end());
  if (committed_ > update) committed_.reset();
}

std::optional<int64_t> MemoryCuts::NewestWhole(int64_t limit,
                                               int copies) const {
  const auto enough = [copies](const std::set<int64_t>& workers) {
    return static_cast<int>(workers.size()) >= copies;
  };
  for (auto cut = std::make_reverse_iterator(cuts_.upper_bound(limit));
       cut != cuts_.rend() && committed_ < cut->first; ++cut) {
    if (std::ranges::all_of(cut->second, enough)) return cut->first;
  }
  return std::nullopt;
}

void MemoryCuts::Commit(int64_t update) {
  cuts_.erase(cuts_.begin(), cuts_.lower_bound(update));
  given_up_.erase(given_up_.begin(), given_up_.upper_bound(update));
  committed_ = update;
}

std::vector<int64_t> MemoryCuts::Holders(int stage, int64_t update) const {
  const auto cut = cuts_.find(update);
  if (cut == cuts_.end()) return {};
  const std::set<int64_t>& workers = cut->second[static_cast<size_t>(stage)];
  return {workers.begin(), workers.end()};
}

std::vector<int> MemoryCuts::Missing(int64_t update) const {
  std::vector<int> missing;
  for (int stage = 0; stage < stages_; ++stage) {
    if (Holders(stage, update).empty()) missing.push_back(stage);
  }
  return missing;
}

}  // namespace gimbal::coordinator
