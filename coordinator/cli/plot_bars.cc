#include "coordinator/cli/plot_bars.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "coordinator/cli/format.h"
#include "coordinator/cli/plot_style.h"

namespace gimbal::cli {
namespace {

constexpr double kRow = 26, kBar = 15, kTop = 84, kWidth = 520;
constexpr double kCharWidth = 7.4;

}  // namespace

std::string BarPlot(const PlotText& text, std::span<const PlotBar> bars) {
  size_t longest = 0;
  double largest = 0;
  for (const PlotBar& bar : bars) {
    longest = std::max(longest, bar.label.size());
    largest = std::max(largest, bar.value.value_or(0));
  }
  const double left = 24 + kCharWidth * static_cast<double>(longest);
  const double width = left + kWidth + 90;
  const double height = kTop + kRow * static_cast<double>(bars.size()) + 16;
  std::string svg = PlotHeader(text, width, height);
  double y = kTop;
  for (const PlotBar& bar : bars) {
    const double length =
        largest > 0 ? kWidth * bar.value.value_or(0) / largest : 0;
    absl::StrAppendFormat(
        &svg,
        "<text class=\"label title-fill\" text-anchor=\"end\" x=\"%.1f\" "
        "y=\"%.1f\">%s</text>\n",
        left - 8, y + kBar - 2, EscapeXml(bar.label));
    if (bar.value) {
      absl::StrAppendFormat(
          &svg,
          "<rect class=\"f0\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" "
          "height=\"%.1f\" rx=\"2\"/>\n",
          left, y, length, kBar);
    }
    absl::StrAppendFormat(
        &svg, "<text class=\"note\" x=\"%.1f\" y=\"%.1f\">%s</text>\n",
        left + length + 6, y + kBar - 2,
        bar.value ? FormatCount(std::llround(*bar.value)) : "not reached");
    y += kRow;
  }
  return svg + "</svg>\n";
}

}  // namespace gimbal::cli
