// The checks of `gimbal doctor`, each on its own: what was found, whether that
// is good enough, and what to do otherwise. What a check measures is an
// argument where tests could not bring it about.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gimbal/v1/run_config.pb.h"

namespace gimbal::cli {

enum class Health { kOk, kWarning, kFail };

const char* ToString(Health health);

struct Finding {
  std::string check;  // one word, e.g. "disk"
  Health health = Health::kOk;
  std::string text;  // one line
};

// Cores that this process may use, for workers of `threads` threads each.
Finding CheckCpu(int cores, int workers, int threads);

// `devices` as FindCuda counts them, `text` as it describes them; `wanted`:
// how many there have to be.
Finding CheckGpu(int devices, const std::string& text, int wanted);

// `version` as NCCL numbers itself (22809 is 2.28.9); nothing without a
// libnccl.
Finding CheckNccl(std::optional<int> version, int devices);
// Of the libnccl.so.2 that a program here would load.
std::optional<int> NcclVersion();

// Bytes that the stages of this node need, and that there are.
Finding CheckMemory(int64_t needed, std::optional<int64_t> available);

// Soft limits of this process; RLIM_INFINITY for none.
struct Limits {
  uint64_t files = 0;          // nofile
  uint64_t locked_bytes = 0;   // memlock
  uint64_t address_bytes = 0;  // as (virtual memory)
};
Limits ReadLimits();
// `needed`: as for CheckMemory.
std::vector<Finding> CheckLimits(const Limits& limits, int64_t needed,
                                 int devices);

// Writes, syncs and removes a file in the folder, or in the nearest parent
// there is: the folder itself is not made. `check` names the finding, `option`
// is what chooses another folder.
Finding CheckWrite(const std::string& check, const std::string& folder,
                   const std::string& option);

// Room for `kept` checkpoints of `bytes` each and the one being written.
Finding CheckDisk(const std::string& folder, int64_t bytes, int kept);

// Both addresses of the coordinator, where they are of this machine.
std::vector<Finding> CheckPorts(const v1::ClusterSection& cluster);

// Whether a host's name leads to an address. `what` says whose it is.
Finding CheckName(const std::string& what, const std::string& host);

// Whether the name or address by which others shall reach this host leads here.
Finding CheckAdvertised(const std::string& host);

// Seconds by which the coordinator's clock is ahead of this one's.
Finding CheckClock(double ahead);

}  // namespace gimbal::cli
