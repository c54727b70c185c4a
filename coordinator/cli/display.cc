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

size_t Display::Columns() { return SizeOfTerminal().columns; }

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

// A line or a block that is too long could not be drawn over; the cursor stands
// on the line below.
void Display::Draw(const Followed& seen) {
  TextSize size = SizeOfTerminal();
  --size.lines;
  std::vector<std::string> lines;
  if (!seen.silence.empty() && size.lines > 0) {
    lines.push_back(Fit(seen.silence, size.columns));
    --size.lines;
  }
  if (seen.status) {
    for (std::string& line : ProgressBlock(*seen.status, size)) {
      lines.push_back(std::move(line));
    }
  }
  Erase();
  for (const std::string& line : lines) {
    std::printf("%s\n", line.c_str());
    drawn_.push_back(ColumnsOf(line));
  }
  std::fflush(stdout);
}

void Display::Show(const Followed& seen, base::SteadyTime now) {
  if (terminal_) return Draw(seen);
  if (!seen.note.empty()) Note(seen.note);
  if (seen.answered) Log(*seen.status, now);
}

void Display::Log(const v1::GetStatusResponse& status, base::SteadyTime now) {
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
