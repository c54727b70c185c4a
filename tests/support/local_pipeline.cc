#include "tests/support/local_pipeline.h"

#include <algorithm>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/random.h"
#include "common/io/checkpoint_layout.h"
#include "worker/checkpoint/snapshot_writer.h"
#include "worker/compute/runtime.h"
#include "worker/transport/inprocess_link.h"
#include "worker/transport/link_listener.h"
#include "worker/transport/tcp_link.h"

namespace gimbal::test_support {
namespace {

constexpr char kLinkKey[] = "a key that all workers of the test know";

using namespace worker;  // NOLINT: this file is glue for that namespace

class VectorTokens final : public TokenSource {
 public:
  explicit VectorTokens(std::vector<int32_t> tokens)
      : tokens_(std::move(tokens)) {}
  int64_t size() const override { return static_cast<int64_t>(tokens_.size()); }
  void Read(int64_t begin, int64_t count, int32_t* out) const override {
    std::copy_n(tokens_.begin() + begin, count, out);
  }

 private:
  const std::vector<int32_t> tokens_;
};

// One worker: a thread with some consecutive stages.
struct LocalWorker {
  Signal signal;
  std::unique_ptr<LinkListener> listener;
  std::vector<std::unique_ptr<StageRunner>> runners;
  std::vector<std::unique_ptr<Link>> links;
  std::unique_ptr<CheckpointStore> checkpoints;
  std::unique_ptr<SnapshotWriter> snapshots;
  std::unique_ptr<Executor> executor;
  absl::Status status;
};

class LocalPipeline {
 public:
  explicit LocalPipeline(const PipelineOptions& options)
      : options_(options),
        train_tokens_(RandomTokens(3000, options.model.vocab, 1)),
        valid_tokens_(RandomTokens(500, options.model.vocab, 2)),
        train_(*train_tokens_, options.model.context, options.microbatch,
               options.seed, true),
        valid_(*valid_tokens_, options.model.context, options.microbatch,
               options.seed, false) {}

  PipelineResult Run() {
    compute::SetThreads(1);
    Build();
    Connect();
    const int64_t fed =
        options_.fed_updates > 0 ? options_.fed_updates : options_.updates;
    std::vector<std::thread> threads;
    for (auto& worker : workers_) {
      threads.emplace_back([this, fed, w = worker.get()] {
        compute::PrepareComputeThread();
        w->executor->Extend({options_.updates, fed, options_.cuts, Refresh(),
                             options_.left_out});
        w->status = w->executor->Run();
        w->snapshots->Flush();
      });
    }
    if (fed > options_.updates) StopAtTheCut();
    for (std::thread& thread : threads) thread.join();
    for (const auto& worker : workers_) {
      const bool stopped =
          fed > options_.updates && absl::IsCancelled(worker->status);
      if (!stopped) result_.status.Update(worker->status);
    }
    CollectWeights();
    return std::move(result_);
  }

 private:
  int stages() const { return options_.schedule.stages; }
  std::map<int, std::vector<RefreshRule>> Refresh() const {
    std::map<int, std::vector<RefreshRule>> rules;
    for (int s = 0; s < stages(); ++s) {
      rules[s] = {{.period = static_cast<double>(options_.refresh_period)}};
    }
    return rules;
  }
  LocalWorker& WorkerOf(int stage) {
    return *workers_[static_cast<size_t>(stage * options_.workers / stages())];
  }
  StageRunner& RunnerOf(int stage) {
    for (const auto& runner : WorkerOf(stage).runners) {
      if (runner->index() == stage) return *runner;
    }
    base::CheckFailed(__FILE__, __LINE__, "stage not found");
  }

  void Build() {
    for (int i = 0; i < options_.workers; ++i) {
      workers_.push_back(std::make_unique<LocalWorker>());
      workers_.back()->listener = *LinkListener::Start("127.0.0.1:0");
      workers_.back()->checkpoints =
          std::make_unique<SharedFolder>(options_.checkpoint_root);
      workers_.back()->snapshots = std::make_unique<SnapshotWriter>(
          *workers_.back()->checkpoints, workers_.back()->signal,
          [this](const SnapshotResult& result) {
            std::lock_guard lock(mutex_);
            result_.status.Update(result.status);
          });
    }
    const std::vector<StageSpec> specs =
        SplitEvenly(options_.model, stages(), options_.microbatch);
    for (int s = 0; s < stages(); ++s) {
      auto runner = std::make_unique<StageRunner>(
          StageOptions{.spec = {.stage = specs[static_cast<size_t>(s)],
                                .schedule = options_.schedule,
                                .index = s,
                                .update = {.optimizer = options_.optimizer,
                                           .lr = options_.lr,
                                           .clip = options_.clip,
                                           .mitigation = options_.mitigation},
                                .wire = options_.wire},
                       .engine = options_.engine,
                       .eval_batches = options_.eval_batches,
                       .train = &train_,
                       .valid = &valid_,
                       .poisoned_update = s == options_.poisoned_stage
                                              ? options_.poisoned_update
                                              : 0},
          EventsOf(s));
      if (options_.start > 0) {
        result_.status.Update(LoadStage(*WorkerOf(s).checkpoints,
                                        options_.start, &runner->state()));
      } else {
        runner->state().Initialize(options_.seed, options_.init_std);
      }
      WorkerOf(s).runners.push_back(std::move(runner));
    }
  }

  StageEvents EventsOf(int stage) {
    return {.updated = [this](const UpdateReport& report) { OnUpdate(report); },
            .evaluated =
                [this](int64_t update, double loss) {
                  std::lock_guard lock(mutex_);
                  result_.evaluations[update] = loss;
                },
            .snapshot =
                [this, stage](int, int64_t update, const StageState& state) {
                  return WorkerOf(stage).snapshots->Take(stage, update, state);
                }};
  }

  void OnUpdate(const UpdateReport& report) {
    {
      std::lock_guard lock(mutex_);
      auto& squares = result_.squares[report.update];
      auto& staleness = result_.staleness[report.update];
      squares.resize(static_cast<size_t>(stages()));
      staleness.resize(static_cast<size_t>(stages()));
      squares[static_cast<size_t>(report.stage)] = report.gradient_square_sum;
      staleness[static_cast<size_t>(report.stage)] = report.staleness;
      if (report.loss) result_.losses[report.update] = *report.loss;
    }
    if (options_.on_update) options_.on_update(report);
  }

  void Connect() {
    std::vector<std::pair<Link*, Link*>> ends(static_cast<size_t>(stages()));
    for (int s = 0; s + 1 < stages(); ++s) {
      LocalWorker& a = WorkerOf(s);
      LocalWorker& b = WorkerOf(s + 1);
      auto [up, down] = &a == &b
                            ? InProcessLink::MakePair(SpecOf(s), a.signal,
                                                      *options_.links.tensors)
                            : TcpPair(SpecOf(s), a, b);
      ends[static_cast<size_t>(s)].second = up.get();
      ends[static_cast<size_t>(s + 1)].first = down.get();
      a.links.push_back(std::move(up));
      b.links.push_back(std::move(down));
    }
    for (auto& worker : workers_) {
      std::vector<StageRunner*> runners;
      for (const auto& runner : worker->runners) {
        const auto [up, down] = ends[static_cast<size_t>(runner->index())];
        runner->Connect(up, down);
        runner->Start(options_.start);
        runners.push_back(runner.get());
      }
      worker->executor =
          std::make_unique<Executor>(std::move(runners), worker->signal);
    }
  }

  EdgeSpec SpecOf(int edge) const {
    return {{.run = 1, .generation = 1, .edge = edge},
            int64_t{options_.microbatch} * options_.model.context,
            options_.model.hidden,
            options_.wire};
  }

  std::pair<std::unique_ptr<Link>, std::unique_ptr<Link>> TcpPair(
      const EdgeSpec& spec, LocalWorker& a, LocalWorker& b) const {
    const auto deadline = base::Clock::Real().Now() + std::chrono::seconds(20);
    b.listener->Admit(spec.identity.run, spec.identity.generation, kLinkKey);
    absl::StatusOr<Socket> dialled;
    std::thread dialler([&] {
      dialled = DialEdge(b.listener->address(), spec.identity, kLinkKey,
                         deadline, [] { return false; });
    });
    absl::StatusOr<Socket> accepted =
        b.listener->Accept(spec.identity, deadline);
    dialler.join();
    const TcpLinkOptions options{.tensors = options_.links.tensors,
                                 .host = options_.links.host};
    return {std::make_unique<TcpLink>(spec, std::move(dialled).value(),
                                      a.signal, options),
            std::make_unique<TcpLink>(spec, std::move(accepted).value(),
                                      b.signal, options)};
  }

  // Every stage stops by itself before the first update that is not granted.
  void StopAtTheCut() {
    for (int s = 0; s < stages(); ++s) {
      while (RunnerOf(s).status().weight_version < options_.updates ||
             RunnerOf(s).status().activity.find("leave") == std::string::npos) {
        std::this_thread::yield();
      }
    }
    for (auto& worker : workers_) worker->executor->Cancel();
  }

  void CollectWeights() {
    for (int s = 0; s < stages(); ++s) {
      StageState& state = RunnerOf(s).state();
      const float* weights = state.newest();
      for (const Param& param : state.table().params()) {
        auto& values = result_.weights[param.name];
        values.resize(static_cast<size_t>(param.size()));
        state.engine().Read(weights + param.offset, param.size(),
                            values.data());
      }
    }
  }

  const PipelineOptions options_;
  const std::unique_ptr<TokenSource> train_tokens_, valid_tokens_;
  const BatchSampler train_, valid_;
  std::mutex mutex_;
  PipelineResult result_;
  std::vector<std::unique_ptr<LocalWorker>> workers_;
};

}  // namespace

std::unique_ptr<TokenSource> RandomTokens(int64_t count, int vocab,
                                          uint64_t seed) {
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  for (size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<int32_t>(base::RandomBits(seed, 0, i) %
                                     static_cast<uint64_t>(vocab));
  }
  return std::make_unique<VectorTokens>(std::move(tokens));
}

std::vector<StageSpec> SplitEvenly(const ModelSpec& model, int stages,
                                   int microbatch) {
  std::vector<StageSpec> specs;
  for (int s = 0; s < stages; ++s) {
    const int begin = model.layers * s / stages;
    const int end = model.layers * (s + 1) / stages;
    specs.push_back({.model = model,
                     .first_block = begin,
                     .blocks = end - begin,
                     .first = s == 0,
                     .last = s == stages - 1,
                     .microbatch = microbatch});
  }
  return specs;
}

bool PipelineResult::SameNumbers(const PipelineResult& other) const {
  return losses == other.losses && evaluations == other.evaluations &&
         squares == other.squares && staleness == other.staleness &&
         weights == other.weights;
}

PipelineResult RunPipeline(const PipelineOptions& options) {
  return LocalPipeline(options).Run();
}

}  // namespace gimbal::test_support
