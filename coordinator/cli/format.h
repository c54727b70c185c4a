// Numbers and tables as people read them. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace gimbal::cli {

std::string FormatCount(int64_t value);      // "1,234,567"
std::string FormatBytes(int64_t bytes);      // "1.5 MiB"
std::string FormatDuration(double seconds);  // "0.8 s", "1 m 05 s", "2 h 03 m"
std::string FormatPercent(double fraction);  // "97%"

// Columns of a terminal that the text takes, a character each.
size_t ColumnsOf(const std::string& text);
// The text in so many columns, at least one: what is cut off ends with "…".
std::string Fit(const std::string& text, size_t columns);

// The text in lines of so many columns, broken between words; the second and
// further ones begin with `indent`. A word that is longer stays whole.
std::string Wrap(const std::string& text, size_t columns,
                 const std::string& indent = "  ");

// A word of a command that is shown to be pasted into a shell: in quotes when
// the shell would read it otherwise.
std::string ShellWord(const std::string& word);

// A table in plain text: columns two spaces apart, numbers to the right and
// words to the left, a line under the header.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> header);
  // Requires as many cells as the header has.
  void AddRow(std::vector<std::string> cells);
  std::string ToString() const;
  // In so many columns: what has no place beside the others comes in further
  // tables below, each of which begins with the first column.
  std::string ToString(size_t columns) const;

 private:
  TextTable Only(const std::vector<size_t>& columns) const;
  size_t WidthOf(size_t column) const;
  std::vector<std::vector<std::string>> rows_;  // the first is the header
};

}  // namespace gimbal::cli
