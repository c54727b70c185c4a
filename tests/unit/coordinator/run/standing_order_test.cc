#include "coordinator/run/standing_order.h"

#include <gtest/gtest.h>

namespace gimbal::coordinator {
namespace {

using Request = v1::CommandRequest;

TEST(StandingOrder, IsReadBackFromItsText) {
  for (const auto verb :
       {Request::VERB_PAUSE, Request::VERB_DRAIN, Request::VERB_STOP}) {
    const StandingOrder order{.verb = verb, .update = 417};
    EXPECT_EQ(ParseStandingOrder(ToText(order)), order) << ToText(order);
    EXPECT_EQ(order.ends_the_run(), verb != Request::VERB_PAUSE);
  }
  EXPECT_EQ(ToText({.verb = Request::VERB_PAUSE, .update = 12}),
            "pause after update 12");
}

TEST(StandingOrder, OtherTextsAreNone) {
  EXPECT_EQ(ToText({}), "none");
  for (const char* text : {"", "none", "pause", "pause after update ",
                           "pause after update x", "stop after update 1 2"}) {
    EXPECT_EQ(ParseStandingOrder(text), StandingOrder()) << text;
  }
}

}  // namespace
}  // namespace gimbal::coordinator
