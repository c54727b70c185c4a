// manifest.json of a checkpoint: what it holds and what its files must be.
//
//   {"format": 1, "run_id": "...", "config_digest": "...", "update": 200,
//    "layers": 8, "stages": [{"first_block": 0, "blocks": 2}, ...],
//    "files": [{"path": "layers/layer-000.safetensors", "bytes": 1234,
//               "sha256": "..."}, ...]}
//
// The files hold single layers, so `stages` is only a note of how the model was
// split when it was written.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gimbal/v1/control_service.pb.h"
#include "gimbal/v1/types.pb.h"

namespace gimbal::coordinator {

struct Manifest {
  std::string run_id;
  std::string config_digest;
  int64_t update = 0;
  int layers = 0;
  std::vector<v1::StagePlacement> stages;
  std::vector<v1::CheckpointFile> files;  // by path
};

std::string ToJson(const Manifest& manifest);

// The manifest of a checkpoint folder. Errors name the file and what is wrong.
absl::StatusOr<Manifest> ReadManifest(const std::string& folder);

// DATA_LOSS, with the path, for the first file of the manifest that is not
// there with the noted size.
absl::Status VerifySizes(const std::string& folder, const Manifest& manifest);

// OK when the folder is committed and each file of its manifest has the noted
// size and SHA-256. DATA_LOSS otherwise, with the path of the first bad file.
absl::Status VerifyCheckpoint(const std::string& folder);

}  // namespace gimbal::coordinator
