#include "coordinator/checkpoint/manifest.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/io/checkpoint_layout.h"
#include "common/io/file.h"

namespace gimbal::coordinator {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormat = 1;

// A number such as 1e300 has no value of these types.
template <typename Integer>
Integer IntegerOf(const Json& json, const char* key) {
  const Json& value = json.at(key);
  const int64_t number = value.is_number_integer() ? value.get<int64_t>() : -1;
  if (number < 0 || number > std::numeric_limits<Integer>::max()) {
    throw Json::other_error::create(0, "no number of that size", &value);
  }
  return static_cast<Integer>(number);
}

// Of a file inside the checkpoint's folder.
std::string PathOf(const Json& entry) {
  const auto path = entry.at("path").get<std::string>();
  const std::filesystem::path parts(path);
  if (path.empty() || path.find('\0') != std::string::npos ||
      parts.is_absolute() ||
      std::find(parts.begin(), parts.end(), "..") != parts.end()) {
    throw Json::other_error::create(0, "no file of the folder", &entry);
  }
  return path;
}

Manifest Parse(const Json& json) {
  Manifest manifest;
  manifest.run_id = json.at("run_id").get<std::string>();
  manifest.config_digest = json.at("config_digest").get<std::string>();
  manifest.update = IntegerOf<int64_t>(json, "update");
  manifest.layers = IntegerOf<int>(json, "layers");
  for (const Json& stage : json.at("stages")) {
    v1::StagePlacement& placement = manifest.stages.emplace_back();
    placement.set_stage(static_cast<int>(manifest.stages.size()) - 1);
    placement.set_first_block(IntegerOf<int>(stage, "first_block"));
    placement.set_blocks(IntegerOf<int>(stage, "blocks"));
  }
  for (const Json& entry : json.at("files")) {
    v1::CheckpointFile& file = manifest.files.emplace_back();
    file.set_path(PathOf(entry));
    file.set_bytes(IntegerOf<int64_t>(entry, "bytes"));
    file.set_sha256(entry.at("sha256").get<std::string>());
  }
  return manifest;
}

absl::Status VerifyHash(const std::string& path, const std::string& expected) {
  GIMBAL_ASSIGN_OR_RETURN(const std::string sha256, io::Sha256OfFile(path));
  if (sha256 == expected) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(path, ": has sha256 ", sha256, ", expected ", expected));
}

}  // namespace

std::string ToJson(const Manifest& manifest) {
  Json json = {{"format", kFormat},
               {"run_id", manifest.run_id},
               {"config_digest", manifest.config_digest},
               {"update", manifest.update},
               {"layers", manifest.layers},
               {"stages", Json::array()},
               {"files", Json::array()}};
  for (const v1::StagePlacement& stage : manifest.stages) {
    json["stages"].push_back(
        {{"first_block", stage.first_block()}, {"blocks", stage.blocks()}});
  }
  for (const v1::CheckpointFile& file : manifest.files) {
    json["files"].push_back({{"path", file.path()},
                             {"bytes", file.bytes()},
                             {"sha256", file.sha256()}});
  }
  return json.dump(1) + "\n";
}

absl::StatusOr<Manifest> ReadManifest(const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/", io::kManifestFile);
  GIMBAL_ASSIGN_OR_RETURN(const std::string text, io::ReadFile(path));
  try {
    const Json json = Json::parse(text);
    if (const int format = IntegerOf<int>(json, "format"); format != kFormat) {
      return absl::UnimplementedError(
          absl::StrCat(path, ": checkpoint format ", format, ", expected ",
                       kFormat, "; use the release that wrote it"));
    }
    return Parse(json);
  } catch (const Json::parse_error& error) {
    return absl::DataLossError(
        absl::StrCat(path, ": not a manifest: its JSON ends or is damaged at ",
                     "byte ", error.byte, " of ", text.size()));
  } catch (const Json::exception&) {
    return absl::DataLossError(absl::StrCat(
        path,
        ": not a manifest: a key is missing or has a value that makes no "
        "sense"));
  }
}

absl::Status VerifySizes(const std::string& folder, const Manifest& manifest) {
  for (const v1::CheckpointFile& file : manifest.files) {
    const std::string path = absl::StrCat(folder, "/", file.path());
    std::error_code error;
    const auto bytes = std::filesystem::file_size(path, error);
    if (error) {
      return absl::DataLossError(
          absl::StrCat(path, ": cannot be read (", error.message(), ")"));
    }
    if (static_cast<int64_t>(bytes) != file.bytes()) {
      return absl::DataLossError(absl::StrCat(
          path, ": has ", bytes, " bytes, expected ", file.bytes()));
    }
  }
  return absl::OkStatus();
}

absl::Status VerifyCheckpoint(const std::string& folder) {
  const std::string commit = absl::StrCat(folder, "/", io::kCommitFile);
  std::error_code error;
  if (!std::filesystem::exists(commit, error)) {
    return absl::DataLossError(absl::StrCat(
        commit, ": is missing, the checkpoint was never finished"));
  }
  GIMBAL_ASSIGN_OR_RETURN(const Manifest manifest, ReadManifest(folder));
  GIMBAL_RETURN_IF_ERROR(VerifySizes(folder, manifest));
  for (const v1::CheckpointFile& file : manifest.files) {
    GIMBAL_RETURN_IF_ERROR(
        VerifyHash(absl::StrCat(folder, "/", file.path()), file.sha256()));
  }
  return absl::OkStatus();
}

}  // namespace gimbal::coordinator
