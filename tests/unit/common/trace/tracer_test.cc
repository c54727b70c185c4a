#include "common/trace/tracer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <thread>

#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace gimbal::trace {
namespace {

using test_support::StatusIs;
using test_support::TempDir;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

const TraceHeader kHeader = {
    .run = "r", .worker = "w/1 \"a\"", .pid = 7, .clock = 99};

TraceSetting Every(int64_t every, const TempDir& dir) {
  return {.every = every, .folder = dir / "trace", .max_bytes = 1 << 20};
}

bool Eventually(const std::function<bool()>& condition) {
  for (int i = 0; i < 3000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

std::vector<std::string> Files(const TempDir& dir) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(dir / "trace")) {
    files.push_back(entry.path());
  }
  return files;
}

void Record(Recorder& recorder, int64_t update) {
  const base::SteadyTime now = base::Clock::Real().Now();
  if (recorder.Wants(update)) {
    recorder.Add(SpanKind::kUpdate, now, now + std::chrono::nanoseconds(5),
                 update);
  }
}

TEST(Tracer, WritesWhatWasRecordedWhileItWasOn) {
  const TempDir dir;
  {
    Tracer tracer;
    const auto recorder = tracer.NewRecorder(3);
    Record(*recorder, 1);  // off
    tracer.Set(Every(2, dir), kHeader);
    for (int64_t update = 2; update < 6; ++update) Record(*recorder, update);
    tracer.AddClockSample(
        {.at_ns = 1, .offset_ns = -2, .uncertainty_ns = 3, .clock = 44});
  }
  ASSERT_THAT(Files(dir), SizeIs(1));
  ASSERT_OK_AND_ASSIGN(const TraceContent content,
                       ReadTraceFile(Files(dir)[0]));
  EXPECT_EQ(content.header.worker, kHeader.worker);
  EXPECT_EQ(content.header.pid, 7);
  EXPECT_EQ(content.header.clock, 99);
  std::vector<int64_t> updates;
  int samples = 0;
  int64_t clock = 0;
  for (const Span& span : content.spans) {
    if (span.kind == SpanKind::kClockOf) {
      clock = span.index;
      continue;
    }
    if (span.kind == SpanKind::kClock) {
      ++samples;
      EXPECT_EQ(clock, 44) << "whose clock stands ahead of what is known of it";
      EXPECT_EQ(span.end_ns, -2);
      continue;
    }
    updates.push_back(span.index);
    EXPECT_EQ(span.stage, 3);
    EXPECT_EQ(span.end_ns - span.begin_ns, 5);
  }
  EXPECT_THAT(updates, ElementsAre(2, 4));
  EXPECT_EQ(samples, 1);
}

TEST(Tracer, EveryStartMakesAFileAndTheSameSettingDoesNot) {
  const TempDir dir;
  Tracer tracer;
  tracer.Set(Every(1, dir), kHeader);
  ASSERT_TRUE(Eventually([&] {
    return std::filesystem::exists(dir / "trace") && Files(dir).size() == 1;
  }));
  tracer.Set(Every(1, dir), kHeader);
  tracer.Set({.every = 0, .folder = dir / "trace"}, kHeader);
  EXPECT_FALSE(tracer.on());
  tracer.Set(Every(1, dir), kHeader);
  EXPECT_TRUE(Eventually([&] { return Files(dir).size() == 2; }));
}

TEST(Tracer, AFolderThatCannotBeWrittenEndsTheTraceAndNothingElse) {
  const TempDir dir;
  std::ofstream(dir / "trace") << "a file where the folder should be";
  Tracer tracer;
  const auto recorder = tracer.NewRecorder(0);
  tracer.Set(Every(1, dir), kHeader);
  EXPECT_TRUE(Eventually([&] { return !tracer.on(); }));
  EXPECT_FALSE(recorder->Wants(1));
  EXPECT_FALSE(tracer.NewRecorder(1)->Wants(1));
}

TEST(Tracer, StopsAtItsLimit) {
  const TempDir dir;
  Tracer tracer;
  const auto recorder = tracer.NewRecorder(0);
  tracer.Set({.every = 1, .folder = dir / "trace", .max_bytes = 4096}, kHeader);
  int64_t update = 0;
  EXPECT_TRUE(Eventually([&] {
    for (int i = 0; i < 200; ++i) Record(*recorder, ++update);
    return !tracer.on();
  }));
}

// A trace that was stopped and started within a millisecond once ended there.
TEST(TraceFile, AsManyAsAreMadeAtOnceHaveNamesOfTheirOwn) {
  const TempDir dir;
  for (int i = 0; i < 50; ++i) {
    ASSERT_THAT(TraceFile::Create(dir / "trace", kHeader).status(),
                test_support::IsOk());
  }
  EXPECT_EQ(Files(dir).size(), 50u);
}

TEST(TraceFile, SaysWhatIsWrongWithAFile) {
  const TempDir dir;
  std::ofstream(dir / "a.trace") << "{\"format\":\"other\"}\n";
  EXPECT_THAT(
      ReadTraceFile(dir / "a.trace"),
      StatusIs(absl::StatusCode::kDataLoss, HasSubstr("a.trace: it does not")));
  std::ofstream(dir / "b.trace")
      << "{\"format\":\"gimbal-trace\",\"version\":9}\n";
  EXPECT_THAT(ReadTraceFile(dir / "b.trace"),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("version 9")));
}

// What was no number where one is expected once ended the whole program.
TEST(TraceFile, ADamagedFirstLineIsNoMoreThanThat) {
  const TempDir dir;
  for (const char* line :
       {R"({"format":"gimbal-trace","version":"1"})",
        R"({"format":"gimbal-trace","version":1,"worker":7})",
        R"({"format":["gimbal-trace"]})", "[]", ""}) {
    std::ofstream(dir / "a.trace") << line << "\n";
    EXPECT_THAT(ReadTraceFile(dir / "a.trace"),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr("a.trace: it")))
        << line;
  }
  std::ofstream(dir / "b.trace").flush();
  EXPECT_THAT(ReadTraceFile(dir / "b.trace"),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("is empty")));
}

// Such a span has no name.
TEST(TraceFile, EndsBeforeTheFirstSpanThatCannotBeOne) {
  const TempDir dir;
  const Span whole = {.begin_ns = 5, .end_ns = 7, .index = 1};
  Span unknown = whole, backward = whole, stageless = whole, late = whole;
  unknown.kind = static_cast<SpanKind>(77);
  backward.end_ns = 4;
  stageless.stage = -1;
  late.end_ns = std::numeric_limits<int64_t>::max();
  const Span unsure = {.index = -1, .kind = SpanKind::kClock};
  for (const Span& wrong : {unknown, backward, stageless, late, unsure}) {
    ASSERT_OK_AND_ASSIGN(auto file, TraceFile::Create(dir / "trace", kHeader));
    const Span spans[] = {whole, whole, wrong, whole};
    ASSERT_THAT(file->Append(spans), test_support::IsOk());
    ASSERT_OK_AND_ASSIGN(const TraceContent content,
                         ReadTraceFile(file->path()));
    EXPECT_THAT(content.spans, ElementsAre(whole, whole));
    EXPECT_THAT(content.damage, HasSubstr("damaged from byte"));
    std::filesystem::remove(file->path());
  }
}

TEST(TraceFile, ASpanThatWasCutOffIsLeftOut) {
  const TempDir dir;
  std::string path;
  {
    ASSERT_OK_AND_ASSIGN(auto file, TraceFile::Create(dir / "trace", kHeader));
    const Span spans[] = {{.index = 1}, {.index = 2}};
    ASSERT_THAT(file->Append(spans), test_support::IsOk());
    path = file->path();
  }
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  ASSERT_OK_AND_ASSIGN(const TraceContent content, ReadTraceFile(path));
  ASSERT_THAT(content.spans, SizeIs(1));
  EXPECT_EQ(content.spans[0].index, 1);
  EXPECT_EQ(content.damage, "");
}

}  // namespace
}  // namespace gimbal::trace
