#include "coordinator/cli/display.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/cli/format.h"
#include "coordinator/cli/progress.h"

namespace gimbal::cli {
namespace {

TextSize SizeOfTerminal() {
  winsize size = {};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 ||
      size.ws_row == 0) {
    return {};
  }
  return {size.ws_col, size.ws_row};
}

}  // namespace

Display::Display(bool terminal, double log_every)
    : terminal_(terminal), log_every_(log_every) {}

bool Display::OnTerminal() {
  const char* term = std::getenv("TERM");
  return isatty(STDOUT_FILENO) != 0 && term != nullptr &&
         std::string_view(term) != "dumb";
}

void Display::Erase() {
  // A terminal that has become narrower since has wrapped them.
  const size_t width = SizeOfTerminal().columns;
  size_t lines = 0;
  for (const size_t columns : drawn_) {
    lines += std::max<size_t>(1, (columns + width - 1) / width);
  }
  if (lines > 0) std::printf("\033[%zuA\033[J", lines);
  drawn_.clear();
}

void Display::Show(const v1::GetStatusResponse& status, base::SteadyTime now) {
  if (terminal_) {
    const TextSize size = SizeOfTerminal();
    Erase();
    // A line or a block that is too long could not be drawn over; the cursor
    // stands on the line below.
    for (const std::string& line :
         ProgressBlock(status, {size.columns, size.lines - 1})) {
      std::printf("%s\n", line.c_str());
      drawn_.push_back(ColumnsOf(line));
    }
    std::fflush(stdout);
    return;
  }
  if (last_state_ != status.state()) {
    Note(absl::StrCat(StateName(status.state()),
                      status.reason().empty() ? "" : ": ", status.reason()));
    last_state_ = status.state();
  }
  if (status.update() == 0) return;
  if (last_line_ && now - *last_line_ < log_every_) return;
  last_line_ = now;
  Note(ProgressLine(status));
}

void Display::Note(const std::string& text) {
  Erase();
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);
}

void Display::Finish() { drawn_.clear(); }

}  // namespace gimbal::cli
