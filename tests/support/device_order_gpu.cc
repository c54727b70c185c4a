#include "tests/support/device_order.h"

namespace gimbal::test_support {

void SetDeviceOrder(uint64_t /*seed*/) {}

}  // namespace gimbal::test_support
