// The actions of a stage that compute on tensors or meet a link.
#include <chrono>
#include <cstring>
#include <limits>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/pipeline/stage_runner.h"

namespace gimbal::worker {

absl::StatusOr<std::optional<StageRunner::Input>> StageRunner::TakeInput(
    MessageKind kind, const BatchSampler* data, int64_t microbatch,
    int64_t index, int part) {
  Input input;
  if (first()) {
    data->Fill(microbatch, tokens_.data(), nullptr);
    input.tensors.tokens = tokens_;
    input.samples = data->Digest(microbatch);
  } else {
    input.message = Take(up_, kind, index, part);
    if (!input.message) return std::optional<Input>();
    input.tensors.hidden = input.message->payload.data();
    input.samples = input.message->header.samples;
  }
  if (last()) {
    data->Fill(microbatch, nullptr, targets_.data());
    input.tensors.targets = targets_;
    if (input.samples != data->Digest(microbatch)) {
      return absl::DataLossError(absl::StrCat(
          "microbatch ", microbatch,
          ": the activations at the loss are of other samples than the "
          "targets; is the data the same on every worker?"));
    }
  }
  return std::optional<Input>(std::move(input));
}

Message StageRunner::NewTensor(Link* link, MessageKind kind, int64_t index,
                               uint64_t samples) {
  const EdgeSpec& edge = link->spec();
  Message message;
  message.header.kind = kind;
  message.header.type = TypeOf(edge.wire);
  message.header.index = index;
  message.header.samples = samples;
  message.header.rows = edge.rows;
  message.header.cols = edge.cols;
  message.payload = link->TakeBuffer(edge.payload_capacity());
  return message;
}

void StageRunner::SendOutput(MessageKind kind, int slot, uint64_t samples,
                             int64_t index, int part) {
  const base::SteadyTime begin = base::Clock::Real().Now();
  Message message = NewTensor(down_, kind, index, samples);
  message.header.part = part;
  engine_.ReadOutput(slot, message.payload.data());
  Send(down_, std::move(message), begin);
}

void StageRunner::Send(Link* link, Message message, base::SteadyTime begin) {
  const MessageHeader header = message.header;
  const auto bytes =
      static_cast<int64_t>(sizeof message.header) + message.payload.size();
  link->Send(std::move(message));
  const base::SteadyTime end = base::Clock::Real().Now();
  CountApart(&PhaseTimes::send, base::Seconds(end - begin).count());
  RecordTransfer(trace::SpanKind::kSend, header, *link, begin, end);
  std::lock_guard lock(status_mutex_);
  (link == down_ ? status_.bytes_sent_downstream
                 : status_.bytes_sent_upstream) += bytes;
}

std::optional<Message> StageRunner::Take(Link* link, MessageKind kind,
                                         int64_t index, int part) {
  if (!link->Arrived(kind, index, part)) return std::nullopt;
  // Of a message that is here: so it begins after the message was sent. One
  // that came between this moment and the taking might have been sent later.
  const base::SteadyTime begin = base::Clock::Real().Now();
  std::optional<Message> message = link->Take(kind, index, part);
  const base::SteadyTime end = base::Clock::Real().Now();
  CountApart(&PhaseTimes::recv, base::Seconds(end - begin).count());
  RecordTransfer(trace::SpanKind::kRecv, message->header, *link, begin, end);
  return message;
}

void StageRunner::RecordTransfer(trace::SpanKind kind,
                                 const MessageHeader& header, const Link& link,
                                 base::SteadyTime begin, base::SteadyTime end) {
  if (!recording_) return;
  options_.recorder->Add(
      begin, end,
      {.index = header.index,
       .kind = kind,
       .message = static_cast<uint8_t>(header.kind),
       .edge = static_cast<int16_t>(link.spec().identity.edge),
       .part = static_cast<int16_t>(header.part)});
}

void StageRunner::Stretch(base::SteadyTime begin, double share) const {
  if (options_.microbatch_seconds <= 0) return;
  const base::Seconds length(options_.microbatch_seconds * share);
  std::this_thread::sleep_until(
      begin + std::chrono::duration_cast<base::SteadyTime::duration>(length));
}

absl::StatusOr<bool> StageRunner::RunForward(const Action& action) {
  const int64_t j = action.index;
  if (down_ != nullptr && !down_->Writable()) {
    return Blocked(down_, absl::StrCat("waits to send forward ", j,
                                       " to stage ", index() + 1));
  }
  GIMBAL_ASSIGN_OR_RETURN(
      std::optional<Input> input,
      TakeInput(MessageKind::kForward, options_.train, j, j, 0));
  if (!input) {
    return Blocked(up_, absl::StrCat("waits for forward ", j, " from stage ",
                                     index() - 1));
  }
  SetActivity(absl::StrCat("forward ", j));
  const int slot = SlotOf(j);
  InFlight& flight = in_flight_[static_cast<size_t>(slot)];
  // A restored forward is not run again, its weights are gone: only its output
  // goes on once more.
  if (!flight.restored) {
    const base::SteadyTime begin = base::Clock::Real().Now();
    engine_.Forward(state_.ForwardWeights(action.version), input->tensors,
                    slot);
    Stretch(begin, 1.0 / 3);
  }
  flight = {j, action.version, input->samples};
  if (last()) loss_sum_ += engine_.Loss(slot);
  if (down_ != nullptr) {
    SendOutput(MessageKind::kForward, slot, input->samples, j, 0);
  }
  return true;
}

absl::StatusOr<bool> StageRunner::RunBackward(const Action& action) {
  const int64_t j = action.index;
  if (up_ != nullptr && !up_->Writable()) {
    return Blocked(up_, absl::StrCat("waits to send backward ", j, " to stage ",
                                     index() - 1));
  }
  const int slot = SlotOf(j);
  InFlight& flight = in_flight_[static_cast<size_t>(slot)];
  std::optional<Message> received;
  const std::byte* doutput = nullptr;
  if (down_ != nullptr) {
    received = Take(down_, MessageKind::kBackward, j);
    if (!received) {
      return Blocked(down_, absl::StrCat("waits for backward ", j,
                                         " from stage ", index() + 1));
    }
    doutput = received->payload.data();
  }
  if (flight.microbatch != j || flight.version != action.version ||
      (received && received->header.samples != flight.samples)) {
    return absl::DataLossError(
        absl::StrCat("stage ", index(), ": backward ", j,
                     " met the activations of microbatch ", flight.microbatch));
  }
  SetActivity(absl::StrCat("backward ", j));
  if (j % schedule().accumulate == 0) {
    engine_.Zero(state_.table().size(), grads_);
  }
  Message message;
  if (up_ != nullptr) {
    message = NewTensor(up_, MessageKind::kBackward, j, flight.samples);
  }
  const base::SteadyTime begin = base::Clock::Real().Now();
  engine_.Backward(state_.BackwardWeights(action.version), doutput,
                   1.0 / schedule().accumulate, slot, grads_,
                   up_ != nullptr ? message.payload.data() : nullptr);
  Stretch(begin, 2.0 / 3);
  if (j / schedule().accumulate + 1 == options_.poisoned_update) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    engine_.Write(&nan, 1, grads_);
  }
  staleness_ = std::max(staleness_, state_.stash().newest() - flight.version);
  if (up_ != nullptr) {
    Send(up_, std::move(message), base::Clock::Real().Now());
  }
  flight.microbatch = -1;
  std::lock_guard lock(status_mutex_);
  ++status_.microbatches;
  return true;
}

absl::StatusOr<bool> StageRunner::RunEvaluate(int64_t update) {
  // After an update one slot is free in every schedule: the one that the next
  // forward takes.
  const int64_t next =
      update * schedule().accumulate + WarmupForwards(schedule(), index());
  const int slot = SlotOf(next);
  if (down_ != nullptr && !down_->Writable()) {
    return Blocked(down_, absl::StrCat("waits to send evaluation ", update,
                                       " to stage ", index() + 1));
  }
  GIMBAL_ASSIGN_OR_RETURN(std::optional<Input> input,
                          TakeInput(MessageKind::kEvaluate, options_.valid,
                                    eval_part_, update, eval_part_));
  if (!input) {
    return Blocked(up_, absl::StrCat("waits for evaluation ", update,
                                     " from stage ", index() - 1));
  }
  SetActivity(absl::StrCat("evaluation ", update));
  engine_.Forward(state_.newest(), input->tensors, slot);
  if (last()) eval_loss_sum_ += engine_.Loss(slot);
  if (down_ != nullptr) {
    SendOutput(MessageKind::kEvaluate, slot, input->samples, update,
               eval_part_);
  }
  if (++eval_part_ < options_.eval_batches) return true;
  if (last()) {
    events_.evaluated(update, eval_loss_sum_ / options_.eval_batches);
  }
  eval_part_ = 0;
  eval_loss_sum_ = 0;
  return true;
}

// The squares of all layers are added up from the last layer to the first: each
// stage adds its own to the sum that comes from downstream, the first stage has
// the total and sends it back down. So the total does not depend on the split.
absl::StatusOr<bool> StageRunner::RunNorm(int64_t update) {
  if (!norm_part_) {
    double sum = 0;
    if (down_ != nullptr) {
      const auto part = TakeNorm(down_, MessageKind::kNormPart, update);
      if (!part) return Blocked(down_, "waits for the norm of later stages");
      sum = *part;
    }
    layer_squares_ = engine_.LayerSquareSums(grads_);
    for (size_t i = layer_squares_.size(); i-- > 0;) sum += layer_squares_[i];
    norm_part_ = sum;
    if (up_ != nullptr) SendNorm(up_, MessageKind::kNormPart, update, sum);
  }
  norm_total_ = *norm_part_;
  if (up_ != nullptr) {
    const auto total = TakeNorm(up_, MessageKind::kNormTotal, update);
    if (!total) return Blocked(up_, "waits for the norm of all stages");
    norm_total_ = *total;
  }
  if (down_ != nullptr) {
    SendNorm(down_, MessageKind::kNormTotal, update, norm_total_);
  }
  norm_part_.reset();
  return true;
}

void StageRunner::SendNorm(Link* link, MessageKind kind, int64_t update,
                           double sum) {
  Message message;
  message.header.kind = kind;
  message.header.type = MessageHeader::Type::kFp64;
  message.header.index = update;
  message.header.rows = 1;
  message.header.cols = 1;
  message.payload = link->TakeHostBuffer(sizeof sum);
  std::memcpy(message.payload.data(), &sum, sizeof sum);
  Send(link, std::move(message), base::Clock::Real().Now());
}

std::optional<double> StageRunner::TakeNorm(Link* link, MessageKind kind,
                                            int64_t update) {
  const std::optional<Message> message = Take(link, kind, update);
  if (!message) return std::nullopt;
  double sum = 0;
  std::memcpy(&sum, message->payload.data(), sizeof sum);
  return sum;
}

}  // namespace gimbal::worker
