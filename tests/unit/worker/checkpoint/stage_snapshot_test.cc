#include "worker/checkpoint/stage_snapshot.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "common/io/checkpoint_layout.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/worker/checkpoint/trained_state.h"
#include "worker/checkpoint/snapshot_writer.h"

namespace gimbal::worker {
namespace {

using test_support::IsOk;
using test_support::StatusIs;
using test_support::TempDir;
using ::testing::HasSubstr;

TEST(StageSnapshot, BringsBackEveryNumber) {
  for (const int64_t updates : {1, 2, 7}) {
    const TempDir folder;
    SharedFolder store(folder.path());
    const auto state = Trained(updates);
    StageSnapshot snapshot;
    snapshot.Copy(updates, *state);
    ASSERT_THAT(snapshot.Write(store), IsOk());
    StageState loaded(TrainedSpec());
    ASSERT_THAT(LoadStage(store, updates, &loaded), IsOk());
    ExpectSame(*state, loaded);
  }
}

TEST(StageSnapshot, BringsBackEveryNumberFromMemory) {
  for (const int64_t updates : {1, 2, 7}) {
    const auto state = Trained(updates);
    StageSnapshot snapshot;
    snapshot.Copy(updates, *state);
    ASSERT_OK_AND_ASSIGN(StageSnapshot other, StageSnapshot::WithTensors(
                                                  updates, snapshot.tensors()));
    std::ranges::copy(snapshot.values(), other.values().begin());
    StageState loaded(TrainedSpec());
    ASSERT_THAT(LoadStage(other, &loaded), IsOk());
    ExpectSame(*state, loaded);
  }
}

TEST(StageSnapshot, AForeignSnapshotIsRefused) {
  StageSnapshot snapshot;
  snapshot.Copy(3, *Trained(3));
  StageStateSpec wider = TrainedSpec();
  wider.stage.model.hidden = 16;
  StageState other(wider);
  EXPECT_THAT(
      LoadStage(snapshot, &other),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("update 3")));
  EXPECT_THAT(StageSnapshot::WithTensors(1, {{"f", "n", {2, -1}}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("f, n")));
}

TEST(StageSnapshot, HoldsTheCutNotWhatCameAfter) {
  const TempDir folder;
  SharedFolder store(folder.path());
  const auto state = Trained(5);
  StageSnapshot snapshot;
  snapshot.Copy(5, *state);
  std::fill_n(state->stash().SlotFor(6), state->table().size(), -1.0f);
  state->stash().Publish(6);
  ASSERT_THAT(snapshot.Write(store), IsOk());
  StageState loaded(TrainedSpec());
  ASSERT_THAT(LoadStage(store, 5, &loaded), IsOk());
  ExpectSame(*Trained(5), loaded);
}

// Weights may still be finite when a moment has overflowed.
TEST(StageSnapshot, RefusesToWriteWhatIsNotFinite) {
  const TempDir folder;
  SharedFolder store(folder.path());
  const auto state = Trained(1);
  std::vector<float> grads(static_cast<size_t>(state->table().size()), 1e25f);
  state->Advance(2, 0, 1.0, false, grads.data());
  EXPECT_TRUE(state->weights_finite());
  StageSnapshot snapshot;
  snapshot.Copy(2, *state);
  EXPECT_THAT(snapshot.Write(store),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("optimizer/layer-")));
}

// What a stage of another layout needs of the files at the cut of its origin:
// weights and the optimizer's state, no more.
TEST(StageSnapshot, AtItsOriginAStageNeedsNoFormerStages) {
  const TempDir folder;
  SharedFolder store(folder.path());
  const auto state = Trained(7);
  StageSnapshot snapshot;
  snapshot.Copy(7, *state);
  ASSERT_THAT(snapshot.Write(store), IsOk());
  std::filesystem::remove_all(folder / (io::StepFolderName(7) + "/stash"));
  StageStateSpec other = TrainedSpec();
  other.schedule.origin = 7;
  other.update.mitigation = {.weight_prediction = true, .error_feedback = true};
  StageState loaded(other);
  ASSERT_THAT(LoadStage(store, 7, &loaded), IsOk());
  EXPECT_EQ(loaded.stash().oldest(), 7);
  for (int64_t i = 0; i < state->table().size(); ++i) {
    ASSERT_EQ(loaded.newest()[i], state->newest()[i]);
    ASSERT_EQ(loaded.ForwardWeights(7)[i], state->newest()[i]) << "as at 0";
  }
  const auto before = state->engine().State(), now = loaded.engine().State();
  ASSERT_GT(now.size(), before.size()) << "no stage had an error to feed back";
  for (size_t k = 0; k < now.size(); ++k) {
    for (int64_t i = 0; i < now[k].size(); ++i) {
      ASSERT_EQ(now[k].data[i], k < before.size() ? before[k].data[i] : 0);
    }
  }
  // The next snapshot asks for no version before the origin.
  std::vector<float> grads(static_cast<size_t>(loaded.table().size()), 0.1f);
  loaded.Advance(8, 0, 1.0, false, grads.data());
  snapshot.Copy(8, loaded);
  ASSERT_THAT(snapshot.Write(store), IsOk());
  StageState again(other);
  ASSERT_THAT(LoadStage(store, 8, &again), IsOk());
  ExpectSame(loaded, again);
}

TEST(StageSnapshot, MissingStateIsAnErrorAnywhereElse) {
  const TempDir folder;
  SharedFolder store(folder.path());
  const auto state = Trained(7);
  StageSnapshot snapshot;
  snapshot.Copy(7, *state);
  ASSERT_THAT(snapshot.Write(store), IsOk());
  StageStateSpec other = TrainedSpec();
  other.update.mitigation = {.error_feedback = true};
  StageState feeds_back(other);
  EXPECT_THAT(LoadStage(store, 7, &feeds_back),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr(".u")));
  other = TrainedSpec();
  other.schedule.origin = 7;
  other.update.optimizer.rotation.source = RotationSource::kSecond;
  std::filesystem::remove(folder /
                          (io::StepFolderName(7) + "/" + io::OptimizerFile(3)));
  StageState rotates(other);
  EXPECT_THAT(
      LoadStage(store, 7, &rotates),
      StatusIs(absl::StatusCode::kNotFound, HasSubstr(io::OptimizerFile(3))));
}

TEST(StageSnapshot, MissingAndForeignFilesAreNamed) {
  const TempDir folder;
  SharedFolder store(folder.path());
  const auto state = Trained(3);
  StageSnapshot snapshot;
  snapshot.Copy(3, *state);
  ASSERT_THAT(snapshot.Write(store), IsOk());
  StageStateSpec wider = TrainedSpec();
  wider.stage.model.hidden = 16;
  StageState other(wider);
  EXPECT_THAT(LoadStage(store, 3, &other),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("layer-002.safetensors")));
  std::filesystem::remove(folder /
                          (io::StepFolderName(3) + "/" + io::OptimizerFile(3)));
  StageState loaded(TrainedSpec());
  const absl::Status missing = LoadStage(store, 3, &loaded);
  EXPECT_THAT(missing, testing::Not(IsOk()));
  EXPECT_THAT(std::string(missing.message()), HasSubstr(io::OptimizerFile(3)));
}

TEST(SnapshotWriter, WritesBehindAndRefusesASecondOfTheSameStage) {
  const TempDir folder;
  const auto state = Trained(2);
  Signal signal;
  std::vector<SnapshotResult> results;
  {
    SharedFolder store(folder.path());
    SnapshotWriter writer(
        store, signal, [&](const SnapshotResult& r) { results.push_back(r); });
    ASSERT_TRUE(writer.Take(1, 2, *state));
    writer.Flush();
    ASSERT_EQ(results.size(), 1u);
    EXPECT_THAT(results[0].status, IsOk());
    EXPECT_EQ(results[0].update, 2);
    EXPECT_FALSE(results[0].files.empty());
    for (const SnapshotFile& file : results[0].files) {
      const std::string path =
          folder / (io::StepFolderName(2) + "/" + file.path);
      EXPECT_EQ(std::filesystem::file_size(path),
                static_cast<uintmax_t>(file.written.bytes));
    }
    // Take again and again: each either starts or is refused, none is lost.
    int taken = 0;
    for (int i = 0; i < 50; ++i) taken += writer.Take(1, 2, *state) ? 1 : 0;
    writer.Flush();
    EXPECT_EQ(results.size(), static_cast<size_t>(taken) + 1);
  }
}

TEST(SnapshotWriter, AFailedWriteIsReported) {
  const TempDir folder;
  std::ofstream(folder / "file") << "not a folder";
  const auto state = Trained(1);
  Signal signal;
  absl::Status status;
  SharedFolder store(folder / "file");
  SnapshotWriter writer(store, signal,
                        [&](const SnapshotResult& r) { status = r.status; });
  ASSERT_TRUE(writer.Take(1, 1, *state));
  writer.Flush();
  EXPECT_THAT(status, testing::Not(IsOk()));
  EXPECT_THAT(std::string(status.message()), HasSubstr(folder / "file"));
}

}  // namespace
}  // namespace gimbal::worker
