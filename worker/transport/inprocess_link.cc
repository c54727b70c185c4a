#include "worker/transport/inprocess_link.h"

namespace gimbal::worker {

std::pair<std::unique_ptr<Link>, std::unique_ptr<Link>> InProcessLink::MakePair(
    const EdgeSpec& spec, Signal& signal, compute::Memory& tensors) {
  auto up =
      std::unique_ptr<InProcessLink>(new InProcessLink(spec, signal, tensors));
  auto down =
      std::unique_ptr<InProcessLink>(new InProcessLink(spec, signal, tensors));
  up->peer_ = down->inbox_;
  down->peer_ = up->inbox_;
  return {std::move(up), std::move(down)};
}

void InProcessLink::Close() {
  const auto closed = absl::UnavailableError("the link was closed");
  inbox_->Fail(closed);
  peer_->Fail(closed);
}

}  // namespace gimbal::worker
