#include "coordinator/cli/display.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/cli/progress.h"

namespace gimbal::cli {
namespace {

struct TerminalSize {
  size_t columns = 80;
  size_t lines = 24;
};

TerminalSize SizeOfTerminal() {
  winsize size = {};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 ||
      size.ws_row == 0) {
    return {};
  }
  return {size.ws_col, size.ws_row};
}

// Bytes of the text's first columns; a character is never cut apart.
size_t BytesOf(const std::string& text, size_t columns) {
  size_t bytes = 0;
  for (; bytes < text.size(); ++bytes) {
    const bool begins = (text[bytes] & 0xC0) != 0x80;
    if (begins && columns-- == 0) break;
  }
  return bytes;
}

size_t ColumnsOf(const std::string& text) {
  return static_cast<size_t>(
      std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
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
    const TerminalSize size = SizeOfTerminal();
    Erase();
    for (const std::string& line : ProgressBlock(status)) {
      // A line or a block that is too long could not be drawn over.
      if (drawn_.size() + 1 >= size.lines) break;
      const std::string fits = line.substr(0, BytesOf(line, size.columns));
      std::printf("%s\n", fits.c_str());
      drawn_.push_back(ColumnsOf(fits));
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
