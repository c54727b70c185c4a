// Names inside a checkpoint folder; the only place that knows them.
//
//   ROOT/latest                     name of the newest committed folder
//   ROOT/run                        id of the run that the folder belongs to
//   ROOT/step-00000200/manifest.json
//                      COMMIT       written last
//                      layers/layer-003.safetensors
//                      optimizer/layer-003.safetensors
//                      stash/layer-003.safetensors   tensors "v197/NAME"
//                      in_flight/stage-002.safetensors   tensors "m812":
//                          activations, only without a stash
// Layer 0 holds the embeddings, 1..L the blocks, L+1 the final norm and head.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gimbal::io {

std::string StepFolderName(int64_t update);  // "step-00000200"
std::optional<int64_t> ParseStepFolderName(std::string_view name);
std::string LayerFile(int layer);      // "layers/layer-003.safetensors"
std::string OptimizerFile(int layer);  // "optimizer/layer-003.safetensors"
// Weights and optimizer state; the other files are about what is in flight, and
// belong to the stages that wrote them.
bool IsLayerOrOptimizerFile(std::string_view path);
std::string StashFile(int layer);  // "stash/layer-003.safetensors"
std::string StashTensorName(int64_t version, std::string_view parameter);
std::string InFlightFile(int stage);  // "in_flight/stage-002.safetensors"
std::string InFlightTensorName(int64_t microbatch);  // "m812"
// Whether the relative path is one that the functions above make. What comes
// over the network may be any path.
bool IsSnapshotFile(std::string_view path);

inline constexpr char kManifestFile[] = "manifest.json";
inline constexpr char kCommitFile[] = "COMMIT";
inline constexpr char kLatestFile[] = "latest";
inline constexpr char kOwnerFile[] = "run";

}  // namespace gimbal::io
