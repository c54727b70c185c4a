#include "tests/cuda_host/graph.h"

#include <algorithm>
#include <utility>

namespace gimbal::cuda_host {
namespace {

class GraphRun : public Operation {
 public:
  explicit GraphRun(std::shared_ptr<const std::vector<GraphNode>> nodes)
      : nodes_(std::move(nodes)), missing_(nodes_->size()) {
    for (size_t n = 0; n < nodes_->size(); ++n) {
      missing_[n] = static_cast<int>((*nodes_)[n].after.size());
      if (missing_[n] == 0) Start(static_cast<int>(n));
    }
  }

  bool Ready() const override {
    return running_.empty() ||
           std::any_of(running_.begin(), running_.end(), [](const auto& node) {
             return node.operation->Ready();
           });
  }

  bool Step(Random& random) override {
    std::vector<size_t> ready;
    for (size_t i = 0; i < running_.size(); ++i) {
      if (running_[i].operation->Ready()) ready.push_back(i);
    }
    if (ready.empty()) return running_.empty();
    const size_t i = ready[random.Below(static_cast<uint32_t>(ready.size()))];
    if (!running_[i].operation->Step(random)) return false;
    error_ = running_[i].operation->Error();
    if (!error_.empty()) return true;
    const int ended = running_[i].number;
    running_.erase(running_.begin() + static_cast<ptrdiff_t>(i));
    StartFollowers(ended);
    return running_.empty();
  }

  std::string Error() const override { return error_; }

 private:
  struct Running {
    int number;
    std::unique_ptr<Operation> operation;
  };

  void Start(int number) {
    running_.push_back({number, (*nodes_)[static_cast<size_t>(number)].make()});
  }

  void StartFollowers(int ended) {
    for (size_t n = static_cast<size_t>(ended) + 1; n < nodes_->size(); ++n) {
      const std::vector<int>& after = (*nodes_)[n].after;
      if (std::find(after.begin(), after.end(), ended) == after.end()) continue;
      if (--missing_[n] == 0) Start(static_cast<int>(n));
    }
  }

  const std::shared_ptr<const std::vector<GraphNode>> nodes_;
  std::vector<int> missing_;
  std::vector<Running> running_;
  std::string error_;
};

}  // namespace

void Capture::Add(CUstream_st* stream, const MakeOperation& make) {
  std::vector<int>& tip = tips[stream];
  nodes.push_back({make, tip});
  tip = {static_cast<int>(nodes.size()) - 1};
}

void Capture::Join(CUstream_st* stream, const std::vector<int>& event_tips) {
  std::vector<int>& tip = tips[stream];
  for (int node : event_tips) {
    if (std::find(tip.begin(), tip.end(), node) == tip.end()) {
      tip.push_back(node);
    }
  }
}

bool Capture::IsJoined() const {
  std::vector<bool> before(nodes.size(), false);
  for (int tip : tips.at(origin)) before[static_cast<size_t>(tip)] = true;
  for (size_t n = nodes.size(); n-- > 0;) {
    if (!before[n]) return false;
    for (int earlier : nodes[n].after) {
      before[static_cast<size_t>(earlier)] = true;
    }
  }
  return true;
}

MakeOperation LaunchNodes(std::shared_ptr<const std::vector<GraphNode>> nodes) {
  return
      [nodes = std::move(nodes)] { return std::make_unique<GraphRun>(nodes); };
}

}  // namespace gimbal::cuda_host
