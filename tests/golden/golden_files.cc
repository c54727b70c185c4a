#include "tests/golden/golden_files.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace gimbal::testing {
namespace {

namespace fs = std::filesystem;

void AppendNumbers(const nlohmann::json& value, const std::string& what,
                   std::vector<double>* numbers) {
  if (value.is_array()) {
    for (const auto& item : value) AppendNumbers(item, what, numbers);
  } else if (value.is_number()) {
    numbers->push_back(value.get<double>());
  } else {
    throw std::invalid_argument(what + ": expected numbers, found " +
                                std::string(value.type_name()));
  }
}

std::vector<fs::path> JsonFiles(const fs::path& folder) {
  std::vector<fs::path> paths;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".json") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace

std::string GoldenFolder() {
  if (const char* dir = std::getenv("GIMBAL_GOLDEN_DIR")) return dir;
  const char* source = std::getenv("GIMBAL_SOURCE_DIR");
  return (fs::path(source ? source : ".") / ".." / "shared" / "golden")
      .lexically_normal()
      .string();
}

std::vector<GoldenFile> GoldenFilesOfKind(
    const std::vector<std::string>& kinds) {
  std::vector<GoldenFile> files;
  std::cout << "golden files of " << GoldenFolder() << ":\n";
  for (const fs::path& path : JsonFiles(GoldenFolder())) {
    std::ifstream in(path);
    auto json = std::make_shared<nlohmann::json>(
        nlohmann::json::parse(in, nullptr, /*allow_exceptions=*/false));
    if (!json->is_object() || !json->contains("kind")) {
      ADD_FAILURE() << path << ": expected a JSON object with a field `kind`";
      continue;
    }
    const auto& kind = (*json)["kind"];
    if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end()) continue;
    std::cout << "  " << path.filename().string() << "\n";
    files.push_back({path.filename().string(), std::move(json)});
  }
  return files;
}

std::vector<double> GoldenNumbers(const nlohmann::json& value,
                                  const std::string& what) {
  std::vector<double> numbers;
  if (!value.is_object()) {
    AppendNumbers(value, what, &numbers);
    return numbers;
  }
  if (!value.contains("shape") || !value.contains("data")) {
    throw std::invalid_argument(what + ": expected fields `shape` and `data`");
  }
  AppendNumbers(value["data"], what, &numbers);
  size_t size = 1;
  for (const auto& extent : value["shape"]) size *= extent.get<size_t>();
  if (numbers.size() != size) {
    throw std::invalid_argument(what + ": expected " + std::to_string(size) +
                                " numbers, found " +
                                std::to_string(numbers.size()));
  }
  return numbers;
}

}  // namespace gimbal::testing
