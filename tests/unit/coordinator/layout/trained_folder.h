// A run folder as training leaves it, without training: 4 stages, rows and
// checkpoints of made-up contents.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "coordinator/store/run_folder.h"
#include "gimbal/v1/run_config.pb.h"

namespace gimbal::coordinator {

inline constexpr char kTrainedData[] = "data.train is A\ndata.valid is none";

v1::RunConfig TrainedConfig(int stages,
                            const std::vector<std::string>& overrides = {});

// Updates 1 to 25 are done, those of `checkpoints` were committed. Returns the
// run's id.
std::string MakeTrainedFolder(const std::string& run_dir,
                              const std::vector<int64_t>& checkpoints);

// Flips a byte of the checkpoint.
void Damage(const std::string& run_dir, int64_t update);

// Paths below the folder, sorted.
std::vector<std::string> FilesBelow(const std::string& folder);

}  // namespace gimbal::coordinator
