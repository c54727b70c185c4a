#include "worker/pipeline/stage_runner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "tests/support/local_pipeline.h"
#include "tests/support/status_matchers.h"

namespace gimbal::worker {
namespace {

// One whose peer sends the message when somebody first asks for it.
class LateLink final : public Link {
 public:
  LateLink(const EdgeSpec& spec, Signal& signal, uint64_t samples)
      : Link(spec, signal), samples_(samples) {}

  bool Writable() const override { return true; }
  void Close() override {}
  bool Arrived(MessageKind kind, int64_t index, int32_t part) const override {
    if (!sent_) Receive(kind, index);
    return Link::Arrived(kind, index, part);
  }
  // Not before this.
  base::SteadyTime sent() const { return *sent_; }

 private:
  void Receive(MessageKind kind, int64_t index) const {
    sent_ = base::Clock::Real().Now();
    Message message;
    message.header.kind = kind;
    message.header.index = index;
    message.header.samples = samples_;
    message.payload = pool_->Take(spec_.payload_capacity());
    std::memset(message.payload.data(), 0,
                static_cast<size_t>(spec_.payload_capacity()));
    inbox_->Deliver(std::move(message));
  }
  void DoSend(Message) override {}

  const uint64_t samples_;
  mutable std::optional<base::SteadyTime> sent_;
};

// A receive was once counted from before the message was there, and then an
// arrow led from its send back in time.
TEST(StageRunner, AReceiveBeginsAfterTheMessageWasSent) {
  test_support::PipelineOptions options;
  options.schedule.stages = 2;
  const auto tokens = test_support::RandomTokens(1000, options.model.vocab, 1);
  const BatchSampler train(*tokens, options.model.context, options.microbatch,
                           options.seed, true);
  const auto recorder = std::make_shared<trace::Recorder>(1);
  recorder->SetEvery(1);
  StageRunner runner(
      {.spec = {.stage = test_support::SplitEvenly(options.model, 2,
                                                   options.microbatch)[1],
                .schedule = options.schedule,
                .index = 1,
                .update = {.optimizer = options.optimizer, .lr = options.lr}},
       .train = &train,
       .recorder = recorder},
      {});
  runner.state().Initialize(options.seed, options.init_std);
  Signal signal;
  LateLink link({{.run = 1, .generation = 1, .edge = 0},
                 int64_t{options.microbatch} * options.model.context,
                 options.model.hidden},
                signal, train.Digest(0));
  runner.Connect(&link, nullptr);
  runner.Start(0);
  Grants grants;
  grants.Add({.until = 5, .final_update = 5});
  ASSERT_OK_AND_ASSIGN(const StageRunner::Progress progress,
                       runner.Step(grants));
  ASSERT_EQ(progress, StageRunner::Progress::kRan);
  std::vector<trace::Span> spans;
  recorder->ring().TakeAll(spans);
  const auto received =
      std::ranges::find(spans, trace::SpanKind::kRecv, &trace::Span::kind);
  ASSERT_NE(received, spans.end());
  EXPECT_GE(received->begin_ns, trace::ClockNs(link.sent()));
}

}  // namespace
}  // namespace gimbal::worker
