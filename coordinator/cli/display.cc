#include "coordinator/cli/display.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/cli/progress.h"

namespace gimbal::cli {
namespace {

// A line longer than the terminal would wrap and break the redrawing.
size_t TerminalWidth() {
  winsize size = {};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) {
    return 80;
  }
  return size.ws_col;
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
  if (drawn_ > 0) std::printf("\033[%dA\033[J", drawn_);
  drawn_ = 0;
}

void Display::Show(const v1::GetStatusResponse& status, base::SteadyTime now) {
  if (terminal_) {
    const size_t width = TerminalWidth();
    Erase();
    for (const std::string& line : ProgressBlock(status)) {
      std::printf("%s\n", line.substr(0, width).c_str());
      ++drawn_;
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

void Display::Finish() { drawn_ = 0; }

}  // namespace gimbal::cli
