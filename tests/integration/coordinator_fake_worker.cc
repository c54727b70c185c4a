#include "tests/integration/coordinator_fake_worker.h"

#include <gtest/gtest.h>

#include <utility>

#include "common/io/checkpoint_layout.h"
#include "common/io/file.h"
#include "worker/pipeline/specs.h"

namespace gimbal::coordinator {

using std::chrono::milliseconds;

FakeWorker::FakeWorker(std::string coordinator, std::string name)
    : coordinator_(std::move(coordinator)),
      name_(std::move(name)),
      thread_([this] { Run(); }) {}

FakeWorker::~FakeWorker() {
  killed_ = true;
  thread_.join();
}

std::optional<int> FakeWorker::exit_code() const {
  if (exit_code_ < 0) return std::nullopt;
  return exit_code_;
}

void FakeWorker::Run() {
  v1::RegisterRequest request;
  request.set_name(name_);
  request.set_data_address("127.0.0.1:1");
  request.set_numerics("fake");
  auto session = worker::SessionClient::Connect(
      coordinator_, {}, request, std::chrono::seconds(30),
      [this] { return killed_.load(); });
  if (killed_) return;
  ASSERT_TRUE(session.ok()) << session.status();
  session_ = *std::move(session);
  while (!killed_ && exit_code_ < 0) {
    const auto message = session_->Receive(milliseconds(20));
    if (!message.ok()) return;
    if (message->has_value()) Handle(**message);
    v1::WorkerMessage heartbeat;
    heartbeat.mutable_heartbeat();
    Send(heartbeat);
  }
  session_.reset();
}

void FakeWorker::Send(v1::WorkerMessage message) {
  message.set_generation(generation_);
  session_->Send(std::move(message));
}

void FakeWorker::Handle(const v1::CoordinatorMessage& message) {
  if (message.has_assignment()) Assign(message);
  if (message.has_rewire()) Rewire(message.generation());
  if (message.has_grant() && message.generation() == generation_) {
    Train(message.grant());
  }
  if (message.has_shutdown()) exit_code_ = message.shutdown().exit_code();
}

void FakeWorker::Assign(const v1::CoordinatorMessage& message) {
  generation_ = message.generation();
  assignment_ = message.assignment();
  versions_.clear();
  for (int stage : assignment_.stages()) {
    versions_[stage] = assignment_.start_update();
  }
  v1::WorkerMessage ready;
  ready.mutable_ready();
  Send(ready);
}

// There are no edges to connect.
void FakeWorker::Rewire(int64_t generation) {
  generation_ = generation;
  v1::WorkerMessage ready;
  ready.mutable_ready();
  Send(ready);
}

void FakeWorker::Train(const v1::Grant& grant) {
  std::map<int64_t, v1::Cut> cuts;
  for (const v1::Cut& cut : grant.cuts()) cuts[cut.update()] = cut;
  bool finished = !versions_.empty();
  for (auto& [stage, version] : versions_) {
    while (version < grant.until()) {
      ++version;
      Update(stage, version, cuts[version]);
    }
    finished = finished && version == grant.final_update();
  }
  if (!finished) return;
  v1::WorkerMessage message;
  message.mutable_finished()->set_peak_rss_bytes(1234);
  Send(message);
}

void FakeWorker::Update(int stage, int64_t update, const v1::Cut& cut) {
  const auto schedule = worker::ScheduleSpecOf(assignment_.config());
  const bool last = stage == schedule.stages - 1;
  v1::WorkerMessage message;
  v1::StageUpdate& report = *message.mutable_reports()->add_updates();
  report.set_stage(stage);
  report.set_update(update);
  report.set_staleness(worker::ExpectedStaleness(schedule, stage, update));
  report.set_gradient_square_sum(1.0 / static_cast<double>(update + stage));
  if (last) report.set_loss(3.0 / static_cast<double>(update));
  if (last && cut.evaluate()) {
    v1::Evaluation& evaluation = *message.mutable_reports()->add_evaluations();
    evaluation.set_update(update);
    evaluation.set_loss(4.0 / static_cast<double>(update));
  }
  Send(message);
  if (cut.snapshot()) WriteSnapshot(stage, update);
}

void FakeWorker::WriteSnapshot(int stage, int64_t update) {
  const std::string folder =
      assignment_.checkpoint_root() + "/" + io::StepFolderName(update);
  const std::string content =
      "stage " + std::to_string(stage) + " update " + std::to_string(update);
  v1::WorkerMessage message;
  v1::SnapshotWritten& snapshot = *message.mutable_snapshot();
  snapshot.set_update(update);
  snapshot.set_stage(stage);
  v1::CheckpointFile& file = *snapshot.add_files();
  file.set_path(io::LayerFile(stage));
  file.set_bytes(static_cast<int64_t>(content.size()));
  file.set_sha256(io::Sha256(content));
  const absl::Status written =
      io::WriteFileAtomically(folder + "/" + file.path(), content);
  EXPECT_TRUE(written.ok()) << written;
  Send(message);
}

}  // namespace gimbal::coordinator
