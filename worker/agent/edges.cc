#include "worker/agent/edges.h"

#include <unistd.h>

#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/duration.h"
#include "common/base/log.h"
#include "common/base/random.h"
#include "common/base/status_macros.h"
#include "worker/pipeline/link_choice.h"
#include "worker/pipeline/memory_plan.h"
#include "worker/pipeline/specs.h"
#include "worker/transport/inprocess_link.h"

namespace gimbal::worker {
namespace {

// Where messages go that take too much memory: the checkpoints' folder, which
// is meant for large files, where workers reach it.
std::string SpillFolder(const v1::Assignment& assignment) {
  return assignment.config().checkpoint().store() ==
                 v1::CHECKPOINT_STORE_KIND_COORDINATOR
             ? std::filesystem::temp_directory_path().string()
             : assignment.checkpoint_root();
}

// Two checkpoints of the run: the next is written before the last one goes.
int64_t CheckpointBytes(const v1::Assignment& assignment) {
  int64_t bytes = 0;
  for (const v1::StagePlacement& placement : assignment.placements()) {
    bytes += 2 * PlanStage(assignment.config(), placement).snapshot;
  }
  return bytes;
}

// Time to reach a neighbour's listener, which is there before its stages are.
constexpr std::chrono::seconds kConnectTime{30};

// Whoever is left sees the connections close, and another process takes the
// stages.
void EndProcess(const std::string& why) {
  base::LogError(absl::StrCat(why, ": this process ends, for what it holds ",
                              "cannot be freed otherwise"));
  _exit(1);
}

}  // namespace

Edges::Edges(int64_t generation, const v1::Assignment& assignment,
             StageHost& host, Signal& signal, LinkListener& listener,
             DeviceLinks device,
             std::function<void(int, const absl::Status&)> on_broken)
    : assignment_(assignment),
      host_(host),
      signal_(signal),
      listener_(listener),
      device_(std::move(device)),
      on_broken_(std::move(on_broken)) {
  listener_.Admit(base::StreamOf(assignment_.run_id()), generation,
                  assignment_.link_key());
}

EdgeSpec Edges::SpecOf(int64_t generation, int edge) const {
  const v1::RunConfig& config = assignment_.config();
  return {
      .identity = {.run = base::StreamOf(assignment_.run_id()),
                   .generation = generation,
                   .edge = edge},
      .rows = int64_t{config.batch().microbatch()} * config.model().context(),
      .cols = config.model().hidden(),
      .wire = WireFormatOf(config)};
}

absl::Status Edges::Connect(int64_t generation) {
  const int stages = assignment_.config().pipeline().stages();
  std::vector<std::pair<Link*, Link*>> ends(  // of each stage: up, down
      static_cast<size_t>(stages));
  for (int edge = 0; edge + 1 < stages; ++edge) {
    const bool up_here = host_.Find(edge) != nullptr;
    const bool down_here = host_.Find(edge + 1) != nullptr;
    if (!up_here && !down_here) continue;
    const EdgeSpec spec = SpecOf(generation, edge);
    if (up_here && down_here) {
      auto [up, down] =
          InProcessLink::MakePair(spec, signal_, *device_.tensors);
      ends[edge].second = up.get();
      ends[edge + 1].first = down.get();
      host_.Add(std::move(up));
      host_.Add(std::move(down));
      continue;
    }
    GIMBAL_ASSIGN_OR_RETURN(
        Socket socket, Join(spec.identity, assignment_.link_key(),
                            assignment_.placements(edge + 1).data_address()));
    std::unique_ptr<TcpLink> link = MakeLink(spec, std::move(socket));
    (up_here ? ends[edge].second : ends[edge + 1].first) = link.get();
    host_.Add(std::move(link));
  }
  for (const auto& runner : host_.runners()) {
    runner->Connect(ends[runner->index()].first, ends[runner->index()].second);
  }
  return absl::OkStatus();
}

absl::StatusOr<Socket> Edges::Join(const EdgeIdentity& edge,
                                   const std::string& key,
                                   const std::string& downstream) {
  if (host_.Find(edge.edge) == nullptr) return listener_.Accept(edge);
  return DialEdge(
      downstream, edge, key, base::Clock::Real().Now() + kConnectTime,
      [&] { return host_.cancelled() || interrupted_ >= edge.generation; });
}

std::unique_ptr<TcpLink> Edges::MakeLink(const EdgeSpec& edge, Socket socket) {
  const v1::RunConfig& config = assignment_.config();
  const int number = edge.identity.edge;
  TcpLinkOptions options{
      .received = Positions::AtCut(assignment_.start_update(),
                                   config.batch().accumulate()),
      .log = {.memory_bytes = int64_t{config.cluster().replay_memory_mb()}
                              << 20,
              .disk_bytes = int64_t{config.cluster().replay_disk_mb()} << 20,
              .folder = SpillFolder(assignment_),
              .reserve_bytes = CheckpointBytes(assignment_)},
      .on_broken =
          [this, number](const absl::Status& status) { Broke(number, status); },
      .tensors = device_.tensors,
      .host = device_.host,
      .channels = ChannelsUnder(assignment_.placements())};
  auto link = std::make_unique<TcpLink>(edge, std::move(socket), signal_,
                                        std::move(options));
  std::lock_guard lock(mutex_);
  links_[number] = link.get();
  return link;
}

TcpLinkChannels Edges::ChannelsUnder(const Placements& placements) const {
  const v1::ClusterSection& cluster = assignment_.config().cluster();
  if (!ChooseLinks(cluster.transport(), placements).nccl) return {};
  return {.maker = device_.channels,
          .timeout = std::chrono::duration_cast<std::chrono::milliseconds>(
              base::SecondsOf(cluster.link_timeout())),
          .stuck = EndProcess};
}

void Edges::Broke(int edge, const absl::Status& status) {
  {
    std::lock_guard lock(mutex_);
    if (!broken_.insert(edge).second) return;  // left
  }
  on_broken_(edge, status);
}

void Edges::Leave(const google::protobuf::RepeatedField<int>& edges) {
  std::vector<TcpLink*> links;
  {
    std::lock_guard lock(mutex_);
    for (const int edge : edges) {
      const auto link = links_.find(edge);
      if (link == links_.end()) continue;
      broken_.insert(edge);
      links.push_back(link->second);
    }
  }
  for (TcpLink* link : links) link->Leave();
  for (TcpLink* link : links) link->Detach();
}

absl::Status Edges::Reconnect(int64_t generation, const v1::Rewire& rewire) {
  listener_.Admit(base::StreamOf(assignment_.run_id()), generation,
                  rewire.link_key());
  const std::set<int> edges(rewire.edges().begin(), rewire.edges().end());
  for (const int edge : edges) {
    TcpLink* link = nullptr;
    {
      std::lock_guard lock(mutex_);
      const auto found = links_.find(edge);
      if (found == links_.end()) continue;
      link = found->second;
    }
    absl::StatusOr<Socket> socket =
        Join(SpecOf(generation, edge).identity, rewire.link_key(),
             rewire.placements(edge + 1).data_address());
    if (!socket.ok()) return socket.status();
    {
      std::lock_guard lock(mutex_);
      broken_.erase(edge);
    }
    link->Attach(generation, std::move(socket).value(),
                 ChannelsUnder(rewire.placements()));
  }
  return absl::OkStatus();
}

void Edges::Interrupt(int64_t generation) {
  interrupted_ = generation;
  listener_.Abandon(base::StreamOf(assignment_.run_id()), generation);
}

std::set<int> Edges::broken() const {
  std::lock_guard lock(mutex_);
  return broken_;
}

void Edges::Prune(int64_t update) {
  const Positions cut =
      Positions::AtCut(update, assignment_.config().batch().accumulate());
  std::lock_guard lock(mutex_);
  for (const auto& [edge, link] : links_) link->Prune(cut);
}

}  // namespace gimbal::worker
