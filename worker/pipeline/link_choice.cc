#include "worker/pipeline/link_choice.h"

#include <map>

#include "absl/strings/str_cat.h"

namespace gimbal::worker {

LinkChoice ChooseLinks(
    v1::Transport transport,
    const google::protobuf::RepeatedPtrField<v1::StagePlacement>& placements) {
  if (transport == v1::TRANSPORT_TCP) {
    return {.reason = "cluster.transport is tcp"};
  }
  std::map<std::string, int64_t> owners;  // of the GPUs
  for (const v1::StagePlacement& placement : placements) {
    const int64_t worker = placement.worker_id();
    const int version = placement.nccl_version();
    if (placement.gpu().empty() || version == 0) {
      return {.reason = absl::StrCat("worker ", worker, " has no ",
                                     placement.gpu().empty() ? "GPU" : "NCCL")};
    }
    if (version != placements[0].nccl_version()) {
      return {.reason = absl::StrCat(
                  "workers have NCCL ", NcclVersionText(version), " and ",
                  NcclVersionText(placements[0].nccl_version()))};
    }
    const int64_t owner = owners.emplace(placement.gpu(), worker).first->second;
    if (owner != worker) {
      return {.reason =
                  absl::StrCat("workers ", owner, " and ", worker, " share ",
                               placement.gpu(), ", which NCCL does not allow")};
    }
  }
  return {.nccl = true, .reason = "every worker has it, and its own GPU"};
}

std::string LacksNccl(const v1::RegisterRequest& worker,
                      const v1::RegisterRequest* other) {
  constexpr char kInstead[] = "; or set cluster.transport to tcp or auto";
  const int version = worker.nccl_version();
  if (worker.gpu().empty() || version == 0) {
    return absl::StrCat(
        "worker ", worker.name(), " cannot take part under cluster.transport ",
        "nccl: ",
        worker.gpu().empty() ? "it computes on no GPU" : worker.nccl_missing(),
        kInstead);
  }
  if (other == nullptr || other->nccl_version() == version) return "";
  return absl::StrCat("worker ", worker.name(), " has NCCL ",
                      NcclVersionText(version), ", worker ", other->name(), " ",
                      NcclVersionText(other->nccl_version()),
                      ": install one version everywhere", kInstead);
}

bool SharesGpu(const v1::RegisterRequest& a, const v1::RegisterRequest& b) {
  return !a.gpu().empty() && a.gpu() == b.gpu();
}

std::string NcclVersionText(int version) {
  return absl::StrCat(version / 10000, ".", version / 100 % 100, ".",
                      version % 100);
}

}  // namespace gimbal::worker
