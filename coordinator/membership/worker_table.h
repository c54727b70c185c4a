// The workers of a run and their leases. Pure: time is an argument.
//
// A worker is admitted (Register), opens its session with its first message
// (Heard), stays as long as it is heard of within every lease, and leaves for
// good (Remove) when its session ends or its lease runs out. A process that
// comes back is a new worker: incarnations grow by one with every admission and
// are never used twice, so nothing that an old one still sends can be taken for
// the new one's. Names are labels for people and may repeat.
//
// Not thread-safe; runs on the coordinator's loop.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/base/clock.h"
#include "gimbal/v1/control_service.pb.h"

namespace gimbal::coordinator {

struct Worker {
  int64_t id = 0;  // also its incarnation
  v1::RegisterRequest facts;
  bool in_session = false;
  base::SteadyTime last_heard;
  base::SteadyTime lease_begin;  // last_heard, or a later RenewAll
  int64_t peak_rss_bytes = 0;
  // Since it has said that it records no trace, though it was told to.
  std::optional<base::SteadyTime> untraced_since;
  bool untraced = false;      // for so long that it is a decision
  std::string trace_failure;  // as its last heartbeat said
};

class WorkerTable {
 public:
  // What the config asks of workers.
  struct Needs {
    bool nccl = false;
    bool reduced_precision = false;
  };
  explicit WorkerTable(base::Seconds lease) : WorkerTable(lease, Needs()) {}
  WorkerTable(base::Seconds lease, Needs needs)
      : lease_(lease), needs_(needs) {}

  // Admits worker `id`, larger than every id before. The first worker decides
  // the numerics of the run; FAILED_PRECONDITION for another value,
  // INVALID_ARGUMENT for a request without a data address. In bf16:
  // FAILED_PRECONDITION for a worker that does not compute in it. With NCCL:
  // FAILED_PRECONDITION for a worker without it, UNAVAILABLE as long as another
  // worker has the same GPU, which may be one that is lost already.
  absl::Status Register(int64_t id, const v1::RegisterRequest& request,
                        base::SteadyTime now);

  // Renews the lease. ABORTED when the sender is not a current worker.
  absl::Status Heard(int64_t id, int64_t incarnation, base::SteadyTime now);

  // Every lease begins anew. Who was alive when (Alive) stays as it was.
  void RenewAll(base::SteadyTime now);

  // False when there was no such worker.
  bool Remove(int64_t id) { return workers_.erase(id) > 0; }

  // Workers whose lease has run out, by id; they stay until removed.
  std::vector<int64_t> Expired(base::SteadyTime now) const;

  // Workers in session that were heard of at or after `since`, by id.
  std::vector<int64_t> Alive(base::SteadyTime since) const;

  Worker* Find(int64_t id);
  const Worker* Find(int64_t id) const;
  const std::map<int64_t, Worker>& workers() const { return workers_; }

 private:
  absl::Status CheckNccl(const v1::RegisterRequest& request) const;

  base::Seconds lease_;
  Needs needs_;
  std::string numerics_;  // of the run; empty until the first was admitted
  std::map<int64_t, Worker> workers_;
};

}  // namespace gimbal::coordinator
