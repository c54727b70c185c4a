#include "coordinator/cli/slurm_script.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace gimbal::cli {
namespace {

using test_support::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

v1::RunConfig Config(int stages, int spares = 0) {
  v1::RunConfig config;
  config.mutable_run()->set_name("my run");
  config.mutable_pipeline()->set_stages(stages);
  config.mutable_cluster()->set_threads(2);
  config.mutable_cluster()->set_spares(spares);
  config.mutable_cluster()->mutable_grace()->set_seconds(120);
  config.mutable_cluster()->add_stop_signals("TERM");
  return config;
}

SlurmJob Job() {
  return {.config = "/my folder/c.yaml", .run_dir = "/run", .bin_dir = "/bin"};
}

TEST(SlurmScript, OneNodePerWorkerUnlessTold) {
  ASSERT_OK_AND_ASSIGN(std::string text, SlurmScript(Job(), Config(4)));
  EXPECT_THAT(text, AllOf(HasSubstr("--nodes=4\n"), HasSubstr("--ntasks=4\n"),
                          HasSubstr("--cpus-per-task=2\n"),
                          HasSubstr("--job-name=gimbal-my_run\n"),
                          HasSubstr("config='/my folder/c.yaml'\n"),
                          HasSubstr("workers_per_node=1\n")));
  SlurmJob job = Job();
  job.nodes = 2;
  job.workers = 3;
  job.cpus = 8;
  job.gpus = 1;
  ASSERT_OK_AND_ASSIGN(text, SlurmScript(job, Config(4)));
  EXPECT_THAT(
      text,
      AllOf(HasSubstr("--nodes=2\n"), HasSubstr("--ntasks=3\n"),
            HasSubstr("--ntasks-per-node=2\n"), HasSubstr("workers=3 "),
            HasSubstr("workers_per_node=2\n"), HasSubstr("--cpus-per-task=8\n"),
            HasSubstr("--gpus-per-task=1\n")));
}

TEST(SlurmScript, WorkersAreToldOfCertificatesAndToken) {
  v1::RunConfig config = Config(2);
  config.mutable_cluster()->mutable_tls()->set_ca("/certs/ca.pem");
  config.mutable_cluster()->mutable_tls()->set_cert("/certs/cert.pem");
  config.mutable_cluster()->mutable_tls()->set_key("/certs/my key.pem");
  config.mutable_cluster()->set_token_file("/certs/token");
  EXPECT_THAT(
      *SlurmScript(Job(), config),
      HasSubstr("worker_options=(--stop-signals 'TERM' --tls-ca /certs/ca.pem "
                "--tls-cert /certs/cert.pem --tls-key '/certs/my key.pem' "
                "--token-file /certs/token)"));
}

TEST(SlurmScript, TheMetricsOfTheCoordinatorAreWhereThoseOfWorkersAre) {
  v1::RunConfig config = Config(2);
  config.mutable_cluster()->set_metrics_listen("127.0.0.1:0");
  EXPECT_THAT(*SlurmScript(Job(), config), HasSubstr("metrics_listen=  #"));
  config.mutable_cluster()->set_metrics_listen("0.0.0.0:9100");
  EXPECT_THAT(*SlurmScript(Job(), config),
              HasSubstr("metrics_listen=0.0.0.0:9100  #"));
}

// Slurm ends, and with --requeue repeats, a job that loses a node, which is
// right only for one that nobody steps in for.
TEST(SlurmScript, KeepsAJobWithoutANodeOnlyWhenOthersCanTakeItsStages) {
  constexpr char kOption[] = "#SBATCH --no-kill\n";
  EXPECT_THAT(*SlurmScript(Job(), Config(4)), Not(HasSubstr(kOption)));
  EXPECT_THAT(*SlurmScript(Job(), Config(4, 1)),
              AllOf(HasSubstr(kOption), HasSubstr("--nodes=5\n")));
  v1::RunConfig config = Config(4);
  config.mutable_cluster()->set_min_workers(3);
  EXPECT_THAT(*SlurmScript(Job(), config), HasSubstr(kOption));
  config.mutable_cluster()->set_min_workers(4);
  EXPECT_THAT(*SlurmScript(Job(), config), Not(HasSubstr(kOption)));
}

TEST(SlurmScript, TheSignalLeavesTimeForTheCheckpoint) {
  SlurmJob job = Job();
  for (const char* enough : {"4", "3:01", "0:03:01", "0-1", "0-0:3:1", "1-0:0",
                             "infinite", "24:00:00"}) {
    job.time = enough;
    const auto text = SlurmScript(job, Config(2));
    ASSERT_THAT(text, test_support::IsOk()) << enough;
    EXPECT_THAT(*text, AllOf(HasSubstr("--signal=B:USR1@180\n"),
                             HasSubstr("--time=" + job.time + "\n")));
  }
  for (const char* short_time : {"3", "3:00", "0:03:00", "0-0:3"}) {
    job.time = short_time;
    EXPECT_THAT(
        SlurmScript(job, Config(2)),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("last 180 s")))
        << short_time;
  }
}

TEST(SlurmScript, RefusesWhatCannotBeAJob) {
  SlurmJob job = Job();
  job.workers = 5;
  EXPECT_THAT(
      SlurmScript(job, Config(4)),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--workers 5")));
  job = Job();
  job.nodes = 5;
  EXPECT_THAT(
      SlurmScript(job, Config(4)),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--nodes 5")));
  job = Job();
  job.partition = "two words";
  EXPECT_THAT(
      SlurmScript(job, Config(4)),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--partition")));
  job = Job();
  job.options = {"account=x"};
  EXPECT_THAT(SlurmScript(job, Config(4)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("--option=--account")));
  job.options = {"--comment=x\n#SBATCH --nodes=99"};
  EXPECT_THAT(SlurmScript(job, Config(4)),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace gimbal::cli
