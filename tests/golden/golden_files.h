// Golden files: reference results made by other implementations, one JSON
// object per file with a field `kind`. The folder is named by
// GIMBAL_GOLDEN_DIR; the default is shared/golden beside the source tree
// (GIMBAL_SOURCE_DIR).
//
//   for (const GoldenFile& file : GoldenFilesOfKind({"model"})) { ... }
//
// Test support: a folder that is missing gives an empty list, a file that is
// not readable JSON with a `kind` fails the running test.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace gimbal::testing {

struct GoldenFile {
  std::string name;  // without the folder
  std::shared_ptr<const nlohmann::json> json;
};

// Folder that is searched.
std::string GoldenFolder();

// The files of these kinds, by name; prints the folder and each file.
std::vector<GoldenFile> GoldenFilesOfKind(
    const std::vector<std::string>& kinds);

// A tensor as a flat row-major list: nested arrays of numbers, or an object
// {"shape": [...], "data": [...]}. Anything else throws std::invalid_argument,
// naming `what`.
std::vector<double> GoldenNumbers(const nlohmann::json& value,
                                  const std::string& what);

}  // namespace gimbal::testing
