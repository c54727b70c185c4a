// Loss curves as a self-contained SVG: round ticks, each line named at its
// end, colours that stay apart for colour-blind readers, light and dark after
// the reader's setting.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace gimbal::cli {

struct PlotLine {
  std::string label;
  std::vector<double> y;  // y[t] belongs to update t + 1; not empty
};

struct PlotText {
  std::string title;
  std::string subtitle;
};

// Pure: the same lines give the same text. Requires at least one line.
std::string LossPlot(const PlotText& text, std::span<const PlotLine> lines);

}  // namespace gimbal::cli
