#include "coordinator/membership/worker_table.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "worker/pipeline/link_choice.h"

namespace gimbal::coordinator {
namespace {

// Terminals, logs and pages show these.
absl::Status CheckPrintable(const v1::RegisterRequest& request) {
  for (const std::string* text :
       {&request.name(), &request.data_address(), &request.metrics_address(),
        &request.numerics(), &request.snapshot_address(), &request.gpu(),
        &request.nccl_missing()}) {
    if (std::ranges::any_of(*text, absl::ascii_iscntrl)) {
      return absl::InvalidArgumentError(
          absl::StrCat("control characters in '", absl::CHexEscape(*text),
                       "', expected a worker's name and addresses in plain "
                       "text (--name, --listen, --advertise)"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status WorkerTable::Register(int64_t id,
                                   const v1::RegisterRequest& request,
                                   base::SteadyTime now) {
  GIMBAL_CHECK(workers_.empty() || workers_.rbegin()->first < id);
  GIMBAL_RETURN_IF_ERROR(CheckPrintable(request));
  if (request.data_address().empty()) {
    return absl::InvalidArgumentError(
        "data_address: empty, expected the host:port of the worker's links");
  }
  if (needs_.reduced_precision && !request.reduced_precision()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "worker ", request.name(), " computes with '", request.numerics(),
        "', which has neither bf16 nor tf32; the run asks for one "
        "(precision.compute, precision.matmul): start the worker with --device "
        "cuda on a machine with a GPU"));
  }
  if (!numerics_.empty() && request.numerics() != numerics_) {
    return absl::FailedPreconditionError(absl::StrCat(
        "worker ", request.name(), " computes with '", request.numerics(),
        "', the run with '", numerics_,
        "': their results would differ in the last bits; use machines of one "
        "kind and one build"));
  }
  if (needs_.nccl) GIMBAL_RETURN_IF_ERROR(CheckNccl(request));
  numerics_ = request.numerics();
  Worker& worker = workers_[id];
  worker.id = id;
  worker.facts = request;
  worker.last_heard = worker.lease_begin = now;
  return absl::OkStatus();
}

absl::Status WorkerTable::CheckNccl(const v1::RegisterRequest& request) const {
  const v1::RegisterRequest* first =
      workers_.empty() ? nullptr : &workers_.begin()->second.facts;
  const std::string lacks = worker::LacksNccl(request, first);
  if (!lacks.empty()) return absl::FailedPreconditionError(lacks);
  for (const auto& [id, worker] : workers_) {
    if (!worker::SharesGpu(request, worker.facts)) continue;
    return absl::UnavailableError(absl::StrCat(
        "worker ", request.name(), " would share ", request.gpu(), " with ",
        worker.facts.name(), ", which NCCL does not allow; one worker with ",
        "several stages per GPU, or cluster.transport tcp"));
  }
  return absl::OkStatus();
}

absl::Status WorkerTable::Heard(int64_t id, int64_t incarnation,
                                base::SteadyTime now) {
  Worker* worker = Find(id);
  if (worker == nullptr || incarnation != id) {
    return absl::AbortedError(
        absl::StrCat("worker ", id, " incarnation ", incarnation,
                     " is not a member of the run (any more): register again"));
  }
  worker->in_session = true;
  worker->last_heard = worker->lease_begin = now;
  return absl::OkStatus();
}

void WorkerTable::RenewAll(base::SteadyTime now) {
  for (auto& [id, worker] : workers_) worker.lease_begin = now;
}

std::vector<int64_t> WorkerTable::Expired(base::SteadyTime now) const {
  std::vector<int64_t> ids;
  for (const auto& [id, worker] : workers_) {
    if (now - worker.lease_begin > lease_) ids.push_back(id);
  }
  return ids;
}

std::vector<int64_t> WorkerTable::Alive(base::SteadyTime since) const {
  std::vector<int64_t> ids;
  for (const auto& [id, worker] : workers_) {
    if (worker.in_session && worker.last_heard >= since) ids.push_back(id);
  }
  return ids;
}

Worker* WorkerTable::Find(int64_t id) {
  const auto it = workers_.find(id);
  return it == workers_.end() ? nullptr : &it->second;
}

const Worker* WorkerTable::Find(int64_t id) const {
  return const_cast<WorkerTable*>(this)->Find(id);
}

}  // namespace gimbal::coordinator
