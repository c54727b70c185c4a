#include "worker/checkpoint/load_model.h"

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/io/checkpoint_layout.h"
#include "common/io/safetensors.h"

namespace gimbal::worker {

absl::Status LoadWeights(const std::string& folder, const ParameterTable& table,
                         float* weights) {
  std::optional<io::SafetensorsFile> file;
  int layer = -1;  // of `file`; the table is in the order of layers
  for (const Param& param : table.params()) {
    if (param.layer != layer) {
      GIMBAL_ASSIGN_OR_RETURN(
          file, io::SafetensorsFile::Open(
                    absl::StrCat(folder, "/", io::LayerFile(param.layer))));
      layer = param.layer;
    }
    std::vector<int64_t> shape = {param.rows, param.cols};
    if (param.group == ParamGroup::kVector) shape = {param.cols};
    GIMBAL_RETURN_IF_ERROR(
        file->Read(param.name, shape, weights + param.offset));
  }
  return absl::OkStatus();
}

}  // namespace gimbal::worker
