// Curves as a self-contained SVG: round ticks, each line named at its
// end, colours that stay apart for colour-blind readers, light and dark after
// the reader's setting.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace gimbal::cli {

struct PlotLine {
  std::string label;
  std::vector<double> y;  // not empty
  // Of each y, drawn with a mark, from 1 on; empty: y[t] is that of update
  // t + 1.
  std::vector<double> x;
};

struct PlotText {
  std::string title;
  std::string subtitle;
  std::string x_title = "update";
};

// Pure: the same lines give the same text. Requires at least one line.
std::string LossPlot(const PlotText& text, std::span<const PlotLine> lines);

}  // namespace gimbal::cli
