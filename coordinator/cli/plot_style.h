// What every figure begins with: size, style for white and for dark paper,
// title. Internal to the plots.
#pragma once

#include <string>

#include "coordinator/cli/plot_svg.h"

namespace gimbal::cli {

std::string EscapeXml(const std::string& text);

// Opens the SVG; the caller closes it.
std::string PlotHeader(const PlotText& text, double width, double height);

}  // namespace gimbal::cli
