#include "coordinator/cli/format.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/base/log.h"

namespace gimbal::cli {

std::string FormatCount(int64_t value) {
  const std::string digits = std::to_string(value);
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    const bool group = (digits.size() - i) % 3 == 0;
    if (group && i > 0 && digits[i - 1] != '-') text += ',';
    text += digits[i];
  }
  return text;
}

std::string FormatBytes(int64_t bytes) {
  if (bytes < 1024) return absl::StrFormat("%d B", bytes);
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = static_cast<double>(bytes) / 1024;
  int unit = 0;
  while (value >= 1024 && unit < 4) {
    value /= 1024;
    ++unit;
  }
  return absl::StrFormat("%.1f %s", value, kUnits[unit]);
}

std::string FormatDuration(double seconds) {
  if (seconds < 59.95) return absl::StrFormat("%.1f s", seconds);
  const int64_t whole = std::llround(seconds);
  if (whole < 3600) {
    return absl::StrFormat("%d m %02d s", whole / 60, whole % 60);
  }
  return absl::StrFormat("%d h %02d m", whole / 3600, whole % 3600 / 60);
}

std::string FormatPercent(double fraction) {
  return absl::StrFormat("%.0f%%", 100 * fraction);
}

std::string ShellWord(const std::string& word) {
  constexpr absl::string_view kPlain = "_-./:=@%+,";
  const bool plain = std::all_of(word.begin(), word.end(), [&](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
           kPlain.find(c) != absl::string_view::npos;
  });
  if (plain && !word.empty()) return word;
  return absl::StrCat("'", absl::StrReplaceAll(word, {{"'", "'\\''"}}), "'");
}

size_t ColumnsOf(const std::string& text) {
  return static_cast<size_t>(
      std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string Fit(const std::string& text, size_t columns) {
  if (ColumnsOf(text) <= columns) return text;
  size_t bytes = 0;
  for (size_t left = columns - 1; bytes < text.size(); ++bytes) {
    const bool begins = (text[bytes] & 0xC0) != 0x80;
    if (begins && left-- == 0) break;
  }
  return text.substr(0, bytes) + "…";
}

std::string Wrap(const std::string& text, size_t columns,
                 const std::string& indent) {
  std::string wrapped, line;
  bool empty = true;  // but for the indent
  const std::vector<std::string> words = absl::StrSplit(text, ' ');
  for (const std::string& word : words) {
    if (!empty && ColumnsOf(line) + 1 + ColumnsOf(word) > columns) {
      absl::StrAppend(&wrapped, absl::StripTrailingAsciiWhitespace(line), "\n");
      line = indent;
      empty = true;
    }
    absl::StrAppend(&line, empty ? "" : " ", word);
    empty = false;
  }
  return absl::StrCat(wrapped, line);
}

TextTable::TextTable(std::vector<std::string> header) {
  rows_.push_back(std::move(header));
}

void TextTable::AddRow(std::vector<std::string> cells) {
  GIMBAL_CHECK(cells.size() == rows_.front().size());
  rows_.push_back(std::move(cells));
}

namespace {

bool IsNumeric(const std::string& cell) {
  return cell == "-" || std::isdigit(static_cast<unsigned char>(cell[0])) ||
         (cell[0] == '-' && cell.size() > 1);
}

std::string Pad(const std::string& cell, size_t width, bool right) {
  const std::string fill(width - cell.size(), ' ');
  return right ? fill + cell : cell + fill;
}

}  // namespace

TextTable TextTable::Only(const std::vector<size_t>& columns) const {
  const auto cells = [&](const std::vector<std::string>& row) {
    std::vector<std::string> some;
    for (const size_t column : columns) some.push_back(row[column]);
    return some;
  };
  TextTable table(cells(rows_.front()));
  for (size_t r = 1; r < rows_.size(); ++r) table.AddRow(cells(rows_[r]));
  return table;
}

size_t TextTable::WidthOf(size_t column) const {
  size_t width = 0;
  for (const auto& row : rows_) width = std::max(width, row[column].size());
  return width;
}

std::string TextTable::ToString(size_t columns) const {
  std::string text;
  std::vector<size_t> shown = {0};
  size_t width = WidthOf(0);
  for (size_t column = 1; column < rows_.front().size(); ++column) {
    const size_t more = 2 + WidthOf(column);
    if (shown.size() > 1 && width + more > columns) {
      absl::StrAppend(&text, Only(shown).ToString(), "\n");
      shown = {0};
      width = WidthOf(0);
    }
    shown.push_back(column);
    width += more;
  }
  return text + Only(shown).ToString();
}

std::string TextTable::ToString() const {
  const size_t columns = rows_.front().size();
  std::vector<size_t> width(columns, 0);
  std::vector<bool> right(columns, rows_.size() > 1);
  for (size_t r = 0; r < rows_.size(); ++r) {
    for (size_t c = 0; c < columns; ++c) {
      const std::string& cell = rows_[r][c];
      width[c] = std::max(width[c], cell.size());
      if (r > 0 && !cell.empty() && !IsNumeric(cell)) right[c] = false;
    }
  }
  std::string text;
  for (size_t r = 0; r < rows_.size(); ++r) {
    std::string line;
    for (size_t c = 0; c < columns; ++c) {
      if (c > 0) line += "  ";
      line += Pad(rows_[r][c], width[c], right[c]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
    if (r == 0) {
      for (size_t c = 0; c < columns; ++c) {
        text += (c > 0 ? "  " : "") + std::string(width[c], '-');
      }
      text += "\n";
    }
  }
  return text;
}

}  // namespace gimbal::cli
