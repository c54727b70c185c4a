// gimbal_build_info: 1, with the program's version as a label.
#pragma once

namespace prometheus {
class Registry;
}

namespace gimbal::obs {

void ShowBuildInfo(prometheus::Registry& registry);

}  // namespace gimbal::obs
