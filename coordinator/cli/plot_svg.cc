#include "coordinator/cli/plot_svg.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "coordinator/cli/format.h"
#include "coordinator/cli/plot_layout.h"
#include "coordinator/cli/plot_style.h"

namespace gimbal::cli {
namespace {

constexpr double kHeight = 460;
constexpr double kTop = 84, kBottom = kHeight - 52, kLeft = 58;
constexpr double kPlotWidth = 640;
constexpr double kRight = kLeft + kPlotWidth;
constexpr double kLabelGap = 19;
constexpr double kCharWidth = 7.4;  // of a label, on average
constexpr size_t kMaxPoints = 640;  // one per unit of width
constexpr int kColours = 6;

double XOf(const PlotLine& line, size_t i) {
  return line.x.empty() ? static_cast<double>(i + 1) : line.x[i];
}

struct Scale {
  double x_max = 1, y_min = 0, y_max = 1;
  double X(double update) const {
    return kLeft + kPlotWidth * (update - 1) / std::max(1.0, x_max - 1);
  }
  double Y(double loss) const {
    return kBottom - (kBottom - kTop) * (loss - y_min) / (y_max - y_min);
  }
};

// The first tenth of a run would flatten everything after it, so the scale
// leaves it out; the lines are clipped at the top.
Scale ScaleOf(std::span<const PlotLine> lines) {
  Scale scale;
  double low = INFINITY, high = -INFINITY;
  for (const PlotLine& line : lines) {
    scale.x_max = std::max(scale.x_max, XOf(line, line.y.size() - 1));
    const size_t begin = line.x.empty() ? line.y.size() / 10 : 0;
    for (size_t t = begin; t < line.y.size(); ++t) {
      low = std::min(low, line.y[t]);
      high = std::max(high, line.y[t]);
    }
  }
  const double room = std::max(0.06 * (high - low), 1e-3);
  scale.y_min = low - room;
  scale.y_max = high + room;
  return scale;
}

// Round numbers of updates, or the very x that are given.
std::vector<double> TicksOf(const Scale& scale,
                            std::span<const PlotLine> lines) {
  std::set<double> given;
  for (const PlotLine& line : lines) given.insert(line.x.begin(), line.x.end());
  if (!given.empty()) return {given.begin(), given.end()};
  return RoundTicks(1, std::max(2.0, scale.x_max), 6);
}

std::string Grid(const Scale& scale, const std::string& x_title,
                 const std::vector<double>& ticks) {
  std::string svg;
  const std::vector<double> ys = RoundTicks(scale.y_min, scale.y_max, 8);
  const double step = ys.size() > 1 ? ys[1] - ys[0] : 1;
  const int decimals =
      std::max(0, static_cast<int>(std::ceil(-std::log10(step) - 1e-9)));
  for (const double y : ys) {
    absl::StrAppendFormat(
        &svg,
        "<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" "
        "y2=\"%.1f\"/>\n<text class=\"note\" text-anchor=\"end\" x=\"%.1f\" "
        "y=\"%.1f\">%.*f</text>\n",
        kLeft, kRight, scale.Y(y), scale.Y(y), kLeft - 8, scale.Y(y) + 4.5,
        decimals, y);
  }
  absl::StrAppendFormat(&svg,
                        "<line class=\"axis\" x1=\"%.1f\" x2=\"%.1f\" "
                        "y1=\"%.1f\" y2=\"%.1f\"/>\n",
                        kLeft, kRight, kBottom, kBottom);
  for (const double x : ticks) {
    absl::StrAppendFormat(
        &svg,
        "<line class=\"axis\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" "
        "y2=\"%.1f\"/>\n<text class=\"note\" text-anchor=\"middle\" "
        "x=\"%.1f\" y=\"%.1f\">%s</text>\n",
        scale.X(x), scale.X(x), kBottom, kBottom + 5, scale.X(x), kBottom + 21,
        FormatCount(std::llround(x)));
  }
  absl::StrAppendFormat(&svg,
                        "<text class=\"note\" text-anchor=\"middle\" "
                        "x=\"%.1f\" y=\"%.1f\">%s</text>\n",
                        (kLeft + kRight) / 2, kHeight - 12, EscapeXml(x_title));
  return svg;
}

std::string Curve(const Scale& scale, const PlotLine& line, int index) {
  const size_t stride = (line.y.size() + kMaxPoints - 1) / kMaxPoints;
  std::string points;
  const auto add = [&](size_t t) {
    absl::StrAppendFormat(&points, "%s%.1f,%.1f", points.empty() ? "" : " ",
                          scale.X(XOf(line, t)), scale.Y(line.y[t]));
  };
  for (size_t t = 0; t + 1 < line.y.size(); t += stride) add(t);
  add(line.y.size() - 1);
  std::string marks;
  for (size_t t = 0; t < line.x.size(); ++t) {
    absl::StrAppendFormat(
        &marks, "<circle class=\"f%d\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\"/>\n",
        index % kColours, scale.X(line.x[t]), scale.Y(line.y[t]));
  }
  // Beyond the palette the colours come again, dashed.
  const char* dash = index < kColours ? "" : " stroke-dasharray=\"6 4\"";
  return absl::StrFormat(
             "<polyline class=\"line s%d\" clip-path=\"url(#area)\"%s "
             "points=\"%s\"/>\n",
             index % kColours, dash, points) +
         marks;
}

std::string LabelText(const PlotLine& line) {
  return absl::StrFormat("%s  %.3f", line.label, line.y.back());
}

std::string Labels(const Scale& scale, std::span<const PlotLine> lines) {
  std::vector<double> ends;
  for (const PlotLine& line : lines) ends.push_back(scale.Y(line.y.back()));
  const std::vector<double> at =
      SpreadLabels(ends, kLabelGap, kTop + 6, kBottom - 6);
  std::string svg;
  for (size_t i = 0; i < lines.size(); ++i) {
    const int colour = static_cast<int>(i) % kColours;
    absl::StrAppendFormat(
        &svg,
        "<polyline class=\"lead s%d\" points=\"%.1f,%.1f %.1f,%.1f "
        "%.1f,%.1f\"/>\n<text class=\"label f%d\" x=\"%.1f\" "
        "y=\"%.1f\" xml:space=\"preserve\">%s</text>\n",
        colour, scale.X(XOf(lines[i], lines[i].y.size() - 1)), ends[i],
        kRight + 2, ends[i], kRight + 13, at[i], colour, kRight + 17,
        at[i] + 4.5, EscapeXml(LabelText(lines[i])));
  }
  return svg;
}

}  // namespace

std::string LossPlot(const PlotText& text, std::span<const PlotLine> lines) {
  size_t longest = 0;
  for (const PlotLine& line : lines) {
    longest = std::max(longest, LabelText(line).size());
  }
  const double width = kRight + 26 + kCharWidth * static_cast<double>(longest);
  const Scale scale = ScaleOf(lines);
  std::string svg = PlotHeader(text, width, kHeight);
  absl::StrAppendFormat(
      &svg,
      "<clipPath id=\"area\"><rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" "
      "height=\"%.1f\"/></clipPath>\n",
      kLeft, kTop, kPlotWidth + 2, kBottom - kTop);
  svg += Grid(scale, text.x_title, TicksOf(scale, lines));
  for (size_t i = 0; i < lines.size(); ++i) {
    svg += Curve(scale, lines[i], static_cast<int>(i));
  }
  svg += Labels(scale, lines);
  return svg + "</svg>\n";
}

}  // namespace gimbal::cli
