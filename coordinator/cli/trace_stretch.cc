#include "coordinator/cli/trace_stretch.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>
#include <vector>

namespace gimbal::cli {
namespace {

using trace::Span;

// Goes through what every process did in its order, no receive ahead of its
// send, and lets a process that would be too early be late from there on.
class Stretcher {
 public:
  explicit Stretcher(MergedTrace& trace) : trace_(trace) {
    for (size_t p = 0; p < trace.processes.size(); ++p) AddCourse(p);
    for (size_t i = 0; i < trace.flows.size(); ++i) {
      const Flow& flow = trace.flows[i];
      sends_[{flow.from_process, flow.from_span}] = false;
      flow_to_[{flow.to_process, flow.to_span}] = i;
    }
  }

  void Run() {
    for (;;) {
      bool moved = false, waits = false;
      for (size_t p = 0; p < courses_.size(); ++p) {
        moved |= Advance(p);
        waits |= courses_[p].next < courses_[p].moments.size();
      }
      if (!waits) break;
      if (!moved) DropEarliest();
    }
    std::erase_if(trace_.flows, [&](const Flow& flow) {
      return !flow_to_.contains({flow.to_process, flow.to_span});
    });
  }

 private:
  using Place = std::pair<size_t, size_t>;  // process, span

  // A begin or end of a span.
  struct Moment {
    int64_t at_ns;
    bool end;
    size_t span;
  };
  struct Course {
    std::vector<Moment> moments;
    size_t next = 0;
    int64_t delay_ns = 0;
  };

  void AddCourse(size_t p) {
    Course course;
    const std::vector<Span>& spans = trace_.processes[p].spans;
    for (size_t s = 0; s < spans.size(); ++s) {
      course.moments.push_back({spans[s].begin_ns, false, s});
      course.moments.push_back({spans[s].end_ns, true, s});
    }
    std::ranges::stable_sort(course.moments, {}, [](const Moment& moment) {
      return std::pair(moment.at_ns, moment.end);
    });
    courses_.push_back(std::move(course));
  }

  // As far as no send is missing; whether that was any further.
  bool Advance(size_t p) {
    Course& course = courses_[p];
    const size_t before = course.next;
    for (; course.next < course.moments.size(); ++course.next) {
      const Moment& moment = course.moments[course.next];
      Span& span = trace_.processes[p].spans[moment.span];
      if (moment.end) {
        span.end_ns += course.delay_ns;
        continue;
      }
      if (!Receive(p, moment.span, course)) break;
      span.begin_ns += course.delay_ns;
      const auto send = sends_.find({p, moment.span});
      if (send != sends_.end()) send->second = true;
    }
    return course.next > before;
  }

  // False before the span's message was sent, if it receives one.
  bool Receive(size_t p, size_t s, Course& course) {
    const auto found = flow_to_.find({p, s});
    if (found == flow_to_.end()) return true;
    const Flow& flow = trace_.flows[found->second];
    if (!sends_.at({flow.from_process, flow.from_span})) return false;
    const int64_t early = -TravelNs(trace_, flow) - course.delay_ns;
    if (early <= 0) return true;
    course.delay_ns += early;
    ++trace_.stretches;
    trace_.stretched_ns = std::max(trace_.stretched_ns, course.delay_ns);
    return true;
  }

  // Each waits for another: the message that is waited for first is not to be
  // believed.
  void DropEarliest() {
    Place earliest;
    int64_t at_ns = std::numeric_limits<int64_t>::max();
    for (size_t p = 0; p < courses_.size(); ++p) {
      const Course& course = courses_[p];
      if (course.next == course.moments.size()) continue;
      const Moment& moment = course.moments[course.next];
      if (moment.at_ns >= at_ns) continue;
      at_ns = moment.at_ns;
      earliest = {p, moment.span};
    }
    flow_to_.erase(earliest);
    ++trace_.contradictions;
  }

  MergedTrace& trace_;
  std::vector<Course> courses_;      // by process
  std::map<Place, bool> sends_;      // of flows; whether it has been passed
  std::map<Place, size_t> flow_to_;  // flow that ends there
};

bool AnyReversed(const MergedTrace& trace) {
  return std::ranges::any_of(
      trace.flows, [&](const Flow& flow) { return TravelNs(trace, flow) < 0; });
}

}  // namespace

void StretchReversed(MergedTrace& trace) {
  if (AnyReversed(trace)) Stretcher(trace).Run();
}

}  // namespace gimbal::cli
