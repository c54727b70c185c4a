#include "worker/checkpoint/stage_snapshot.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "common/base/random.h"
#include "common/io/checkpoint_layout.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "worker/checkpoint/snapshot_writer.h"

namespace gimbal::worker {
namespace {

using test_support::IsOk;
using test_support::StatusIs;
using test_support::TempDir;
using ::testing::HasSubstr;

const StageSpec kStage{.model = {.layers = 3,
                                 .hidden = 8,
                                 .heads = 2,
                                 .context = 4,
                                 .vocab = 11,
                                 .mlp_hidden = 16},
                       .first_block = 1,
                       .blocks = 2,
                       .last = true,
                       .microbatch = 1};
// Stage 1 of 4: three versions.
const ScheduleSpec kSchedule{ScheduleKind::kAsync1F1B, 4, 1};
const StageStateSpec kSpec{
    .stage = kStage,
    .schedule = kSchedule,
    .index = 1,
    .update = {.optimizer = {.kind = OptimizerKind::kBasisRotation},
               .lr = {.kind = LrKind::kConstant, .peak = 0.01, .steps = 20}}};

// A state as after `updates` updates with random gradients.
std::unique_ptr<StageState> Trained(int64_t updates) {
  auto state = std::make_unique<StageState>(kSpec);
  state->Initialize(1, 0.1);
  std::vector<float> grads(static_cast<size_t>(state->table().size()));
  for (int64_t t = 1; t <= updates; ++t) {
    for (const Param& p : state->table().params()) {
      for (int64_t i = p.offset; i < p.offset + p.size(); ++i) {
        grads[static_cast<size_t>(i)] = static_cast<float>(base::RandomNormal(
            2, static_cast<uint64_t>(t), static_cast<uint64_t>(i)));
      }
    }
    state->Advance(t, 0, 1.0, t % 3 == 0, grads.data());
  }
  return state;
}

void ExpectSame(const StageState& a, const StageState& b) {
  ASSERT_EQ(a.stash().newest(), b.stash().newest());
  ASSERT_EQ(a.stash().oldest(), b.stash().oldest());
  for (int64_t v = a.stash().oldest(); v <= a.stash().newest(); ++v) {
    for (int64_t i = 0; i < a.table().size(); ++i) {
      ASSERT_EQ(a.stash().Get(v)[i], b.stash().Get(v)[i]) << "version " << v;
    }
  }
  const auto state_a = a.update().State(), state_b = b.update().State();
  ASSERT_EQ(state_a.size(), state_b.size());
  for (size_t k = 0; k < state_a.size(); ++k) {
    for (int64_t i = 0; i < state_a[k].rows * state_a[k].cols; ++i) {
      ASSERT_EQ(state_a[k].data[i], state_b[k].data[i]) << state_a[k].name;
    }
  }
}

TEST(StageSnapshot, BringsBackEveryNumber) {
  for (const int64_t updates : {1, 2, 7}) {
    const TempDir folder;
    const auto state = Trained(updates);
    StageSnapshot snapshot;
    snapshot.Copy(updates, *state);
    ASSERT_THAT(snapshot.Write(folder.path()), IsOk());
    StageState loaded(kSpec);
    ASSERT_THAT(LoadStage(folder.path(), updates, &loaded), IsOk());
    ExpectSame(*state, loaded);
  }
}

TEST(StageSnapshot, HoldsTheCutNotWhatCameAfter) {
  const TempDir folder;
  const auto state = Trained(5);
  StageSnapshot snapshot;
  snapshot.Copy(5, *state);
  std::fill_n(state->stash().SlotFor(6), state->table().size(), -1.0f);
  state->stash().Publish(6);
  ASSERT_THAT(snapshot.Write(folder.path()), IsOk());
  StageState loaded(kSpec);
  ASSERT_THAT(LoadStage(folder.path(), 5, &loaded), IsOk());
  ExpectSame(*Trained(5), loaded);
}

// Weights may still be finite when a moment has overflowed.
TEST(StageSnapshot, RefusesToWriteWhatIsNotFinite) {
  const TempDir folder;
  const auto state = Trained(1);
  std::vector<float> grads(static_cast<size_t>(state->table().size()), 1e25f);
  state->Advance(2, 0, 1.0, false, grads.data());
  EXPECT_TRUE(state->weights_finite());
  StageSnapshot snapshot;
  snapshot.Copy(2, *state);
  EXPECT_THAT(snapshot.Write(folder.path()),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("optimizer/layer-")));
}

// What a stage of another layout needs of the files at the cut of its origin:
// weights and the optimizer's state, no more.
TEST(StageSnapshot, AtItsOriginAStageNeedsNoFormerStages) {
  const TempDir folder;
  const auto state = Trained(7);
  StageSnapshot snapshot;
  snapshot.Copy(7, *state);
  ASSERT_THAT(snapshot.Write(folder.path()), IsOk());
  std::filesystem::remove_all(folder / "stash");
  StageStateSpec other = kSpec;
  other.schedule.origin = 7;
  other.update.mitigation = {.weight_prediction = true, .error_feedback = true};
  StageState loaded(other);
  ASSERT_THAT(LoadStage(folder.path(), 7, &loaded), IsOk());
  EXPECT_EQ(loaded.stash().oldest(), 7);
  for (int64_t i = 0; i < state->table().size(); ++i) {
    ASSERT_EQ(loaded.newest()[i], state->newest()[i]);
    ASSERT_EQ(loaded.ForwardWeights(7)[i], state->newest()[i]) << "as at 0";
  }
  const auto before = state->update().State(), now = loaded.update().State();
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
  ASSERT_THAT(snapshot.Write(folder.path()), IsOk());
  StageState again(other);
  ASSERT_THAT(LoadStage(folder.path(), 8, &again), IsOk());
  ExpectSame(loaded, again);
}

TEST(StageSnapshot, MissingStateIsAnErrorAnywhereElse) {
  const TempDir folder;
  const auto state = Trained(7);
  StageSnapshot snapshot;
  snapshot.Copy(7, *state);
  ASSERT_THAT(snapshot.Write(folder.path()), IsOk());
  StageStateSpec other = kSpec;
  other.update.mitigation = {.error_feedback = true};
  StageState feeds_back(other);
  EXPECT_THAT(LoadStage(folder.path(), 7, &feeds_back),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr(".u")));
  other = kSpec;
  other.schedule.origin = 7;
  other.update.optimizer.rotation.source = RotationSource::kSecond;
  std::filesystem::remove(folder / io::OptimizerFile(3));
  StageState rotates(other);
  EXPECT_THAT(
      LoadStage(folder.path(), 7, &rotates),
      StatusIs(absl::StatusCode::kNotFound, HasSubstr(io::OptimizerFile(3))));
}

TEST(StageSnapshot, MissingAndForeignFilesAreNamed) {
  const TempDir folder;
  const auto state = Trained(3);
  StageSnapshot snapshot;
  snapshot.Copy(3, *state);
  ASSERT_THAT(snapshot.Write(folder.path()), IsOk());
  StageStateSpec wider = kSpec;
  wider.stage.model.hidden = 16;
  StageState other(wider);
  EXPECT_THAT(LoadStage(folder.path(), 3, &other),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("layer-002.safetensors")));
  std::filesystem::remove(folder / io::OptimizerFile(3));
  StageState loaded(kSpec);
  const absl::Status missing = LoadStage(folder.path(), 3, &loaded);
  EXPECT_THAT(missing, testing::Not(IsOk()));
  EXPECT_THAT(std::string(missing.message()), HasSubstr(io::OptimizerFile(3)));
}

TEST(SnapshotWriter, WritesBehindAndRefusesASecondOfTheSameStage) {
  const TempDir folder;
  const auto state = Trained(2);
  Signal signal;
  std::vector<SnapshotResult> results;
  {
    SnapshotWriter writer(folder.path(), signal, [&](const SnapshotResult& r) {
      results.push_back(r);
    });
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
  SnapshotWriter writer(folder / "file", signal,
                        [&](const SnapshotResult& r) { status = r.status; });
  ASSERT_TRUE(writer.Take(1, 1, *state));
  writer.Flush();
  EXPECT_THAT(status, testing::Not(IsOk()));
  EXPECT_THAT(std::string(status.message()), HasSubstr(folder / "file"));
}

}  // namespace
}  // namespace gimbal::worker
