#include "coordinator/service/checkpoint_service.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/io/atomic_file.h"
#include "common/io/checkpoint_layout.h"
#include "common/io/mapped_file.h"
#include "common/io/sha256.h"
#include "common/rpc/status_conversion.h"
#include "gimbal/v1/checkpoint_service.grpc.pb.h"

namespace gimbal::coordinator {
namespace {

constexpr size_t kChunkBytes = size_t{1} << 20;

// One call at a time writes a file: the newest, which whoever took a stage over
// makes. The call before it, of a worker that hung perhaps, is cancelled.
class Writers {
 public:
  void Enter(const std::string& path, grpc::ServerContext* context) {
    std::unique_lock lock(mutex_);
    File& file = files_[path];
    ++file.calls;
    const uint64_t mine = ++file.newest;
    if (file.writing != nullptr) file.writing->TryCancel();
    changed_.wait(lock, [&] { return file.writing == nullptr; });
    file.writing = context;
    // Somebody came while this call waited.
    if (file.newest != mine) context->TryCancel();
  }

  void Leave(const std::string& path) {
    {
      std::lock_guard lock(mutex_);
      File& file = files_[path];
      file.writing = nullptr;
      if (--file.calls == 0) files_.erase(path);
    }
    changed_.notify_all();
  }

 private:
  struct File {
    grpc::ServerContext* writing = nullptr;
    uint64_t newest = 0;  // number of the last call
    int calls = 0;        // that write or wait
  };
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, File> files_;  // by path
};

class Turn {
 public:
  Turn(Writers& writers, std::string path, grpc::ServerContext* context)
      : writers_(writers), path_(std::move(path)) {
    writers_.Enter(path_, context);
  }
  ~Turn() { writers_.Leave(path_); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  Writers& writers_;
  const std::string path_;
};

class CheckpointService final : public v1::CheckpointService::Service {
 public:
  CheckpointService(EventLoop& loop, Core& core) : loop_(loop), core_(core) {}

  grpc::Status Put(grpc::ServerContext* context,
                   grpc::ServerReader<v1::PutChunk>* reader,
                   v1::PutResponse*) override {
    return Answer("Put", [&] { return Take(context, *reader); });
  }

  grpc::Status Get(grpc::ServerContext*, const v1::GetRequest* request,
                   grpc::ServerWriter<v1::GetChunk>* writer) override {
    return Answer("Get", [&] { return Give(*request, *writer); });
  }

 private:
  grpc::Status Answer(const char* method,
                      const std::function<absl::Status()>& call) {
    base::Stopwatch watch;
    const absl::Status status = call();
    loop_.Post([this, method, status, taken = base::Seconds(watch.Lap())] {
      core_.Answered(method, status, taken);
    });
    return rpc::ToGrpc(status);
  }

  // Path of a file of the run's checkpoints. `admits` is asked on the loop.
  absl::StatusOr<std::string> PathOf(
      const std::string& run_id, int64_t update, const std::string& file,
      const std::function<absl::Status(const RunController&)>& admits) {
    if (update < 1 || !io::IsSnapshotFile(file)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "update ", update, ", '", file, "': not a file of a checkpoint"));
    }
    std::promise<absl::StatusOr<std::string>> answer;
    loop_.Post([&] { answer.set_value(RootFor(run_id, admits)); });
    GIMBAL_ASSIGN_OR_RETURN(const std::string root, answer.get_future().get());
    return absl::StrCat(root, "/", io::StepFolderName(update), "/", file);
  }

  // On the loop.
  absl::StatusOr<std::string> RootFor(
      const std::string& run_id,
      const std::function<absl::Status(const RunController&)>& admits) const {
    if (core_.run == nullptr) {
      return absl::UnavailableError("the coordinator is starting or stopping");
    }
    const RunSetup& setup = core_.run->setup();
    if (run_id != setup.run_id) {
      return absl::FailedPreconditionError(absl::StrCat(
          "a file of run ", run_id, ", expected one of ", setup.run_id));
    }
    GIMBAL_RETURN_IF_ERROR(admits(*core_.run));
    return setup.checkpoint_root;
  }

  absl::Status Take(grpc::ServerContext* context,
                    grpc::ServerReader<v1::PutChunk>& reader) {
    v1::PutChunk chunk;
    if (!reader.Read(&chunk) || !chunk.has_header()) {
      return absl::DataLossError("a file begins with its header");
    }
    const v1::PutHeader header = chunk.header();
    const auto path = [&] {
      return PathOf(header.run_id(), header.update(), header.path(),
                    [&](const RunController& run) {
                      return run.Admits(header.worker_id(),
                                        header.incarnation());
                    });
    };
    GIMBAL_ASSIGN_OR_RETURN(const std::string at, path());
    const Turn turn(writers_, at, context);
    GIMBAL_ASSIGN_OR_RETURN(io::AtomicFile file, io::AtomicFile::Create(at));
    io::Sha256Stream hash;
    while (reader.Read(&chunk) && chunk.body_case() == v1::PutChunk::kData) {
      hash.Update(chunk.data().data(), chunk.data().size());
      GIMBAL_RETURN_IF_ERROR(file.Append(chunk.data()));
    }
    if (context->IsCancelled()) return absl::CancelledError("given up");
    if (!chunk.has_sha256() || chunk.sha256() != hash.Finish()) {
      return absl::DataLossError(
          absl::StrCat(header.path(), " did not arrive as it was sent"));
    }
    // It took a while; the worker may have been given up since.
    GIMBAL_RETURN_IF_ERROR(path().status());
    return file.Commit();
  }

  absl::Status Give(const v1::GetRequest& request,
                    grpc::ServerWriter<v1::GetChunk>& writer) {
    GIMBAL_ASSIGN_OR_RETURN(
        const std::string path,
        PathOf(request.run_id(), request.update(), request.path(),
               [](const RunController&) { return absl::OkStatus(); }));
    GIMBAL_ASSIGN_OR_RETURN(const io::MappedFile file,
                            io::MappedFile::Open(path));
    io::Sha256Stream hash;
    v1::GetChunk chunk;
    const auto bytes = file.bytes();
    for (size_t at = 0; at < bytes.size(); at += kChunkBytes) {
      const auto piece =
          bytes.subspan(at, std::min(kChunkBytes, bytes.size() - at));
      hash.Update(piece.data(), piece.size());
      chunk.set_data(piece.data(), piece.size());
      if (!writer.Write(chunk)) return absl::CancelledError("given up");
    }
    chunk.set_sha256(hash.Finish());
    writer.Write(chunk);
    return absl::OkStatus();
  }

  EventLoop& loop_;
  Core& core_;
  Writers writers_;
};

}  // namespace

std::shared_ptr<grpc::Service> MakeCheckpointService(EventLoop& loop,
                                                     Core& core) {
  return std::make_shared<CheckpointService>(loop, core);
}

}  // namespace gimbal::coordinator
