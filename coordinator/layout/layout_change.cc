#include "coordinator/layout/layout_change.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/config/run_config_io.h"
#include "coordinator/planner/refresh_policy.h"
#include "coordinator/planner/split.h"

namespace gimbal::coordinator {
namespace {

void TakeLayout(const v1::RunConfig& from, v1::RunConfig* to) {
  v1::PipelineSection& pipeline = *to->mutable_pipeline();
  pipeline.set_stages(from.pipeline().stages());
  *pipeline.mutable_split() = from.pipeline().split();
  pipeline.set_origin(from.pipeline().origin());
}

std::string BlocksText(const std::vector<v1::StagePlacement>& stages) {
  return absl::StrJoin(stages, ", ",
                       [](std::string* out, const v1::StagePlacement& stage) {
                         absl::StrAppend(out, stage.blocks());
                       });
}

}  // namespace

absl::StatusOr<Continuation> Continue(const v1::RunConfig& wanted,
                                      const v1::RunConfig& held) {
  GIMBAL_ASSIGN_OR_RETURN(const std::vector<int> here, SplitBlocks(wanted));
  GIMBAL_ASSIGN_OR_RETURN(const std::vector<int> there, SplitBlocks(held));
  v1::RunConfig same_layout = wanted;
  TakeLayout(held, &same_layout);
  const std::string difference = config::FirstDifference(same_layout, held);
  if (!difference.empty()) return absl::FailedPreconditionError(difference);
  if (here == there) return Continuation{.config = same_layout};
  return Continuation{.config = wanted, .other_stages = true};
}

std::vector<RefreshChange> ReplanRefreshes(
    const v1::RunConfig& config, const std::vector<v1::StagePlacement>& stages,
    const std::vector<RefreshChange>& changes) {
  std::vector<RefreshChange> planned;
  for (const RefreshChange& change : changes) {
    if (!change.asked) continue;
    RefreshInput input = RefreshInputOf(config, stages);
    input.policy = static_cast<v1::RefreshPolicy>(change.policy);
    input.period = change.period;
    const RefreshPeriods plan = PlanRefreshes(input);
    RefreshChange& anew = planned.emplace_back(change);
    anew.periods = plan.periods;
    anew.reason = plan.reason;
  }
  return planned;
}

GoingOver Describe(int64_t origin,
                   const std::vector<v1::StagePlacement>& stages,
                   const std::vector<v1::StagePlacement>& before) {
  return {.what = absl::StrCat(stages.size(), " stages from update ",
                               origin + 1, " on, before ", before.size()),
          .blocks = absl::StrCat("blocks per stage: ", BlocksText(stages),
                                 ", before ", BlocksText(before))};
}

}  // namespace gimbal::coordinator
