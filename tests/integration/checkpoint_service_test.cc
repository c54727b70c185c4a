// Checkpoint files on their way to a real coordinator and back.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <future>
#include <thread>

#include "absl/strings/str_replace.h"
#include "common/config/run_config_io.h"
#include "common/io/checkpoint_layout.h"
#include "common/io/file.h"
#include "common/rpc/channel.h"
#include "common/rpc/status_conversion.h"
#include "coordinator/coordinator.h"
#include "gimbal/v1/checkpoint_service.grpc.pb.h"
#include "gimbal/v1/control_service.grpc.pb.h"
#include "tests/support/http_get.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "worker/checkpoint/checkpoint_store.h"
#include "worker/checkpoint/coordinator_store.h"

namespace gimbal::coordinator {
namespace {

using test_support::IsOk;
using test_support::StatusIs;
using ::testing::HasSubstr;
using worker::CoordinatorStore;

class CheckpointServiceTest : public ::testing::Test {
 protected:
  CheckpointServiceTest() {
    EXPECT_THAT(io::WriteFileAtomically(folder_ / "corpus", "some text"),
                IsOk());
    Start(false);
    v1::RegisterRequest request;
    request.set_name("worker");
    request.set_data_address("127.0.0.1:1");
    grpc::ClientContext context;
    rpc::SetTimeout(context, std::chrono::seconds(20));
    const auto control = v1::ControlService::NewStub(
        rpc::MakeChannel(coordinator_->address(), rpc::Credentials()));
    EXPECT_TRUE(control->Register(&context, request, &worker_).ok());
    for (size_t i = 0; i < values_.size(); ++i) {
      values_[i] = static_cast<float>(i) / 3;
    }
  }

  void Start(bool resume, const std::string& listen = "127.0.0.1:0") {
    const auto config = config::ParseRunConfig(
        "run: {steps: 100}\ndata: {format: text, train: " +
            (folder_ / "corpus") +
            "}\nmodel: {layers: 3, hidden: 8, heads: 2, context: 8}\n"
            "checkpoint: {store: coordinator}\n"
            // The worker is only a name: nobody shall miss it.
            "cluster: {lease: 1000s, listen: '" +
            listen + "'}\n",
        "c.yaml", {});
    ASSERT_THAT(config, IsOk());
    auto coordinator = Coordinator::Start(
        {.config = *config, .run_dir = folder_ / "run", .resume = resume});
    ASSERT_THAT(coordinator, IsOk());
    coordinator_ = *std::move(coordinator);
    stub_ = v1::CheckpointService::NewStub(
        rpc::MakeChannel(coordinator_->address(), rpc::Credentials()));
  }

  CoordinatorStore::Options Options() {
    return {.coordinator = coordinator_->address(),
            .run_id = worker_.run_id(),
            .sender = [this] {
              return CoordinatorStore::Sender{worker_.worker_id(),
                                              worker_.incarnation()};
            }};
  }

  std::vector<io::TensorView> Tensors() {
    return {{"a", {3, 100000}, values_.data()},
            {"b", {200000}, values_.data() + 300000}};
  }

  std::string PathOf(int64_t update, const std::string& file) {
    return folder_ /
           ("run/checkpoints/" + io::StepFolderName(update) + "/" + file);
  }

  v1::PutChunk Header(const std::string& file) {
    v1::PutChunk chunk;
    chunk.mutable_header()->set_run_id(worker_.run_id());
    chunk.mutable_header()->set_worker_id(worker_.worker_id());
    chunk.mutable_header()->set_incarnation(worker_.incarnation());
    chunk.mutable_header()->set_update(5);
    chunk.mutable_header()->set_path(file);
    return chunk;
  }

  // A call as it should not be.
  absl::Status Send(const std::vector<v1::PutChunk>& chunks) {
    grpc::ClientContext context;
    rpc::SetTimeout(context, std::chrono::seconds(20));
    v1::PutResponse response;
    const auto writer = stub_->Put(&context, &response);
    for (const v1::PutChunk& chunk : chunks) writer->Write(chunk);
    writer->WritesDone();
    return rpc::FromGrpc(writer->Finish());
  }

  int FilesOfCheckpoints() {
    int files = 0;
    std::error_code error;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(
             folder_ / "run/checkpoints", error)) {
      const std::string name = entry.path().filename();
      files += entry.is_regular_file() && name != "run" ? 1 : 0;
    }
    return files;
  }

  // The coordinator hears of a call's end in its own time.
  void ExpectFiles(int files) {
    for (int i = 0; i < 2000 && FilesOfCheckpoints() != files; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_EQ(FilesOfCheckpoints(), files);
  }

  const test_support::TempDir folder_;
  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<v1::CheckpointService::Stub> stub_;
  v1::RegisterResponse worker_;
  std::vector<float> values_ = std::vector<float>(500000);
};

TEST_F(CheckpointServiceTest, AFileIsTheSameByEitherWay) {
  const std::string file = io::LayerFile(2);
  CoordinatorStore store(Options());
  worker::SharedFolder shared(folder_ / "shared");
  ASSERT_OK_AND_ASSIGN(const io::WrittenFile here,
                       shared.Write(5, file, Tensors()));
  ASSERT_OK_AND_ASSIGN(const io::WrittenFile there,
                       store.Write(5, file, Tensors()));
  EXPECT_EQ(there.sha256, here.sha256);
  EXPECT_EQ(there.bytes, here.bytes);
  ASSERT_OK_AND_ASSIGN(const std::string sum,
                       io::Sha256OfFile(PathOf(5, file)));
  EXPECT_EQ(sum, here.sha256);
  // Replaced by a second call, which is no other file.
  EXPECT_THAT(store.Write(5, file, Tensors()), IsOk());
  ExpectFiles(1);
  ASSERT_OK_AND_ASSIGN(const io::SafetensorsFile back, store.Open(5, file));
  std::vector<float> read(300000);
  const std::vector<int64_t> shape = {3, 100000};
  ASSERT_THAT(back.Read("a", shape, read.data()), IsOk());
  EXPECT_TRUE(std::equal(read.begin(), read.end(), values_.begin()));
  EXPECT_THAT(store.Open(5, io::LayerFile(3)),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("layer-003")));
}

TEST_F(CheckpointServiceTest, CallsAreCounted) {
  CoordinatorStore store(Options());
  ASSERT_THAT(store.Write(5, io::LayerFile(2), Tensors()), IsOk());
  ASSERT_THAT(store.Open(5, io::LayerFile(2)), IsOk());
  EXPECT_FALSE(store.Open(5, io::LayerFile(3)).ok());
  const std::string metrics =
      test_support::HttpGet(coordinator_->metrics_address(), "/metrics");
  const std::string run = "run=\"" + worker_.run_id() + "\"} ";
  for (const char* line :
       {"gimbal_rpc_seconds_count{method=\"Put\",RUN1\n",
        "gimbal_rpc_seconds_count{method=\"Get\",RUN2\n",
        "gimbal_rpc_errors_total{code=\"not_found\",method=\"Get\",RUN1\n",
        "gimbal_rpc_errors_total{code=\"not_found\",method=\"Put\",RUN0\n"}) {
    EXPECT_THAT(metrics, HasSubstr(absl::StrReplaceAll(line, {{"RUN", run}})));
  }
}

TEST_F(CheckpointServiceTest, WhatDoesNotArriveWholeIsNotThere) {
  const std::string file = io::OptimizerFile(1);
  v1::PutChunk data, sum;
  data.set_data("some bytes");
  sum.set_sha256(io::Sha256("other bytes"));
  EXPECT_THAT(Send({Header(file), data, sum}),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr(file)));
  EXPECT_THAT(Send({Header(file), data}),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr(file)));
  EXPECT_THAT(Send({data}),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("header")));
  EXPECT_THAT(Send({Header(file), Header(file)}),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr(file)));
  EXPECT_THAT(Send({}), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("")));
  ExpectFiles(0);
  sum.set_sha256(io::Sha256("some bytes"));
  EXPECT_THAT(Send({Header(file), data, sum}), IsOk());
  ExpectFiles(1);
}

TEST_F(CheckpointServiceTest, StrangersWriteNothing) {
  v1::PutChunk chunk = Header("../../../stolen");
  EXPECT_THAT(Send({chunk}), StatusIs(absl::StatusCode::kInvalidArgument,
                                      HasSubstr("stolen")));
  chunk = Header(io::LayerFile(1));
  chunk.mutable_header()->set_update(-1);
  EXPECT_THAT(Send({chunk}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("-1")));
  chunk = Header(io::LayerFile(1));
  chunk.mutable_header()->set_run_id("another");
  EXPECT_THAT(Send({chunk}), StatusIs(absl::StatusCode::kFailedPrecondition,
                                      HasSubstr("another")));
  chunk = Header(io::LayerFile(1));
  chunk.mutable_header()->set_incarnation(worker_.incarnation() + 1);
  EXPECT_THAT(Send({chunk}),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("known")));
  ExpectFiles(0);
}

// A worker that hangs in the middle of a file, given up meanwhile: whoever has
// its stage writes the file and does not wait for it.
TEST_F(CheckpointServiceTest, TheNewestCallForAFileEndsTheOneBefore) {
  const std::string file = io::StashFile(1);
  grpc::ClientContext context;
  rpc::SetTimeout(context, std::chrono::seconds(60));
  v1::PutResponse response;
  const auto hung = stub_->Put(&context, &response);
  ASSERT_TRUE(hung->Write(Header(file)));
  v1::PutChunk data;
  data.set_data("half of it");
  ASSERT_TRUE(hung->Write(data));
  while (!std::filesystem::exists(PathOf(5, file) + ".tmp")) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  CoordinatorStore store(Options());
  ASSERT_OK_AND_ASSIGN(const io::WrittenFile written,
                       store.Write(5, file, Tensors()));
  EXPECT_FALSE(hung->Finish().ok());
  ASSERT_OK_AND_ASSIGN(const std::string sum,
                       io::Sha256OfFile(PathOf(5, file)));
  EXPECT_EQ(sum, written.sha256);
  ExpectFiles(1);
}

TEST_F(CheckpointServiceTest, AWorkerThatMayNotWriteLeavesNothing) {
  CoordinatorStore::Options options = Options();
  options.may_write = [] { return absl::AbortedError("not mine any more"); };
  CoordinatorStore store(options);
  EXPECT_THAT(store.Write(5, io::LayerFile(1), Tensors()),
              StatusIs(absl::StatusCode::kCancelled, HasSubstr("not mine")));
  ExpectFiles(0);
}

TEST_F(CheckpointServiceTest, OutlastsACoordinatorAndEndsWhenTold) {
  const std::string address = coordinator_->address();
  std::stop_source stop;
  CoordinatorStore::Options options = Options();
  options.stop = stop.get_token();
  CoordinatorStore store(options);
  coordinator_.reset();
  auto written = std::async(std::launch::async, [&] {
    return store.Write(5, io::LayerFile(1), Tensors()).status();
  });
  auto opened = std::async(std::launch::async, [&] {
    return store.Open(5, io::LayerFile(0)).status();
  });
  Start(true, address);
  // There now, but it knows no such file, and no such worker yet.
  EXPECT_THAT(opened.get(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("layer-000")));
  EXPECT_EQ(written.wait_for(std::chrono::milliseconds(100)),
            std::future_status::timeout);
  stop.request_stop();
  EXPECT_THAT(written.get(),
              StatusIs(absl::StatusCode::kCancelled, HasSubstr("layer-001")));
  ExpectFiles(0);
}

}  // namespace
}  // namespace gimbal::coordinator
