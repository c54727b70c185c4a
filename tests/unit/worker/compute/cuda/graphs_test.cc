#include "worker/compute/cuda/graphs.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/unit/worker/compute/cuda/device_array.h"
#include "worker/compute/cuda/update.h"

namespace gimbal::compute::cuda {
namespace {

// x <- 2 x + 1 by way of y.
void Enqueue(const Stream& stream, const DeviceArray<float>& x,
             const DeviceArray<float>& ones) {
  ApplyDirection(stream.get(), 5, 2, -1, x.data(), ones.data(), x.data());
}

TEST(GraphsTest, EveryRunDoesTheSame) {
  const Stream stream;
  const DeviceArray<float> x(Floats(5, 0.0f)), other(Floats(5, 0.0f)),
      ones(Floats(5, 1.0f));
  Graphs graphs(stream);
  int enqueued = 0;
  for (int i = 0; i < 5; ++i) {
    graphs.Run({1}, [&] {
      ++enqueued;
      Enqueue(stream, x, ones);
    });
    graphs.Run({2}, [&] { Enqueue(stream, other, ones); });
  }
  EXPECT_EQ(x.Values(stream), Floats(5, 31.0f));
  EXPECT_EQ(other.Values(stream), Floats(5, 31.0f));
  EXPECT_EQ(enqueued, 2) << "once as it is, once to be recorded";
  EXPECT_EQ(graphs.launches(), 8);
}

TEST(GraphsTest, AnErrorLeavesNoRecordingBehind) {
  const Stream stream;
  const DeviceArray<float> x(Floats(5, 0.0f)), ones(Floats(5, 1.0f));
  Graphs graphs(stream);
  graphs.Run({1}, [&] { Enqueue(stream, x, ones); });
  const auto fail = [&] {
    Enqueue(stream, x, ones);
    throw std::runtime_error("in the middle");
  };
  EXPECT_THROW(graphs.Run({1}, fail), std::runtime_error);
  graphs.Run({1}, [&] { Enqueue(stream, x, ones); });
  EXPECT_EQ(x.Values(stream), Floats(5, 3.0f));
}

TEST(GraphsTest, TooManyKeysAreNotRecorded) {
  const Stream stream;
  const DeviceArray<float> x(Floats(5, 0.0f)), ones(Floats(5, 1.0f));
  Graphs graphs(stream);
  for (int round = 0; round < 2; ++round) {
    for (uint64_t key = 0; key <= Graphs::kMaxGraphs; ++key) {
      graphs.Run({key}, [&] { Enqueue(stream, x, ones); });
    }
  }
  EXPECT_EQ(graphs.launches(), static_cast<int64_t>(Graphs::kMaxGraphs));
}

}  // namespace
}  // namespace gimbal::compute::cuda
