#include "coordinator/cli/doctor_checks.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <netdb.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/clock.h"
#include "common/config/paths.h"
#include "common/io/unique_fd.h"
#include "coordinator/cli/format.h"
#include "coordinator/cli/port_check.h"
#include "worker/compute/isa.h"

namespace gimbal::cli {
namespace {

namespace fs = std::filesystem;

// A worker holds two descriptors per edge, those of gRPC and its files; the
// coordinator some per worker.
constexpr uint64_t kFewFiles = 1024;
// Logs and certificates' dates are compared across nodes; nothing else is.
constexpr double kSkew = 5;
// A disk that syncs more slowly holds up every checkpoint.
constexpr base::Seconds kSlowSync{2};

// The folder, or the nearest parent there is.
fs::path NearestFolder(const std::string& folder) {
  std::error_code error;
  fs::path at = fs::absolute(folder, error);
  while (!fs::exists(at, error) && at.has_relative_path()) {
    at = at.parent_path();
  }
  return at;
}

// Empty, or why a file cannot be written in `folder`.
std::string TryWrite(const fs::path& folder) {
  std::string path = (folder / ".gimbal-doctor-XXXXXX").string();
  const io::UniqueFd fd(mkostemp(path.data(), O_CLOEXEC));
  if (!fd.valid()) return std::strerror(errno);
  const std::string bytes(4096, 'x');
  const bool written = write(fd.get(), bytes.data(), bytes.size()) ==
                       static_cast<ssize_t>(bytes.size());
  const int error = written && fsync(fd.get()) == 0 ? 0 : errno;
  unlink(path.c_str());
  return error == 0 ? "" : std::strerror(error);
}

}  // namespace

const char* ToString(Health health) {
  switch (health) {
    case Health::kOk:
      return "ok";
    case Health::kWarning:
      return "warning";
    case Health::kFail:
      break;
  }
  return "fail";
}

Finding CheckCpu(int cores, int workers, int threads) {
  const char* vectors =
      compute::IsSupported(compute::Isa::kV4) ? "AVX-512"
      : compute::IsSupported(compute::Isa::kV3)
          ? "AVX2 and FMA"
          : "no AVX2, which makes training several times slower";
  const std::string found =
      absl::StrCat(vectors, ", ", cores, " cores for ", workers, " workers of ",
                   threads, " threads (cluster.threads)");
  if (cores >= workers * threads && compute::IsSupported(compute::Isa::kV3)) {
    return {"cpu", Health::kOk, found};
  }
  return {"cpu", Health::kWarning,
          cores >= workers * threads
              ? found
              : found +
                    ": they will wait for each other; ask for more cores "
                    "or put fewer workers here"};
}

Finding CheckGpu(int devices, const std::string& text, int wanted) {
  if (devices >= wanted) return {"gpu", Health::kOk, text};
  return {"gpu", Health::kFail,
          absl::StrCat(text, "; ", wanted,
                       " wanted (--gpus): install the driver, ask the "
                       "scheduler for GPUs, or compute on the CPU")};
}

std::optional<int> NcclVersion() {
  void* library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return std::nullopt;
  using GetVersion = int (*)(int*);
  const auto get =
      reinterpret_cast<GetVersion>(dlsym(library, "ncclGetVersion"));
  int version = 0;
  if (get == nullptr || get(&version) != 0) return std::nullopt;
  return version;
}

Finding CheckNccl(std::optional<int> version, int devices) {
  if (!version) {
    return devices < 2
               ? Finding{"nccl", Health::kOk, "not here, and not needed"}
               : Finding{"nccl", Health::kFail,
                         "libnccl.so.2 not found, which links GPUs; install "
                         "NCCL 2.28.9 or newer"};
  }
  const std::string text = absl::StrFormat(
      "NCCL %d.%d.%d", *version / 10000, *version / 100 % 100, *version % 100);
  // Advised against by NVIDIA: an abort may hang.
  if (*version >= 22803 && *version <= 22808) {
    return {"nccl", devices > 0 ? Health::kFail : Health::kWarning,
            text +
                " does not recover from a lost peer; install 2.28.9 or "
                "newer"};
  }
  return {"nccl", Health::kOk, text};
}

Finding CheckMemory(int64_t needed, std::optional<int64_t> available) {
  const std::string need =
      absl::StrCat("the stages here need about ", FormatBytes(needed));
  if (!available) {
    return {"memory", Health::kWarning,
            need + "; how much there is, the system does not say"};
  }
  const std::string text = absl::StrCat(need, " of ", FormatBytes(*available));
  if (needed <= *available) return {"memory", Health::kOk, text};
  return {"memory", Health::kFail,
          text +
              ": workers would be killed; use more nodes, more stages or a "
              "smaller batch.microbatch (`gimbal plan` shows the stages)"};
}

Limits ReadLimits() {
  const auto soft = [](auto which) -> uint64_t {
    rlimit limit = {};
    return getrlimit(which, &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
  };
  return {.files = soft(RLIMIT_NOFILE),
          .locked_bytes = soft(RLIMIT_MEMLOCK),
          .address_bytes = soft(RLIMIT_AS)};
}

std::vector<Finding> CheckLimits(const Limits& limits, int64_t needed,
                                 int devices) {
  std::vector<Finding> findings;
  const auto add = [&](Health health, const std::string& text) {
    findings.push_back({"limits", health, text});
  };
  if (limits.files < kFewFiles) {
    add(Health::kWarning,
        absl::StrCat("only ", limits.files, " open files; raise it: ulimit -n ",
                     kFewFiles));
  }
  if (devices > 0 && limits.locked_bytes != RLIM_INFINITY) {
    add(Health::kWarning,
        absl::StrCat("locked memory is limited to ",
                     FormatBytes(static_cast<int64_t>(limits.locked_bytes)),
                     ", which GPUs and fast networks may not be content with; "
                     "raise it: ulimit -l unlimited"));
  }
  if (limits.address_bytes < static_cast<uint64_t>(needed)) {
    add(Health::kFail,
        absl::StrCat("address space is limited to ",
                     FormatBytes(static_cast<int64_t>(limits.address_bytes)),
                     ", but the stages here need ", FormatBytes(needed),
                     "; raise it: ulimit -v unlimited"));
  }
  if (findings.empty()) {
    add(Health::kOk, "open files, locked memory and address space suffice");
  }
  return findings;
}

Finding CheckWrite(const std::string& check, const std::string& folder,
                   const std::string& option) {
  const fs::path at = NearestFolder(folder);
  const base::SteadyTime begin = base::Clock::Real().Now();
  const std::string error = TryWrite(at);
  const base::Seconds took = base::Clock::Real().Now() - begin;
  if (!error.empty()) {
    return {check, Health::kFail,
            absl::StrCat("cannot write in ", at.string(), ": ", error,
                         "; make it writable or choose another folder (",
                         option, ")")};
  }
  const std::string text =
      absl::StrFormat("wrote and synced a file in %s within %.0f ms",
                      at.string(), took.count() * 1000);
  if (took < kSlowSync) return {check, Health::kOk, text};
  return {check, Health::kWarning,
          text + ", which holds up every checkpoint; choose a faster disk (" +
              option + ")"};
}

Finding CheckDisk(const std::string& folder, int64_t bytes, int kept) {
  const fs::path at = NearestFolder(folder);
  struct statvfs disk = {};
  if (statvfs(at.c_str(), &disk) != 0) {
    return {"disk", Health::kFail,
            absl::StrCat(at.string(), ": ", std::strerror(errno))};
  }
  const auto free = static_cast<int64_t>(disk.f_bavail * disk.f_frsize);
  const std::string text =
      absl::StrCat(FormatBytes(free), " free at ", at.string(),
                   "; a checkpoint takes about ", FormatBytes(bytes), ", ",
                   kept, " are kept (checkpoint.keep)");
  if (free < bytes) {
    return {"disk", Health::kFail,
            text + ": not even one fits; make room or set checkpoint.dir"};
  }
  if (free / (kept + 1) < bytes) {
    return {"disk", Health::kWarning,
            text +
                ": with the one being written they do not fit; make room, "
                "or set checkpoint.keep or checkpoint.dir"};
  }
  return {"disk", Health::kOk, text};
}

std::vector<Finding> CheckPorts(const v1::ClusterSection& cluster) {
  std::vector<Finding> findings;
  for (const auto& [key, address] :
       {std::pair{"cluster.listen", &cluster.listen()},
        {"cluster.metrics_listen", &cluster.metrics_listen()}}) {
    const absl::Status free = CheckPortFree(key, *address);
    if (free.ok()) {
      findings.push_back({"ports", Health::kOk,
                          absl::StrCat(key, ": ", *address, " is free")});
    } else if (absl::IsNotFound(free)) {
      findings.push_back(
          {"ports", Health::kOk,
           absl::StrCat(key, ": ", *address,
                        " is of another machine: only workers can run here")});
    } else {
      findings.push_back({"ports", Health::kFail, std::string(free.message())});
    }
  }
  return findings;
}

Finding CheckName(const std::string& what, const std::string& host) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (error != 0) {
    return {"names", Health::kFail,
            absl::StrCat(what, " ", host, ": ", gai_strerror(error),
                         "; put it into DNS or /etc/hosts, or use addresses")};
  }
  char number[NI_MAXHOST] = {};
  getnameinfo(found->ai_addr, found->ai_addrlen, number, sizeof number, nullptr,
              0, NI_NUMERICHOST);
  freeaddrinfo(found);
  return {"names", Health::kOk, absl::StrCat(what, " ", host, " is ", number)};
}

Finding CheckAdvertised(const std::string& host) {
  Finding finding = CheckName("this host", host);
  if (finding.health == Health::kOk &&
      absl::IsNotFound(CheckPortFree("--advertise", host + ":0"))) {
    finding.health = Health::kWarning;
    finding.text +=
        ", which is no address of this machine: others reach another one, "
        "unless something forwards to here; correct DNS, /etc/hosts or the "
        "name";
  }
  return finding;
}

Finding CheckClock(double ahead) {
  const std::string text =
      absl::StrFormat("the coordinator's clock is %.1f s %s", std::abs(ahead),
                      ahead < 0 ? "behind" : "ahead");
  if (std::abs(ahead) <= kSkew) return {"clock", Health::kOk, text};
  return {"clock", Health::kWarning,
          text +
              ": logs of several nodes do not line up, and certificates may "
              "seem not yet or no longer valid; start NTP (chrony) on both"};
}

}  // namespace gimbal::cli
