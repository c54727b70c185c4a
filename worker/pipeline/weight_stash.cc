#include "worker/pipeline/weight_stash.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "common/base/log.h"

namespace gimbal::worker {
namespace {
constexpr std::align_val_t kAlignment{64};
}  // namespace

void WeightStash::Free::operator()(float* data) const {
  ::operator delete(data, kAlignment);
}

WeightStash::WeightStash(int64_t arena_size, int versions)
    : arena_size_((arena_size + 15) / 16 * 16),
      labels_(static_cast<size_t>(versions), -1) {
  const auto bytes = static_cast<size_t>(this->bytes());
  memory_.reset(static_cast<float*>(::operator new(bytes, kAlignment)));
  std::memset(memory_.get(), 0, bytes);
}

bool WeightStash::Has(int64_t version) const {
  return version >= 0 &&
         labels_[static_cast<size_t>(version) % labels_.size()] == version;
}

const float* WeightStash::Get(int64_t version) const {
  GIMBAL_CHECK(Has(version));
  const size_t slot = static_cast<size_t>(version) % labels_.size();
  return memory_.get() + static_cast<int64_t>(slot) * arena_size_;
}

int64_t WeightStash::oldest() const {
  int64_t oldest = newest_;
  for (const int64_t label : labels_) {
    if (label >= 0) oldest = std::min(oldest, label);
  }
  return oldest;
}

float* WeightStash::SlotFor(int64_t version) {
  GIMBAL_CHECK(version > newest_);
  const size_t slot = static_cast<size_t>(version) % labels_.size();
  return memory_.get() + static_cast<int64_t>(slot) * arena_size_;
}

void WeightStash::Publish(int64_t version) {
  GIMBAL_CHECK(version > newest_);
  labels_[static_cast<size_t>(version) % labels_.size()] = version;
  newest_ = version;
}

}  // namespace gimbal::worker
