// What carries boundary tensors between workers. Pure: every worker and the
// coordinator come to the same answer from the same placements. No number
// depends on it.
#pragma once

#include <string>

#include "gimbal/v1/control_service.pb.h"
#include "gimbal/v1/run_config.pb.h"

namespace gimbal::worker {

struct LinkChoice {
  bool nccl = false;  // else TCP, through the host's memory
  std::string reason;
};

// NCCL unless the config says TCP, where every worker has one version of it and
// a GPU of its own.
LinkChoice ChooseLinks(
    v1::Transport transport,
    const google::protobuf::RepeatedPtrField<v1::StagePlacement>& placements);

// Why a worker cannot be one of a run whose config asks for NCCL, empty when it
// can: it has none, or not the version of `other`, who is one already.
std::string LacksNccl(const v1::RegisterRequest& worker,
                      const v1::RegisterRequest* other);
// Whether both compute on one GPU.
bool SharesGpu(const v1::RegisterRequest& a, const v1::RegisterRequest& b);

// 22809: 2.28.9.
std::string NcclVersionText(int version);

}  // namespace gimbal::worker
