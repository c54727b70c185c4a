#include "coordinator/service/status_json.h"

#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

namespace gimbal::coordinator {
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
      R"("stages":[0,1],"trace_failure":""}],"generation":0,"schedule":"","optimizer":"",)"
      R"("decisions":[],"left_out":0,"recoveries":[],"checkpoints":[],)"
      R"("standstill":"","trace_every":0,"lease_seconds":0.0,)"
      R"("unix_seconds":0.0,"training_seconds":0.0})"
      "\n");
}

// Every field of the answer stands in the page that describes it, as
// `| path | type | ...`.
void ExpectDescribed(const google::protobuf::Descriptor& message,
                     const std::string& prefix, const std::string& page) {
  for (int i = 0; i < message.field_count(); ++i) {
    const google::protobuf::FieldDescriptor& field = *message.field(i);
    const std::string path =
        prefix + field.name() + (field.is_repeated() ? "[]" : "");
    EXPECT_NE(page.find("| `" + path + "` |"), std::string::npos)
        << "coordinator/page/README.md does not describe " << path;
    if (field.message_type() != nullptr) {
      ExpectDescribed(*field.message_type(), path + ".", page);
    }
  }
}

TEST(StatusJsonTest, TheSchemaIsDocumented) {
  const char* source = std::getenv("GIMBAL_SOURCE_DIR");
  ASSERT_NE(source, nullptr);
  std::ifstream file(std::string(source) + "/coordinator/page/README.md");
  std::stringstream page;
  page << file.rdbuf();
  ExpectDescribed(*v1::GetStatusResponse::descriptor(), "", page.str());
}

}  // namespace
}  // namespace gimbal::coordinator
