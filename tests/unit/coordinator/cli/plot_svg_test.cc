#include "coordinator/cli/plot_svg.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace gimbal::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

PlotLine Line(const std::string& label, int steps, double last) {
  PlotLine line{label, {}};
  for (int t = 0; t < steps; ++t) {
    line.y.push_back(last + 3 * std::exp(-t / (0.2 * steps)));
  }
  return line;
}

TEST(LossPlotTest, NamesEveryLineAtItsEnd) {
  const PlotLine lines[] = {Line("sync", 600, 2), Line("async", 600, 2.3)};
  const std::string svg = LossPlot({"Loss", "per update"}, lines);
  EXPECT_THAT(svg, HasSubstr(">sync  2.020</text>"));
  EXPECT_THAT(svg, HasSubstr(">async  2.320</text>"));
  EXPECT_THAT(svg, HasSubstr("prefers-color-scheme:dark"));
  EXPECT_THAT(svg, HasSubstr(">600</text>"));
}

TEST(LossPlotTest, EscapesLabels) {
  const PlotLine lines[] = {Line("a<b>&\"c\"", 10, 2)};
  const std::string svg = LossPlot({"<t>", ""}, lines);
  EXPECT_THAT(svg, HasSubstr("a&lt;b&gt;&amp;&quot;c&quot;"));
  EXPECT_THAT(svg, Not(HasSubstr("<t>")));
}

TEST(LossPlotTest, OneUpdateIsStillAPlot) {
  const PlotLine lines[] = {{"one", {2.0}}};
  EXPECT_THAT(LossPlot({"t", ""}, lines), Not(HasSubstr("nan")));
}

TEST(LossPlot, GivenPointsAreMarkedAndNamedOnTheAxis) {
  const std::vector<PlotLine> lines = {
      {.label = "a", .y = {1, 1.5, 3}, .x = {1, 4, 16}}};
  const std::string svg =
      LossPlot({.title = "t", .x_title = "stages P"}, lines);
  EXPECT_THAT(svg, HasSubstr(">stages P</text>"));
  EXPECT_THAT(svg, HasSubstr(">16</text>"));
  EXPECT_THAT(svg, HasSubstr("<circle"));
}

}  // namespace
}  // namespace gimbal::cli
