// Numbers of the command line, checked before they are converted, so that the
// error says what was found and what was expected. Pure functions.
#pragma once

#include <cstdint>
#include <string>

namespace gimbal::cli {

// Empty when the text is a whole number within the bounds; otherwise "found
// 'abc', expected a whole number of at least 1".
std::string WholeNumberError(const std::string& text, uint64_t least,
                             uint64_t most);

// Empty when the text is a finite number that is at least (`above`: more than)
// `least`.
std::string NumberError(const std::string& text, double least, bool above);

}  // namespace gimbal::cli
