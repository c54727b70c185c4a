#include "coordinator/run/cut_plan.h"

namespace gimbal::coordinator {
namespace {

bool Due(int64_t update, int64_t every) {
  return every > 0 && update % every == 0;
}

}  // namespace

v1::Cut CutAt(const v1::RunConfig& config, int64_t update, int64_t final_update,
              bool requested) {
  v1::Cut cut;
  cut.set_update(update);
  cut.set_evaluate(
      !config.data().valid().empty() &&
      (Due(update, config.eval().every()) || update == config.run().steps()));
  cut.set_snapshot(requested || update == final_update ||
                   Due(update, config.checkpoint().every()));
  cut.set_keep(Due(update, config.cluster().peer_snapshot_every()) &&
               !requested && update != final_update);
  return cut;
}

}  // namespace gimbal::coordinator
