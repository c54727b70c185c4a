#include "worker/pipeline/link_choice.h"

#include <gmock/gmock.h>

namespace gimbal::worker {
namespace {

using ::testing::HasSubstr;

struct Host {
  int64_t worker;
  std::string gpu;
  int nccl = 22809;
};

LinkChoice Choose(v1::Transport transport, const std::vector<Host>& stages) {
  google::protobuf::RepeatedPtrField<v1::StagePlacement> placements;
  for (const Host& host : stages) {
    v1::StagePlacement& placement = *placements.Add();
    placement.set_worker_id(host.worker);
    placement.set_gpu(host.gpu);
    placement.set_nccl_version(host.nccl);
  }
  return ChooseLinks(transport, placements);
}

TEST(LinkChoice, IsNcclWhereEveryWorkerHasItAndAGpuOfItsOwn) {
  for (const auto transport : {v1::TRANSPORT_AUTO, v1::TRANSPORT_NCCL}) {
    EXPECT_TRUE(
        Choose(transport, {{1, "a"}, {1, "a"}, {2, "b"}, {3, "c"}}).nccl);
  }
}

TEST(LinkChoice, IsTcpElseAndSaysWhy) {
  const auto expect = [](const LinkChoice& choice, const std::string& reason) {
    EXPECT_FALSE(choice.nccl);
    EXPECT_THAT(choice.reason, HasSubstr(reason));
  };
  const auto automatic = v1::TRANSPORT_AUTO;
  expect(Choose(v1::TRANSPORT_TCP, {{1, "a"}, {2, "b"}}),
         "cluster.transport is tcp");
  expect(Choose(automatic, {{1, "a"}, {2, "a"}}), "workers 1 and 2 share a");
  expect(Choose(automatic, {{1, "a"}, {2, ""}}), "worker 2 has no GPU");
  expect(Choose(automatic, {{1, "a"}, {2, "b", 0}}), "worker 2 has no NCCL");
  expect(Choose(automatic, {{1, "a"}, {2, "b", 22703}}), "2.27.3 and 2.28.9");
  // Not next to each other, and not on one GPU all the same.
  expect(Choose(automatic, {{1, "a"}, {2, "b"}, {3, "a"}}), "workers 1 and 3");
}

}  // namespace
}  // namespace gimbal::worker
