#include "coordinator/cli/trace.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status_macros.h"
#include "common/trace/trace_file.h"
#include "coordinator/cli/exit_code.h"
#include "coordinator/cli/format.h"
#include "coordinator/cli/trace_doubts.h"
#include "coordinator/cli/trace_json.h"
#include "coordinator/cli/trace_merge.h"

namespace gimbal::cli {
namespace {

constexpr const char* kPhases[] = {
    "forward", "backward", "update",   "rotate",     "refresh",
    "send",    "recv",     "evaluate", "checkpoint", "idle"};

absl::StatusOr<std::vector<std::string>> TraceFiles(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() == trace::kTraceSuffix) {
      files.push_back(entry.path().string());
    }
  }
  if (files.empty()) {
    return absl::NotFoundError(absl::StrCat(
        folder,
        ": no trace was recorded; `gimbal trace start` begins one in a "
        "running run, trace.every in its config from the start"));
  }
  std::ranges::sort(files);
  return files;
}

void PrintShares(const MergedTrace& trace) {
  std::vector<std::string> header = {"stage"};
  header.insert(header.end(), std::begin(kPhases), std::end(kPhases));
  TextTable table(header);
  for (auto& [stage, seconds] : SecondsByStage(trace)) {
    double total = 0;
    for (const auto& [phase, spent] : seconds) total += spent;
    std::vector<std::string> row = {absl::StrCat(stage)};
    for (const char* phase : kPhases) {
      const auto spent = seconds.find(phase);
      row.push_back(
          spent == seconds.end() || total == 0
              ? "-"
              : absl::StrFormat("%.1f%%", spent->second / total * 100));
    }
    table.AddRow(std::move(row));
  }
  std::printf("%s", table.ToString().c_str());
}

void Warn(absl::string_view what) {
  std::fprintf(stderr, "gimbal: %s\n", std::string(what).c_str());
}

absl::Status Merge(const TraceMergeOptions& options) {
  const std::string folder = options.run_dir + "/trace";
  const std::string out =
      options.out.empty() ? folder + "/trace.json" : options.out;
  GIMBAL_ASSIGN_OR_RETURN(const std::vector<std::string> files,
                          TraceFiles(folder));
  std::vector<trace::TraceContent> contents;
  for (const std::string& file : files) {
    GIMBAL_ASSIGN_OR_RETURN(trace::TraceContent content,
                            trace::ReadTraceFile(file));
    contents.push_back(std::move(content));
  }
  const MergedTrace trace = MergeTraces(std::move(contents));
  if (const absl::Status written = WriteTraceJson(trace, out); !written.ok()) {
    return absl::Status(written.code(),
                        absl::StrCat(absl::string_view(written.message()),
                                     "; --out FILE writes it elsewhere"));
  }
  PrintShares(trace);
  for (const std::string& doubt : DoubtsOf(trace)) Warn(doubt);
  std::printf("%s: open it in ui.perfetto.dev or chrome://tracing\n",
              out.c_str());
  return absl::OkStatus();
}

}  // namespace

int RunTraceMerge(const TraceMergeOptions& options) {
  const absl::Status status = Merge(options);
  return status.ok() ? kDone : Fail(status);
}

}  // namespace gimbal::cli
