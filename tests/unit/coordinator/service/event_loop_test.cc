#include "coordinator/service/event_loop.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <thread>
#include <vector>

namespace gimbal::coordinator {
namespace {

using std::chrono::milliseconds;

TEST(EventLoop, RunsTasksInTheOrderOfPosting) {
  EventLoop loop(milliseconds(1000), [](base::SteadyTime) {});
  std::vector<int> order;
  for (int i = 0; i < 5; ++i) loop.Post([&order, i] { order.push_back(i); });
  EXPECT_TRUE(order.empty());
  loop.Start();
  loop.Stop();
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4}));
}

TEST(EventLoop, RunsEveryTaskOnceFromManyThreads) {
  EventLoop loop(milliseconds(1), [](base::SteadyTime) {});
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
  EventLoop loop(milliseconds(1), [&](base::SteadyTime) {
    if (++ticks == 3) ticked.set_value();
  });
  loop.Start();
  EXPECT_EQ(ticked.get_future().wait_for(std::chrono::seconds(30)),
            std::future_status::ready);
}

// There is always a next message where training is faster than its files.
TEST(EventLoop, TicksWhileTasksNeverEnd) {
  std::atomic<bool> ticked = false;
  EventLoop loop(milliseconds(1), [&](base::SteadyTime) { ticked = true; });
  std::promise<void> done;
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::seconds(30);
  std::function<void()> task = [&] {
    if (!ticked && std::chrono::steady_clock::now() < deadline) {
      loop.Post(task);
    } else {
      done.set_value();
    }
  };
  loop.Post(task);
  loop.Start();
  done.get_future().wait();
  EXPECT_TRUE(ticked);
}

// A tick knows of all that came before the moment it is given.
TEST(EventLoop, TicksAfterEverythingThatCameBeforeIt) {
  base::SteadyTime posted, ticked_at;
  bool told = false, told_before_tick = false;
  std::promise<void> done;
  EventLoop loop(milliseconds(1), [&](base::SteadyTime now) {
    if (ticked_at != base::SteadyTime()) return;
    ticked_at = now;
    told_before_tick = told;
    done.set_value();
  });
  loop.Post([&] {
    std::this_thread::sleep_for(milliseconds(50));  // the tick is due by now
    posted = std::chrono::steady_clock::now();
    loop.Post([&] { told = true; });
  });
  loop.Start();
  ASSERT_EQ(done.get_future().wait_for(std::chrono::seconds(30)),
            std::future_status::ready);
  loop.Stop();
  EXPECT_TRUE(told_before_tick);
  EXPECT_GE(ticked_at, posted);
}

TEST(EventLoop, RunsWhatWasPostedEvenIfItNeverStarted) {
  bool ran = false;
  {
    EventLoop loop(milliseconds(1), [](base::SteadyTime) {});
    loop.Post([&] { ran = true; });
  }
  EXPECT_TRUE(ran);
}

TEST(EventLoop, RunsALateTaskOnTheCallersThread) {
  EventLoop loop(milliseconds(1), [](base::SteadyTime) {});
  loop.Start();
  loop.Stop();
  std::thread::id where;
  loop.Post([&] { where = std::this_thread::get_id(); });
  EXPECT_EQ(where, std::this_thread::get_id());
}

}  // namespace
}  // namespace gimbal::coordinator
