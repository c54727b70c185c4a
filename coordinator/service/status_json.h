// The coordinator's answer as JSON, for scripts and the status page: field
// names of proto/gimbal/v1/admin_service.proto, numbers as numbers (protobuf's
// own JSON writes 64-bit ones as strings), what is unset left out. Pure.
#pragma once

#include <string>

#include "gimbal/v1/admin_service.pb.h"

namespace gimbal::coordinator {

// In one line, or indented over several.
std::string StatusJson(const v1::GetStatusResponse& status, bool pretty);

}  // namespace gimbal::coordinator
