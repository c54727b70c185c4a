#include "coordinator/run/run_state.h"

#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace gimbal::coordinator {
namespace {

using test_support::IsOk;
using test_support::StatusIs;
using ::testing::HasSubstr;

TEST(RunStateMachine, GoesTheUsualWay) {
  RunStateMachine machine;
  for (v1::RunState state :
       {v1::RUN_STATE_ASSIGNING, v1::RUN_STATE_CONNECTING,
        v1::RUN_STATE_RUNNING, v1::RUN_STATE_PAUSED, v1::RUN_STATE_RUNNING,
        v1::RUN_STATE_RECOVERING, v1::RUN_STATE_ASSIGNING,
        v1::RUN_STATE_CONNECTING, v1::RUN_STATE_RUNNING, v1::RUN_STATE_DRAINING,
        v1::RUN_STATE_RECOVERING, v1::RUN_STATE_ASSIGNING,
        v1::RUN_STATE_CONNECTING, v1::RUN_STATE_RUNNING,
        v1::RUN_STATE_COMPLETED}) {
    EXPECT_FALSE(machine.ended());
    ASSERT_THAT(machine.Transition(state, "because"), IsOk());
    EXPECT_EQ(machine.state(), state);
    EXPECT_EQ(machine.reason(), "because");
  }
  EXPECT_TRUE(machine.ended());
}

TEST(RunStateMachine, RefusesWhatTheDiagramLacks) {
  RunStateMachine machine;
  EXPECT_THAT(machine.Transition(v1::RUN_STATE_RUNNING, "x"),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("PENDING cannot become RUNNING")));
  EXPECT_EQ(machine.state(), v1::RUN_STATE_PENDING);
}

TEST(RunStateMachine, FailsFromEverywhereButAnEnd) {
  RunStateMachine machine;
  ASSERT_THAT(machine.Transition(v1::RUN_STATE_FAILED, "x"), IsOk());
  for (v1::RunState state :
       {v1::RUN_STATE_FAILED, v1::RUN_STATE_ASSIGNING, v1::RUN_STATE_STOPPED}) {
    EXPECT_FALSE(machine.Transition(state, "y").ok());
  }
  EXPECT_EQ(machine.reason(), "x");
}

}  // namespace
}  // namespace gimbal::coordinator
