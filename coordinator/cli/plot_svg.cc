#include "coordinator/cli/plot_svg.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "coordinator/cli/format.h"
#include "coordinator/cli/plot_layout.h"

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

// Okabe and Ito's palette, for white and for dark paper.
constexpr char kStyle[] = R"(<style>
text{font-family:system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
.paper{fill:#fff}.title{fill:#16191d;font-size:19px;font-weight:600}
.note{fill:#5a6270;font-size:13px}.grid{stroke:#e3e6ea}.axis{stroke:#9aa3ad}
.line{fill:none;stroke-width:2.2;stroke-linejoin:round}
.lead{fill:none;stroke-width:1;opacity:.55}
.label{font-size:13.5px;font-weight:500}
.s0{stroke:#0072b2}.s1{stroke:#d55e00}.s2{stroke:#009e73}
.s3{stroke:#b0558f}.s4{stroke:#c28500}.s5{stroke:#3c9bd0}
.f0{fill:#0072b2}.f1{fill:#d55e00}.f2{fill:#00805d}
.f3{fill:#a34a83}.f4{fill:#9a6a00}.f5{fill:#2a7fb0}
@media (prefers-color-scheme:dark){
.paper{fill:#15181c}.title{fill:#f1f3f5}.note{fill:#a4adb8}
.grid{stroke:#2a3037}.axis{stroke:#6b7580}
.s0{stroke:#4aa8e0}.s1{stroke:#f08a45}.s2{stroke:#33c79b}
.s3{stroke:#dd9cc4}.s4{stroke:#e8b04a}.s5{stroke:#8ccdf2}
.f0{fill:#6bb8e8}.f1{fill:#f39a5e}.f2{fill:#4fd1aa}
.f3{fill:#e3aed0}.f4{fill:#ecbd66}.f5{fill:#a3d8f5}
}
</style>
)";

std::string Escape(const std::string& text) {
  return absl::StrReplaceAll(
      text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
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
    scale.x_max = std::max(scale.x_max, static_cast<double>(line.y.size()));
    for (size_t t = line.y.size() / 10; t < line.y.size(); ++t) {
      low = std::min(low, line.y[t]);
      high = std::max(high, line.y[t]);
    }
  }
  const double room = std::max(0.06 * (high - low), 1e-3);
  scale.y_min = low - room;
  scale.y_max = high + room;
  return scale;
}

std::string Grid(const Scale& scale) {
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
  for (const double x : RoundTicks(1, std::max(2.0, scale.x_max), 6)) {
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
                        "x=\"%.1f\" y=\"%.1f\">update</text>\n",
                        (kLeft + kRight) / 2, kHeight - 12);
  return svg;
}

std::string Curve(const Scale& scale, const PlotLine& line, int index) {
  const size_t stride = (line.y.size() + kMaxPoints - 1) / kMaxPoints;
  std::string points;
  const auto add = [&](size_t t) {
    absl::StrAppendFormat(&points, "%s%.1f,%.1f", points.empty() ? "" : " ",
                          scale.X(static_cast<double>(t + 1)),
                          scale.Y(line.y[t]));
  };
  for (size_t t = 0; t + 1 < line.y.size(); t += stride) add(t);
  add(line.y.size() - 1);
  // Beyond the palette the colours come again, dashed.
  const char* dash = index < kColours ? "" : " stroke-dasharray=\"6 4\"";
  return absl::StrFormat(
      "<polyline class=\"line s%d\" clip-path=\"url(#area)\"%s "
      "points=\"%s\"/>\n",
      index % kColours, dash, points);
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
        colour, scale.X(static_cast<double>(lines[i].y.size())), ends[i],
        kRight + 2, ends[i], kRight + 13, at[i], colour, kRight + 17,
        at[i] + 4.5, Escape(LabelText(lines[i])));
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
  std::string svg = absl::StrFormat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" "
      "width=\"%.0f\" height=\"%.0f\" role=\"img\" aria-label=\"%s\">\n",
      width, kHeight, width, kHeight, Escape(text.title));
  svg += kStyle;
  absl::StrAppendFormat(
      &svg,
      "<clipPath id=\"area\"><rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" "
      "height=\"%.1f\"/></clipPath>\n"
      "<rect class=\"paper\" width=\"100%%\" height=\"100%%\"/>\n"
      "<text class=\"title\" x=\"20\" y=\"36\">%s</text>\n"
      "<text class=\"note\" x=\"20\" y=\"59\">%s</text>\n",
      kLeft, kTop, kPlotWidth + 2, kBottom - kTop, Escape(text.title),
      Escape(text.subtitle));
  svg += Grid(scale);
  for (size_t i = 0; i < lines.size(); ++i) {
    svg += Curve(scale, lines[i], static_cast<int>(i));
  }
  svg += Labels(scale, lines);
  return svg + "</svg>\n";
}

}  // namespace gimbal::cli
