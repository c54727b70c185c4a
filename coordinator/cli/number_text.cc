#include "coordinator/cli/number_text.h"

#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace gimbal::cli {

std::string WholeNumberError(const std::string& text, uint64_t least,
                             uint64_t most) {
  uint64_t value = 0;
  const bool whole = absl::SimpleAtoi(text, &value);
  if (whole && value >= least && value <= most) return "";
  // The upper bound is that of a type and of no interest until it is met.
  return absl::StrCat("found '", text, "', expected a whole number ",
                      whole && value > most
                          ? absl::StrCat("from ", least, " to ", most)
                          : absl::StrCat("of at least ", least));
}

std::string NumberError(const std::string& text, double least, bool above) {
  double value = 0;
  if (absl::SimpleAtod(text, &value) && std::isfinite(value) &&
      (above ? value > least : value >= least)) {
    return "";
  }
  return absl::StrCat("found '", text, "', expected a number ",
                      above ? "above " : "of at least ", least);
}

}  // namespace gimbal::cli
