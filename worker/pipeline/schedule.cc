#include "worker/pipeline/schedule.h"

#include <algorithm>
#include <limits>

namespace gimbal::worker {
namespace {

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Without a flush after every update.
bool Asynchronous(const ScheduleSpec& spec) {
  return spec.kind == ScheduleKind::kAsync1F1B ||
         spec.kind == ScheduleKind::k2BW;
}

// The pipeline is empty between two segments; `sync_every` and `origin` cut the
// run into them.
struct Segment {
  int64_t first = 1;  // update
  int64_t last = 0;
};

Segment SegmentOf(const ScheduleSpec& spec, int64_t update) {
  Segment segment{1, std::numeric_limits<int64_t>::max()};
  if (const int64_t k = spec.sync_every; k > 0) {
    segment.first = (update - 1) / k * k + 1;
    segment.last = segment.first + k - 1;
  }
  if (update > spec.origin) {
    segment.first = std::max(segment.first, spec.origin + 1);
  } else {
    segment.last = std::min(segment.last, spec.origin);
  }
  return segment;
}

// Appends forwards and backwards of one update's microbatches [first, first+a)
// for a synchronous schedule: `warmup` forwards, pairs, then the remaining
// backwards. Backwards go in the order of the forwards, so that gradients are
// added up in the same order in every schedule.
void AppendFlushed(int64_t first, int a, int warmup, int64_t version,
                   std::vector<Action>* actions) {
  const int64_t end = first + a;
  int64_t forward = first;
  for (; forward < first + warmup; ++forward) {
    actions->push_back({ActionKind::kForward, forward, version});
  }
  for (int64_t backward = first; backward < end; ++backward) {
    if (forward < end) {
      actions->push_back({ActionKind::kForward, forward++, version});
    }
    actions->push_back({ActionKind::kBackward, backward, version});
  }
}

}  // namespace

std::string ToString(const Action& action) {
  const std::string index = std::to_string(action.index);
  switch (action.kind) {
    case ActionKind::kForward:
      return "F" + index + "@" + std::to_string(action.version);
    case ActionKind::kBackward:
      return "B" + index + "@" + std::to_string(action.version);
    case ActionKind::kNorm:
      return "N" + index;
    case ActionKind::kUpdate:
      return "U" + index;
    case ActionKind::kEvaluate:
      return "E" + index;
    case ActionKind::kSnapshot:
      return "S" + index;
    case ActionKind::kKeep:
      return "K" + index;
  }
  return "?";
}

int WarmupForwards(const ScheduleSpec& spec, int stage) {
  const int distance = spec.stages - 1 - stage;
  switch (spec.kind) {
    case ScheduleKind::kAsync1F1B:
      return distance;
    case ScheduleKind::k1F1B:
    case ScheduleKind::k2BW:
      return std::min(spec.accumulate, distance);
    case ScheduleKind::kGPipe:
      return spec.accumulate;
  }
  return 0;
}

int64_t ForwardVersion(const ScheduleSpec& spec, int stage,
                       int64_t microbatch) {
  const int64_t group = microbatch / spec.accumulate;
  if (!Asynchronous(spec)) return group;
  const int64_t start = SegmentOf(spec, group + 1).first - 1;
  if (spec.kind == ScheduleKind::k2BW) return std::max(start, group - 1);
  const int64_t behind = WarmupForwards(spec, stage);
  return std::max(start,
                  std::max<int64_t>(0, microbatch - behind) / spec.accumulate);
}

int64_t Delay(const ScheduleSpec& spec, int stage) {
  if (spec.kind == ScheduleKind::k2BW) return 1;
  return Asynchronous(spec)
             ? CeilDiv(WarmupForwards(spec, stage), spec.accumulate)
             : 0;
}

int64_t ExpectedStaleness(const ScheduleSpec& spec, int stage, int64_t update) {
  return std::min(Delay(spec, stage), update - SegmentOf(spec, update).first);
}

int64_t OldestVersionNeeded(const ScheduleSpec& spec, int stage,
                            int64_t update) {
  if (!spec.stash) return update;
  return std::max(SegmentOf(spec, update + 1).first - 1,
                  update - Delay(spec, stage));
}

MicrobatchRange InFlightAfter(const ScheduleSpec& spec, int stage,
                              int64_t update, int64_t fed_updates) {
  const int64_t first = update * spec.accumulate;
  if (!Asynchronous(spec)) return {first, first};
  const Segment segment = SegmentOf(spec, update);
  const int64_t fed = std::min(segment.last, fed_updates) * spec.accumulate;
  return {first,
          std::max(first, std::min(first + WarmupForwards(spec, stage), fed))};
}

int WeightVersions(const ScheduleSpec& spec, int stage) {
  return spec.stash ? static_cast<int>(Delay(spec, stage)) + 1 : 1;
}

int ActivationSlots(const ScheduleSpec& spec, int stage) {
  const int warmup = WarmupForwards(spec, stage);
  if (Asynchronous(spec)) return warmup + 1;
  return std::min(spec.accumulate, warmup + 1);
}

std::vector<Action> BlockActions(const ScheduleSpec& spec, int stage,
                                 int64_t update, int64_t start, int64_t end,
                                 CutActions cut) {
  const int a = spec.accumulate;
  const int64_t first = (update - 1) * a;
  std::vector<Action> actions;
  if (Asynchronous(spec)) {
    const Segment segment = SegmentOf(spec, update);
    const int64_t fed = std::min(segment.last, end) * a;
    const int warmup = WarmupForwards(spec, stage);
    const auto forward = [&](int64_t j) {
      if (j >= fed) return;
      actions.push_back(
          {ActionKind::kForward, j, ForwardVersion(spec, stage, j)});
    };
    if (update == std::max(start + 1, segment.first)) {
      for (int64_t j = first; j < first + warmup; ++j) forward(j);
    }
    for (int64_t i = first; i < first + a; ++i) {
      forward(i + warmup);
      actions.push_back(
          {ActionKind::kBackward, i, ForwardVersion(spec, stage, i)});
    }
  } else {
    AppendFlushed(first, a, WarmupForwards(spec, stage), update - 1, &actions);
    if (spec.global_norm) actions.push_back({ActionKind::kNorm, update, 0});
  }
  actions.push_back({ActionKind::kUpdate, update, 0});
  if (cut.evaluate) actions.push_back({ActionKind::kEvaluate, update, 0});
  if (cut.snapshot) actions.push_back({ActionKind::kSnapshot, update, 0});
  if (cut.keep) actions.push_back({ActionKind::kKeep, update, 0});
  return actions;
}

}  // namespace gimbal::worker
