#include "coordinator/service/status_board.h"

#include <gtest/gtest.h>

#include <thread>

namespace gimbal::coordinator {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class FakeClock final : public base::Clock {
 public:
  base::SteadyTime Now() const override { return now; }
  double UnixSeconds() const override { return 0; }
  base::SteadyTime now{seconds(1000)};
};

v1::GetStatusResponse Ended() {
  v1::GetStatusResponse status;
  status.set_exit_code(0);
  return status;
}

bool WaitsFor(StatusBoard& board, milliseconds most) {
  const auto begin = std::chrono::steady_clock::now();
  board.WaitForWatchers(most);
  return std::chrono::steady_clock::now() - begin >= most;
}

TEST(StatusBoard, NobodyWhoOnlyLookedKeepsTheEndWaiting) {
  FakeClock clock;
  StatusBoard board(clock);
  EXPECT_FALSE(board.Get().has_exit_code());
  board.Publish(Ended());
  EXPECT_FALSE(WaitsFor(board, seconds(60)));
}

TEST(StatusBoard, SaysThatTheCoordinatorHangs) {
  FakeClock clock;
  StatusBoard board(clock);
  EXPECT_EQ(board.Get().standstill(), "") << "not begun";
  board.Publish({});
  clock.now += seconds(4);
  EXPECT_EQ(board.Get().standstill(), "");
  clock.now += seconds(1);
  EXPECT_NE(board.Get().standstill().find("has hung for 5 s"),
            std::string::npos);
  EXPECT_NE(board.GetAndNote("a").standstill(), "");
  board.Publish({});
  EXPECT_EQ(board.Get().standstill(), "");
  board.Publish(Ended());
  clock.now += seconds(60);
  EXPECT_EQ(board.Get().standstill(), "");
}

TEST(StatusBoard, WhoWatchesIsToldTheEnd) {
  FakeClock clock;
  StatusBoard board(clock);
  board.GetAndNote("a");
  board.GetAndNote("b");
  board.Publish(Ended());
  EXPECT_TRUE(WaitsFor(board, milliseconds(20)));
  EXPECT_TRUE(board.GetAndNote("a").has_exit_code());
  EXPECT_TRUE(WaitsFor(board, milliseconds(20)));
  std::thread other([&] { board.GetAndNote("b"); });
  EXPECT_FALSE(WaitsFor(board, seconds(60)));
  other.join();
}

TEST(StatusBoard, WhoWasSilentForLongIsGone) {
  FakeClock clock;
  StatusBoard board(clock);
  board.GetAndNote("a");
  clock.now += seconds(4);
  board.Publish(Ended());
  EXPECT_FALSE(WaitsFor(board, seconds(60)));
}

}  // namespace
}  // namespace gimbal::coordinator
