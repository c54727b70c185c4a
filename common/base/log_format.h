// Log lines for programs: JSON instead of text, one object per line, and what a
// process is about in every line.
//
//   2026-11-30 07:11:04.440 I worker-1 [stages 2, generation 3]: TEXT
//   {"time":"2026-11-30T07:11:04.440Z","level":"info","program":"worker-1",
//    "run":"demo-1a2b","stages":[2],"generation":3,"text":TEXT}     in one line
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gimbal::base {

// "text" or "json", of every later line of this process.
void SetLogFormat(std::string_view format);

// What every later line of this process is about; what is not known is left
// out.
struct LogContext {
  std::string run;          // id
  std::vector<int> stages;  // hosted here
  int64_t generation = 0;   // 0: none yet
};
void SetLogContext(LogContext context);

}  // namespace gimbal::base
