#include "worker/agent/outbox.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace gimbal::worker {
namespace {

// The message without what it says of updates up to `update`; nothing when it
// says no more. StagesFinished is about the last update.
std::optional<v1::WorkerMessage> Beyond(int64_t update,
                                        v1::WorkerMessage message) {
  if (message.has_snapshot()) {
    if (message.snapshot().update() <= update) return std::nullopt;
  } else if (message.has_reports()) {
    v1::StageReports& reports = *message.mutable_reports();
    const auto old = [update](const auto& report) {
      return report.update() <= update;
    };
    reports.mutable_updates()->erase(
        std::remove_if(reports.mutable_updates()->begin(),
                       reports.mutable_updates()->end(), old),
        reports.mutable_updates()->end());
    reports.mutable_evaluations()->erase(
        std::remove_if(reports.mutable_evaluations()->begin(),
                       reports.mutable_evaluations()->end(), old),
        reports.mutable_evaluations()->end());
    if (reports.updates().empty() && reports.evaluations().empty()) {
      return std::nullopt;
    }
  }
  return message;
}

}  // namespace

void Outbox::SetGeneration(int64_t generation,
                           std::optional<int64_t> repeat_after) {
  std::lock_guard lock(mutex_);
  FlushLocked();
  generation_ = generation;
  if (!repeat_after) return;
  for (const v1::WorkerMessage& message : history_) {
    if (auto rest = Beyond(*repeat_after, message))
      SendLocked(*std::move(rest));
  }
}

void Outbox::AddUpdate(const UpdateReport& report) {
  std::lock_guard lock(mutex_);
  v1::StageUpdate* update = reports_.add_updates();
  update->set_stage(report.stage);
  update->set_update(report.update);
  update->set_staleness(report.staleness);
  update->set_gradient_square_sum(report.gradient_square_sum);
  if (report.loss) update->set_loss(*report.loss);
  update->set_weights_not_finite(!report.weights_finite);
  if (report.basis) {
    v1::BasisHealth* basis = update->mutable_basis();
    basis->set_offdiagonal_ratio(report.basis->offdiagonal_ratio);
    basis->set_orthogonality_error(report.basis->orthogonality_error);
  }
}

void Outbox::AddEvaluation(int64_t update, double loss) {
  std::lock_guard lock(mutex_);
  v1::Evaluation* evaluation = reports_.add_evaluations();
  evaluation->set_update(update);
  evaluation->set_loss(loss);
}

void Outbox::Post(v1::WorkerMessage message) {
  std::lock_guard lock(mutex_);
  FlushLocked();
  if (message.has_snapshot() || message.has_finished()) {
    history_.push_back(message);
  }
  SendLocked(std::move(message));
}

void Outbox::Forget(int64_t update) {
  std::lock_guard lock(mutex_);
  std::erase_if(history_, [update](const v1::WorkerMessage& message) {
    return !Beyond(update, message);
  });
}

void Outbox::SendLocked(v1::WorkerMessage message) {
  message.set_generation(generation_);
  send_(std::move(message));
}

void Outbox::Flush() {
  std::lock_guard lock(mutex_);
  FlushLocked();
}

void Outbox::FlushLocked() {
  if (reports_.updates_size() == 0 && reports_.evaluations_size() == 0) return;
  v1::WorkerMessage message;
  message.mutable_reports()->Swap(&reports_);
  history_.push_back(message);
  SendLocked(std::move(message));
}

}  // namespace gimbal::worker
