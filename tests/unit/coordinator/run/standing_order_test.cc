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

TEST(TraceInForce, IsReadBackFromItsText) {
  for (const int64_t every : {0, 1, 2, 417}) {
    const std::string text = TraceText(every);
    EXPECT_EQ(ParseTrace(text), every) << text;
    EXPECT_EQ(ParseTrace(text + "; asked for by a client"), every) << text;
  }
  for (const char* text : {"", "none", "one of ", "one of x updates is traced",
                           "one of 1 updates is traced", "one of 4"}) {
    EXPECT_EQ(ParseTrace(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace gimbal::coordinator
