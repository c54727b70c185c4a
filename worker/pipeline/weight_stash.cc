#include "worker/pipeline/weight_stash.h"

#include <algorithm>

#include "common/base/log.h"
#include "worker/compute/aligned_buffer.h"

namespace gimbal::worker {

int64_t WeightStash::Size(int64_t arena_size, int versions) {
  return compute::AlignedSize<float>(arena_size) * versions;
}

WeightStash::WeightStash(float* memory, int64_t arena_size, int versions)
    : stride_(compute::AlignedSize<float>(arena_size)),
      memory_(memory),
      labels_(static_cast<size_t>(versions), -1) {}

bool WeightStash::Has(int64_t version) const {
  return version >= 0 &&
         labels_[static_cast<size_t>(version) % labels_.size()] == version;
}

const float* WeightStash::Get(int64_t version) const {
  GIMBAL_CHECK(Has(version));
  const size_t slot = static_cast<size_t>(version) % labels_.size();
  return memory_ + static_cast<int64_t>(slot) * stride_;
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
  return memory_ + static_cast<int64_t>(slot) * stride_;
}

void WeightStash::Publish(int64_t version) {
  GIMBAL_CHECK(version > newest_);
  labels_[static_cast<size_t>(version) % labels_.size()] = version;
  newest_ = version;
}

}  // namespace gimbal::worker
