// The edges of one assignment: links between stages of this worker, and links
// to stages of other workers, which outlive a neighbour that is lost.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gimbal/v1/control_service.pb.h"
#include "worker/agent/stage_host.h"
#include "worker/transport/device_links.h"
#include "worker/transport/link_listener.h"
#include "worker/transport/tcp_link.h"

namespace gimbal::worker {

class Edges {
 public:
  // `assignment`, `host`, `signal` and `listener` must outlive the edges.
  // `on_broken` is called on a thread of the link, once per connection: see
  // TcpLinkOptions. Neighbours may connect from now on. `device`: of what
  // computes the stages.
  Edges(int64_t generation, const v1::Assignment& assignment, StageHost& host,
        Signal& signal, LinkListener& listener, DeviceLinks device,
        std::function<void(int edge, const absl::Status&)> on_broken);

  // Makes all links and joins the host's stages to them. Edges are connected in
  // ascending order on every worker, so that no two can wait for each other.
  absl::Status Connect(int64_t generation);

  // Leaves the connections of these edges; what they report from now on is of
  // no interest.
  void Leave(const google::protobuf::RepeatedField<int>& edges);
  // Connects them again, after Leave. The edge that could not be connected is
  // in the error. ABORTED when interrupted.
  absl::Status Reconnect(int64_t generation, const v1::Rewire& rewire);
  // Ends Connect or Reconnect of generations up to this one.
  void Interrupt(int64_t generation);

  // Without a connection at the moment.
  std::set<int> broken() const;
  // No stage will start again before the cut after `update`.
  void Prune(int64_t update);

 private:
  EdgeSpec SpecOf(int64_t generation, int edge) const;
  absl::StatusOr<Socket> Join(const EdgeIdentity& edge, const std::string& key,
                              const std::string& downstream);
  std::unique_ptr<TcpLink> MakeLink(const EdgeSpec& edge, Socket socket);
  using Placements = google::protobuf::RepeatedPtrField<v1::StagePlacement>;
  // As both ends of a connection have them under these placements.
  TcpLinkChannels ChannelsUnder(const Placements& placements) const;
  void Broke(int edge, const absl::Status& status);

  const v1::Assignment& assignment_;
  StageHost& host_;
  Signal& signal_;
  LinkListener& listener_;
  const DeviceLinks device_;
  const std::function<void(int, const absl::Status&)> on_broken_;
  std::atomic<int64_t> interrupted_ = 0;  // generation
  mutable std::mutex mutex_;
  std::map<int, TcpLink*> links_;  // to other workers; the host's
  std::set<int> broken_;
};

}  // namespace gimbal::worker
