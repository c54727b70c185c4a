#include "coordinator/planner/split.h"

#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace gimbal::coordinator {
namespace {

absl::StatusOr<std::vector<int>> CheckedSplit(const v1::RunConfig& config) {
  const auto& given = config.pipeline().split();
  const std::vector<int> split(given.begin(), given.end());
  const std::string text = absl::StrCat("[", absl::StrJoin(split, ","), "]");
  const int stages = config.pipeline().stages();
  if (static_cast<int>(split.size()) != stages) {
    return absl::InvalidArgumentError(
        absl::StrCat("pipeline.split: ", text, " names ", split.size(),
                     " stages, expected pipeline.stages = ", stages));
  }
  for (int blocks : split) {
    if (blocks < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("pipeline.split: ", text,
                       " has an empty stage, expected at least 1 block each"));
    }
  }
  const int sum = std::accumulate(split.begin(), split.end(), 0);
  if (sum != config.model().layers()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "pipeline.split: ", text, " adds up to ", sum,
        " blocks, expected model.layers = ", config.model().layers()));
  }
  return split;
}

// Multiply-accumulates of one block per token: q, k, v and output projection,
// causal attention over half the context on average (scores and mix), MLP.
double BlockCost(const v1::ModelSection& model) {
  const double hidden = model.hidden();
  return 4 * hidden * hidden + hidden * model.context() +
         2 * hidden * hidden * model.mlp_ratio();
}

double HeadCost(const v1::ModelSection& model) {
  return static_cast<double>(model.hidden()) * model.vocab();
}

}  // namespace

absl::StatusOr<std::vector<int>> SplitBlocks(const v1::RunConfig& config) {
  if (!config.pipeline().split().empty()) return CheckedSplit(config);
  const int stages = config.pipeline().stages();
  const int layers = config.model().layers();
  if (stages < 1 || layers < stages) {
    return absl::InvalidArgumentError(absl::StrCat(
        "pipeline.stages: ", stages, " stages for model.layers = ", layers,
        ", expected between 1 and ", layers));
  }
  // The cost of a split is convex in every stage's share, so handing out one
  // block at a time to the least loaded stage is optimal.
  std::vector<int> split(stages, 1);
  std::vector<double> load(stages, BlockCost(config.model()));
  load.back() += HeadCost(config.model());
  for (int block = stages; block < layers; ++block) {
    int least = 0;
    for (int stage = 1; stage < stages; ++stage) {
      if (load[stage] <= load[least]) least = stage;
    }
    ++split[least];
    load[least] += BlockCost(config.model());
  }
  return split;
}

}  // namespace gimbal::coordinator
