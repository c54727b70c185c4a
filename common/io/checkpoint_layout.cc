#include "common/io/checkpoint_layout.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace gimbal::io {
namespace {

constexpr std::string_view kStepPrefix = "step-";

std::string FileIn(const char* folder, int layer) {
  return absl::StrFormat("%s/layer-%03d.safetensors", folder, layer);
}

}  // namespace

std::string StepFolderName(int64_t update) {
  return absl::StrFormat("step-%08d", update);
}

std::optional<int64_t> ParseStepFolderName(std::string_view name) {
  if (!name.starts_with(kStepPrefix)) return std::nullopt;
  const std::string_view digits = name.substr(kStepPrefix.size());
  int64_t update = 0;
  if (!absl::SimpleAtoi(absl::string_view(digits.data(), digits.size()),
                        &update)) {
    return std::nullopt;
  }
  // Only the one spelling that StepFolderName makes.
  if (update < 0 || StepFolderName(update) != name) return std::nullopt;
  return update;
}

std::string LayerFile(int layer) { return FileIn("layers", layer); }
std::string OptimizerFile(int layer) { return FileIn("optimizer", layer); }
bool IsLayerOrOptimizerFile(std::string_view path) {
  return path.starts_with("layers/") || path.starts_with("optimizer/");
}
std::string StashFile(int layer) { return FileIn("stash", layer); }

std::string StashTensorName(int64_t version, std::string_view parameter) {
  return absl::StrCat("v", version, "/",
                      absl::string_view(parameter.data(), parameter.size()));
}

std::string InFlightFile(int stage) {
  return absl::StrFormat("in_flight/stage-%03d.safetensors", stage);
}

std::string InFlightTensorName(int64_t microbatch) {
  return absl::StrCat("m", microbatch);
}

bool IsSnapshotFile(std::string_view path) {
  const size_t begin = path.rfind('-') + 1;
  const size_t end = path.find('.', begin);
  if (begin == 0 || end == std::string_view::npos) return false;
  int number = 0;
  return absl::SimpleAtoi(absl::string_view(path.data() + begin, end - begin),
                          &number) &&
         (path == LayerFile(number) || path == OptimizerFile(number) ||
          path == StashFile(number) || path == InFlightFile(number));
}

}  // namespace gimbal::io
