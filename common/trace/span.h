// What a trace is made of: spans of a stage's time.
#pragma once

#include <cstdint>

namespace gimbal::trace {

enum class SpanKind : uint8_t {
  kForward = 1,     // index: microbatch
  kBackward = 2,    // index: microbatch
  kUpdate = 3,      // index: update; the norm over the stages included
  kRotate = 4,      // within an update: gradients into the bases and back
  kRefresh = 5,     // within an update: new bases
  kSend = 6,        // within the action that made the message
  kRecv = 7,        // within the action that needs it
  kEvaluate = 8,    // index: update
  kCheckpoint = 9,  // index: update
  kIdle = 10,       // before the action of that index
  // Not spans:
  kClock = 32,    // a ClockSample: begin is at_ns, end offset_ns, index
                  // uncertainty_ns
  kLost = 33,     // index: spans that found no room before `begin`
  kClockOf = 34,  // index: the ClockSample::clock of the kClocks that follow
};

// As in a trace file: 32 bytes, little-endian.
struct Span {
  int64_t begin_ns = 0;  // on the process's trace clock
  int64_t end_ns = 0;
  int64_t index = 0;
  int16_t stage = 0;
  SpanKind kind = SpanKind::kForward;
  // Of kSend and kRecv: the message is (edge, message, index, part), as in
  // worker/transport/message.h.
  uint8_t message = 0;
  int16_t edge = 0;
  int16_t part = 0;

  friend bool operator==(const Span&, const Span&) = default;
};
static_assert(sizeof(Span) == 32);

// "forward", "backward", ...; nullptr for what is no span.
constexpr const char* SpanName(SpanKind kind) {
  switch (kind) {
    case SpanKind::kForward:
      return "forward";
    case SpanKind::kBackward:
      return "backward";
    case SpanKind::kUpdate:
      return "update";
    case SpanKind::kRotate:
      return "rotate";
    case SpanKind::kRefresh:
      return "refresh";
    case SpanKind::kSend:
      return "send";
    case SpanKind::kRecv:
      return "recv";
    case SpanKind::kEvaluate:
      return "evaluate";
    case SpanKind::kCheckpoint:
      return "checkpoint";
    case SpanKind::kIdle:
      return "idle";
    default:
      return nullptr;
  }
}

}  // namespace gimbal::trace
