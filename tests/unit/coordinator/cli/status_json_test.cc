#include "coordinator/cli/status_json.h"

#include <gtest/gtest.h>

namespace gimbal::cli {
namespace {

TEST(StatusJsonTest, NumbersAreNumbersAndTheUnsetIsLeftOut) {
  v1::GetStatusResponse status;
  status.set_name("a\"b");
  status.set_state(v1::RUN_STATE_RUNNING);
  status.set_update(int64_t{1} << 40);
  status.set_loss(2.5);
  v1::WorkerView* worker = status.add_workers();
  worker->add_stages(0);
  worker->add_stages(1);
  EXPECT_EQ(
      StatusJson(status, /*pretty=*/false),
      R"({"run_id":"","name":"a\"b","run_dir":"","state":"RUN_STATE_RUNNING",)"
      R"("reason":"","update":1099511627776,"steps":0,"wall_seconds":0.0,)"
      R"("tokens":0,"tokens_per_second":0.0,"loss":2.5,"stages":[],)"
      R"("workers":[{"worker_id":0,"name":"","pid":0,"state":"",)"
      R"("heartbeat_age_seconds":0.0,"metrics_address":"","peak_rss_bytes":0,)"
      R"("stages":[0,1]}],"generation":0,"schedule":"","optimizer":"",)"
      R"("decisions":[],"left_out":0,"unix_seconds":0.0})"
      "\n");
}

}  // namespace
}  // namespace gimbal::cli
