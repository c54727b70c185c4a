#include "common/obs/build_info.h"

#include <prometheus/gauge.h>
#include <prometheus/registry.h>

namespace gimbal::obs {

void ShowBuildInfo(prometheus::Registry& registry) {
  prometheus::BuildGauge()
      .Name("gimbal_build_info")
      .Help("1, with the version of the program as a label")
      .Register(registry)
      .Add({{"version", GIMBAL_VERSION}})
      .Set(1);
}

}  // namespace gimbal::obs
