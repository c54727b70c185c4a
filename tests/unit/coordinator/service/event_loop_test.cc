#include "coordinator/service/event_loop.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>
#include <vector>

namespace gimbal::coordinator {
namespace {

using std::chrono::milliseconds;

TEST(EventLoop, RunsTasksInTheOrderOfPosting) {
  EventLoop loop(milliseconds(1000), [] {});
  std::vector<int> order;
  for (int i = 0; i < 5; ++i) loop.Post([&order, i] { order.push_back(i); });
  EXPECT_TRUE(order.empty());
  loop.Start();
  loop.Stop();
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4}));
}

TEST(EventLoop, RunsEveryTaskOnceFromManyThreads) {
  EventLoop loop(milliseconds(1), [] {});
  loop.Start();
  int64_t sum = 0;  // touched on the loop only
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 1; i <= 1000; ++i) loop.Post([&sum, i] { sum += i; });
    });
  }
  for (std::thread& thread : threads) thread.join();
  loop.Stop();
  EXPECT_EQ(sum, 4 * 500500);
}

TEST(EventLoop, TicksWhileIdle) {
  std::promise<void> ticked;
  std::atomic<int> ticks = 0;
  EventLoop loop(milliseconds(1), [&] {
    if (++ticks == 3) ticked.set_value();
  });
  loop.Start();
  EXPECT_EQ(ticked.get_future().wait_for(std::chrono::seconds(30)),
            std::future_status::ready);
}

TEST(EventLoop, RunsWhatWasPostedEvenIfItNeverStarted) {
  bool ran = false;
  {
    EventLoop loop(milliseconds(1), [] {});
    loop.Post([&] { ran = true; });
  }
  EXPECT_TRUE(ran);
}

TEST(EventLoop, RunsALateTaskOnTheCallersThread) {
  EventLoop loop(milliseconds(1), [] {});
  loop.Start();
  loop.Stop();
  std::thread::id where;
  loop.Post([&] { where = std::this_thread::get_id(); });
  EXPECT_EQ(where, std::this_thread::get_id());
}

}  // namespace
}  // namespace gimbal::coordinator
