#include "tests/cuda_host/device.h"
#include "tests/support/device_order.h"

namespace gimbal::test_support {

void SetDeviceOrder(uint64_t seed) { cuda_host::SetSeed(seed); }

}  // namespace gimbal::test_support
