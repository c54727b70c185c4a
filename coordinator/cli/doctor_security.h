// What `gimbal doctor` says of certificates and tokens.
#pragma once

#include <string>

#include "common/rpc/credentials.h"
#include "coordinator/cli/doctor_checks.h"

namespace gimbal::cli {

// Where others reach this host.
struct Exposure {
  std::string listen;     // cluster.listen; empty without a config
  std::string advertise;  // name or address; empty: not said
};

// Whether the files are what they should be, name this host, last, and are
// there at all where others than this machine connect. `now`: Unix seconds.
Finding CheckSecurity(const rpc::SecurityFiles& files, const Exposure& exposure,
                      double now);

}  // namespace gimbal::cli
