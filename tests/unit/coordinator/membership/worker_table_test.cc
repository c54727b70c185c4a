#include "coordinator/membership/worker_table.h"

#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace gimbal::coordinator {
namespace {

using std::chrono::seconds;
using test_support::IsOk;
using test_support::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const base::SteadyTime kStart{seconds(1000)};

v1::RegisterRequest Request(const std::string& name,
                            const std::string& numerics = "cpu") {
  v1::RegisterRequest request;
  request.set_name(name);
  request.set_data_address("127.0.0.1:1");
  request.set_numerics(numerics);
  return request;
}

TEST(WorkerTable, AWorkerIsAliveFromItsFirstMessage) {
  WorkerTable table(seconds(3));
  ASSERT_THAT(table.Register(1, Request("a"), kStart), IsOk());
  EXPECT_THAT(table.Alive(kStart), IsEmpty());
  ASSERT_THAT(table.Heard(1, 1, kStart + seconds(1)), IsOk());
  EXPECT_THAT(table.Alive(kStart), ElementsAre(1));
  EXPECT_THAT(table.Alive(kStart + seconds(2)), IsEmpty());
}

TEST(WorkerTable, ALeaseRunsOutUnlessRenewed) {
  WorkerTable table(seconds(3));
  ASSERT_THAT(table.Register(1, Request("a"), kStart), IsOk());
  ASSERT_THAT(table.Register(2, Request("b"), kStart), IsOk());
  ASSERT_THAT(table.Heard(2, 2, kStart + seconds(2)), IsOk());
  EXPECT_THAT(table.Expired(kStart + seconds(3)), IsEmpty());
  EXPECT_THAT(table.Expired(kStart + seconds(4)), ElementsAre(1));
  EXPECT_THAT(table.Expired(kStart + seconds(6)), ElementsAre(1, 2));
}

TEST(WorkerTable, LeasesBeginAnewButNobodyIsHeardOfByThat) {
  WorkerTable table(seconds(3));
  ASSERT_THAT(table.Register(1, Request("a"), kStart), IsOk());
  ASSERT_THAT(table.Heard(1, 1, kStart), IsOk());
  table.RenewAll(kStart + seconds(100));
  EXPECT_THAT(table.Expired(kStart + seconds(103)), IsEmpty());
  EXPECT_THAT(table.Alive(kStart + seconds(1)), IsEmpty());
  EXPECT_THAT(table.Expired(kStart + seconds(104)), ElementsAre(1));
}

TEST(WorkerTable, InBf16AWorkerWithoutItIsRefused) {
  WorkerTable table(seconds(3), {.reduced_precision = true});
  v1::RegisterRequest request = Request("a", "OpenBLAS");
  EXPECT_THAT(table.Register(1, request, kStart),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("'OpenBLAS', which has neither bf16 nor")));
  request.set_reduced_precision(true);
  EXPECT_THAT(table.Register(2, request, kStart), IsOk());
}

TEST(WorkerTable, WhoLeftMustRegisterAgainAndIsSomebodyNew) {
  WorkerTable table(seconds(3));
  ASSERT_THAT(table.Register(1, Request("a"), kStart), IsOk());
  EXPECT_TRUE(table.Remove(1));
  EXPECT_FALSE(table.Remove(1));
  EXPECT_THAT(table.Heard(1, 1, kStart),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("register")));
  ASSERT_THAT(table.Register(2, Request("a"), kStart), IsOk());
  EXPECT_THAT(table.Heard(2, 1, kStart), StatusIs(absl::StatusCode::kAborted));
  EXPECT_THAT(table.Heard(2, 2, kStart), IsOk());
}

TEST(WorkerTable, LeavesNoGhostsAfterManyRounds) {
  WorkerTable table(seconds(3));
  for (int64_t id = 1; id <= 100; ++id) {
    ASSERT_THAT(table.Register(id, Request("a"), kStart), IsOk());
    ASSERT_TRUE(table.Remove(id));
  }
  EXPECT_TRUE(table.workers().empty());
}

TEST(WorkerTable, OneRunAdmitsOneKindOfNumerics) {
  WorkerTable table(seconds(3));
  ASSERT_THAT(table.Register(1, Request("a", "avx2"), kStart), IsOk());
  EXPECT_THAT(table.Register(2, Request("b", "avx512"), kStart),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("'avx512', the run with 'avx2'")));
  EXPECT_EQ(table.Find(2), nullptr);
}

TEST(WorkerTable, RefusesANameThatATerminalWouldObey) {
  WorkerTable table(seconds(3));
  for (const char* name : {"ev\033[31mil", "a\nrun is FAILED", "a\x7f"}) {
    EXPECT_THAT(table.Register(1, Request(name), kStart),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("control characters in '")));
  }
  EXPECT_THAT(table.Register(1, Request("w\u00f6rker 1"), kStart), IsOk());
}

TEST(WorkerTable, RefusesAWorkerThatCannotBeReached) {
  WorkerTable table(seconds(3));
  EXPECT_THAT(
      table.Register(1, v1::RegisterRequest(), kStart),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("data_address")));
}

v1::RegisterRequest OnGpu(const std::string& name, const std::string& gpu,
                          int nccl = 22809) {
  v1::RegisterRequest request = Request(name);
  request.set_gpu(gpu);
  request.set_nccl_version(nccl);
  if (nccl == 0) request.set_nccl_missing("no libnccl.so.2");
  return request;
}

TEST(WorkerTable, UnderNcclEveryWorkerHasItAndAGpuOfItsOwn) {
  WorkerTable table(seconds(3), {.nccl = true});
  EXPECT_THAT(table.Register(1, Request("cpu"), kStart),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("computes on no GPU")));
  EXPECT_THAT(table.Register(2, OnGpu("bare", "GPU-1", 0), kStart),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("no libnccl.so.2; or set cluster.transport")));
  ASSERT_THAT(table.Register(3, OnGpu("a", "GPU-1"), kStart), IsOk());
  EXPECT_THAT(table.Register(4, OnGpu("old", "GPU-2", 22100), kStart),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("has NCCL 2.21.0, worker a 2.28.9")));
  // To be tried again: it may take the place of one that is lost.
  EXPECT_THAT(table.Register(5, OnGpu("b", "GPU-1"), kStart),
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr("worker b would share GPU-1 with a")));
  EXPECT_THAT(table.Register(6, OnGpu("c", "GPU-2"), kStart), IsOk());
  table.Remove(3);
  EXPECT_THAT(table.Register(7, OnGpu("b", "GPU-1"), kStart), IsOk());
}

TEST(WorkerTable, WithoutNcclAGpuMayBeShared) {
  WorkerTable table(seconds(3));
  EXPECT_THAT(table.Register(1, OnGpu("a", "GPU-1", 0), kStart), IsOk());
  EXPECT_THAT(table.Register(2, OnGpu("b", "GPU-1"), kStart), IsOk());
}

}  // namespace
}  // namespace gimbal::coordinator
