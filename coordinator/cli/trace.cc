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

// Traces alone are enough, as copied from elsewhere.
absl::Status CheckRunDir(const std::string& run_dir,
                         const std::string& folder) {
  std::error_code ignored;
  if (std::filesystem::exists(folder, ignored) ||
      std::filesystem::exists(run_dir + "/config.yaml", ignored)) {
    return absl::OkStatus();
  }
  return absl::NotFoundError(
      absl::StrCat(run_dir,
                   ": not a run folder (no config.yaml); give the folder that "
                   "`gimbal train` made"));
}

absl::StatusOr<std::vector<std::string>> TraceFiles(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  std::filesystem::directory_iterator entry(folder, error);
  const std::filesystem::directory_iterator end;
  for (; !error && entry != end; entry.increment(error)) {
    if (entry->path().extension() == trace::kTraceSuffix) {
      files.push_back(entry->path().string());
    }
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    return absl::ErrnoToStatus(error.value(),
                               absl::StrCat("cannot read ", folder));
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

// A file that cannot be read is left out, with a warning: after a crash there
// may well be one. What a worker that was killed cut off is not worth a word.
absl::StatusOr<std::vector<trace::TraceContent>> ReadAll(
    const std::string& folder) {
  GIMBAL_ASSIGN_OR_RETURN(const std::vector<std::string> files,
                          TraceFiles(folder));
  std::vector<trace::TraceContent> contents;
  size_t spans = 0;
  for (const std::string& file : files) {
    absl::StatusOr<trace::TraceContent> content = trace::ReadTraceFile(file);
    if (!content.ok()) {
      Warn(absl::StrCat(absl::string_view(content.status().message()),
                        "; left out"));
      continue;
    }
    if (!content->damage.empty()) {
      Warn(absl::StrCat(file, ": ", content->damage, "; the ",
                        content->spans.size(),
                        " records ahead of that are merged"));
    }
    spans += content->spans.size();
    contents.push_back(*std::move(content));
  }
  if (contents.empty()) {
    return absl::DataLossError(
        absl::StrCat(folder, ": none of its ", files.size(),
                     " trace files can be read, so there is nothing to merge"));
  }
  if (spans == 0) {
    return absl::NotFoundError(
        absl::StrCat(folder,
                     ": nothing is recorded yet; spans are written ten times a "
                     "second while the run goes on"));
  }
  return contents;
}

absl::Status CheckFile(const std::string& out) {
  std::error_code ignored;
  const std::filesystem::path path(out);
  if (path.has_filename() && !std::filesystem::is_directory(path, ignored)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--out ", out, ": is a folder; give the name of a file"));
}

absl::Status Merge(const TraceMergeOptions& options) {
  const std::string folder = std::filesystem::path(options.run_dir) / "trace";
  const std::string out =
      options.out.empty() ? folder + "/trace.json" : options.out;
  GIMBAL_RETURN_IF_ERROR(CheckRunDir(options.run_dir, folder));
  GIMBAL_RETURN_IF_ERROR(CheckFile(out));
  GIMBAL_ASSIGN_OR_RETURN(std::vector<trace::TraceContent> contents,
                          ReadAll(folder));
  const MergedTrace trace = MergeTraces(std::move(contents));
  if (const absl::Status written = WriteTraceJson(trace, out); !written.ok()) {
    return absl::Status(
        written.code(),
        absl::StrCat(
            absl::string_view(written.message()),
            options.out.empty() ? "; --out FILE writes it elsewhere" : ""));
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
