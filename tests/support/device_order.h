// Another order of all that a device leaves open (threads, blocks, streams),
// for tests that want the same bits under any. One of two sources is linked: on
// the host layer (device_order_host.cc) `seed` decides the order, on a GPU
// (device_order_gpu.cc) every run has one of its own anyway.
#pragma once

#include <cstdint>

namespace gimbal::test_support {

// No stream may have work.
void SetDeviceOrder(uint64_t seed);

}  // namespace gimbal::test_support
