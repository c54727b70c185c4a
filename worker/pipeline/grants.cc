#include "worker/pipeline/grants.h"

#include <algorithm>

namespace gimbal::worker {

void Grants::Add(const Grant& grant) {
  std::lock_guard lock(mutex_);
  if (!grant_) {
    grant_ = grant;
    return;
  }
  grant_->until = std::max(grant_->until, grant.until);
  grant_->final_update = grant.final_update;
  grant_->cuts.insert(grant.cuts.begin(), grant.cuts.end());
  grant_->refresh = grant.refresh;
  grant_->left_out = grant.left_out;
}

std::optional<Grants::Block> Grants::Find(int stage, int64_t update) const {
  std::lock_guard lock(mutex_);
  if (!grant_ || update > grant_->until || update > grant_->final_update) {
    return std::nullopt;
  }
  Block block{.end = grant_->final_update};
  if (const auto it = grant_->cuts.find(update); it != grant_->cuts.end()) {
    block.cut = it->second;
  }
  const auto rules = grant_->refresh.find(stage);
  block.refresh =
      RefreshDue(rules == grant_->refresh.end() ? std::span<const RefreshRule>()
                                                : rules->second,
                 update);
  block.left_out =
      std::ranges::any_of(grant_->left_out, [update](const auto& range) {
        return range.first <= update && update <= range.second;
      });
  return block;
}

std::optional<int64_t> Grants::final_update() const {
  std::lock_guard lock(mutex_);
  if (!grant_) return std::nullopt;
  return grant_->final_update;
}

}  // namespace gimbal::worker
