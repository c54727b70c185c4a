#include "worker/transport/call_watch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>

namespace gimbal::worker {
namespace {

using std::chrono::milliseconds;

TEST(CallWatch, TellsOnceOfACallThatDoesNotReturn) {
  std::atomic<int> told = 0;
  std::string text;
  const CallWatch watch("ncclCommAbort", milliseconds(1),
                        [&](const std::string& what) {
                          text = what;
                          ++told;
                        });
  while (told == 0) std::this_thread::yield();
  EXPECT_EQ(text, "ncclCommAbort has not returned within 1 ms");
  std::this_thread::sleep_for(milliseconds(200));
  EXPECT_EQ(told, 1);
}

TEST(CallWatch, IsSilentAboutOneThatDoes) {
  std::atomic<int> told = 0;
  const auto tell = [&](const std::string&) { ++told; };
  for (int i = 0; i < 100; ++i) {
    const CallWatch watch("call", std::chrono::hours(1), tell);
  }
  { const CallWatch watch("call", milliseconds(100000), tell); }
  std::this_thread::sleep_for(milliseconds(120));
  EXPECT_EQ(told, 0);
}

}  // namespace
}  // namespace gimbal::worker
