#include "worker/agent/outbox.h"

#include <utility>

namespace gimbal::worker {

void Outbox::SetGeneration(int64_t generation) {
  std::lock_guard lock(mutex_);
  FlushLocked();
  generation_ = generation;
}

void Outbox::AddUpdate(const UpdateReport& report) {
  std::lock_guard lock(mutex_);
  v1::StageUpdate* update = reports_.add_updates();
  update->set_stage(report.stage);
  update->set_update(report.update);
  update->set_staleness(report.staleness);
  update->set_gradient_square_sum(report.gradient_square_sum);
  if (report.loss) update->set_loss(*report.loss);
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
  message.set_generation(generation_);
  message.mutable_reports()->Swap(&reports_);
  send_(std::move(message));
}

}  // namespace gimbal::worker
