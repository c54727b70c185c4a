// Horizontal bars as a self-contained SVG, in the style of plot_svg.h. Pure.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "coordinator/cli/plot_svg.h"

namespace gimbal::cli {

struct PlotBar {
  std::string label;
  std::optional<double> value;  // nothing: "not reached"
};

std::string BarPlot(const PlotText& text, std::span<const PlotBar> bars);

}  // namespace gimbal::cli
