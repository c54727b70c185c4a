#include "tests/support/device_order.h"
#include "tests/unit/worker/compute/cuda/device_array.h"

namespace gimbal::compute::cuda {

Floats UnderAllSeeds(const std::function<Floats(const Stream&)>& op) {
  Floats first;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    test_support::SetDeviceOrder(seed);
    const Stream stream;
    const Floats values = op(stream);
    if (seed == 0) first = values;
    for (size_t i = 0; i < first.size(); ++i) {
      const bool same = values[i] == first[i] ||
                        (std::isnan(values[i]) && std::isnan(first[i]));
      EXPECT_TRUE(same) << "seed " << seed << ", number " << i << ": "
                        << values[i] << " instead of " << first[i];
      if (!same) return first;
    }
  }
  return first;
}

}  // namespace gimbal::compute::cuda
