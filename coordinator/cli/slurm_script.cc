#include "coordinator/cli/slurm_script.h"

#include <cmath>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/duration.h"
#include "common/base/status_macros.h"
#include "common/net/address.h"
#include "coordinator/cli/format.h"

namespace gimbal::cli {
namespace {

// Slurm's clock of signals is a minute coarse.
constexpr int kSignalSlack = 60;

// What follows the settings. Kept in this form, and not put together from
// pieces, so that it reads as the script that it is.
constexpr char kBody[] = R"sh(
# "no" once the run shall end, "requeue" once it shall go on in another job.
ending=''
trap 'ending=requeue' USR1            # Slurm: the time is nearly up
trap 'ending=${ending:-no}' TERM      # scancel

log() { printf '%(%F %T)T %s\n' -1 "$*"; }

# Where others reach a node: what Slurm calls it, and that as a number.
name_of() {
  scontrol show node --oneliner "$1" | sed -n 's/.* NodeAddr=\([^ ]*\).*/\1/p'
}
# A name that leads no further than this machine, as Debian's /etc/hosts has it
# (127.0.1.1), leads here from others as well: then at every address.
number_of() {
  local number
  read -r number _ < <(getent ahosts "$1")
  case $1,$number in
    127.*,* | localhost,*) ;;
    *,127.*) number=0.0.0.0 ;;
  esac
  [[ $number == *:* ]] && number="[$number]"
  printf '%s\n' "$number"
}

# The coordinator's address, once the process $coordinator serves.
served_address() {
  sed -n "s/^{\"address\":\"\([^\"]*\)\".*\"pid\":${coordinator}[,}].*/\1/p" \
    "$run_dir/coordinator.json" 2>/dev/null
}

# Starts the coordinator at port $1. A folder that holds the run is gone on with.
start_coordinator() {
  local from=$config flags=()
  if [[ $goes_on == yes && -e $run_dir/config.yaml ]]; then
    from=$run_dir/config.yaml flags=(--resume)
  elif [[ $goes_on == asked ]]; then
    flags=(--resume)
  fi
  "$bin/gimbal-coordinator" --config "$from" --run-dir "$run_dir" \
    --workers "$workers" --listen "$(number_of "$head"):$1" \
    --metrics-listen "${metrics_listen:-$(number_of "$head"):0}" \
    --advertise "$head" "${flags[@]}" \
    >>"$run_dir/logs/coordinator.log" 2>&1 &
  coordinator=$!
  goes_on=yes
}

# Waits until the coordinator serves or has ended.
await_address() {
  address=''
  while [[ -z $address ]] && kill -0 "$coordinator" 2>/dev/null; do
    address=$(served_address)
    [[ -n $address ]] || sleep 0.2
  done
}

# Keeps worker $1 on node $2 for as long as the run lasts: each life is a step
# of its own, and one that ends too early is followed by the next. Without
# --overlap, so that every step has cores and GPUs of its own.
keep_worker() {
  local name=worker-$1 node=$2 host number pause=1 began code
  host=$(name_of "$node")
  number=$(number_of "$host")
  while :; do
    began=$SECONDS
    srun --exact --nodes=1 --ntasks=1 --nodelist="$node" --job-name="$name" \
      --kill-on-bad-exit=0 "${step_options[@]}" \
      "$bin/gimbal-worker" --coordinator "$address" --name "$name" \
      --listen "$number:0" --advertise "$host" \
      --metrics-listen "$number:0" "${worker_options[@]}" \
      >>"$run_dir/logs/$name.log" 2>&1
    code=$?
    # The coordinator's words for the end of the run.
    case $code in 0 | 3 | 4) return ;; esac
    ((SECONDS - began < 60)) || pause=1
    log "$name on $node ended with exit code $code; starts again in $pause s"
    ((code > 128)) || tail -n 1 "$run_dir/logs/$name.log"
    sleep "$pause"
    pause=$((pause < 32 ? 2 * pause : 60))
  done
}

# Waits until the coordinator has ended, asks it for the end when this job is
# asked; sets $code.
follow_coordinator() {
  local asked=''
  while kill -0 "$coordinator" 2>/dev/null; do
    if [[ -n $ending && -z $asked ]] &&
        "$bin/gimbal" stop --run-dir "$run_dir"; then
      asked=yes
    fi
    sleep 0.5 &
    wait $!  # a signal ends it
  done
  wait "$coordinator"
  code=$?
}

case $*,${SLURM_RESTART_COUNT:-0} in
  --resume,*) goes_on=asked ;;
  ,0) goes_on=no ;;
  ,*) goes_on=yes ;;
  *) echo "usage: sbatch $0 [--resume]" >&2; exit 2 ;;
esac
mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
mkdir -p "$run_dir/logs" || exit 2
# A node that cannot do its part shall be known before the run is.
export -f name_of
# shellcheck disable=SC2016  # each node fills in its own name
if ! srun --nodes="$SLURM_NNODES" --ntasks="$SLURM_NNODES" \
    --ntasks-per-node=1 --overlap --label \
    bash -c 'exec "$@" --advertise "$(name_of "$SLURMD_NODENAME")"' doctor \
    "$bin/gimbal" doctor /dev/stdin --run-dir "$run_dir" \
    --workers "$workers_per_node" <"$config"; then
  log "the nodes are not fit for the run (gimbal doctor, above)"
  exit 2
fi
head=$(name_of "${nodes[0]}")
start_coordinator 0
await_address
keepers=()
if [[ -n $address ]]; then
  log "the coordinator serves at $address"
  for ((i = 0; i < workers + spares; i++)); do
    keep_worker "$i" "${nodes[i / workers_per_node]}" &
    keepers+=($!)
  done
fi
pause=1
while :; do
  follow_coordinator
  # One that was killed finds its run again, and its workers find it there.
  if ((code <= 128)) || [[ -z $address ]]; then break; fi
  log "the coordinator ended with exit code $code; starts again in $pause s"
  sleep "$pause"
  pause=$((pause < 32 ? 2 * pause : 60))
  start_coordinator "${address##*:}"
done
log "the coordinator ended with exit code $code"
case $code in 0 | 4) ;; *) tail -n 1 "$run_dir/logs/coordinator.log" ;; esac
# Workers end by themselves; what does not, ends with the job.
for ((i = 0; i < 30; i++)); do
  kill -0 "${keepers[@]}" 2>/dev/null || break
  sleep 0.5
done
if [[ $code -eq 4 && $ending == requeue && $requeue == yes ]]; then
  log "a checkpoint was written; the job goes back into the queue"
  scontrol requeue "$SLURM_JOB_ID" && exit 0
fi
exit "$code"
)sh";

// An sbatch option of one line, quoted for nobody: Slurm splits at blanks.
absl::Status CheckWord(const char* option, const std::string& value) {
  for (const char c : value) {
    if (absl::ascii_isgraph(static_cast<unsigned char>(c))) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        option, ": '", value, "': expected no blanks and only ASCII"));
  }
  return absl::OkStatus();
}

std::string JobName(const std::string& run) {
  std::string name = "gimbal-";
  for (const char c : run) {
    const bool plain = absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
                       absl::StrContains("._-", std::string(1, c));
    name += plain ? c : '_';
  }
  return name;
}

// Seconds of a time limit: M, M:S, H:M:S, D-H, D-H:M or D-H:M:S. Nothing for
// anything else ("infinite").
std::optional<int64_t> SecondsOfLimit(const std::string& text) {
  const std::vector<std::string> days = absl::StrSplit(text, '-');
  if (days.size() > 2) return std::nullopt;
  const std::vector<std::string> parts = absl::StrSplit(days.back(), ':');
  // Seconds of the first part: hours, or minutes, which a lone part is.
  int64_t unit = days.size() == 2 || parts.size() == 3 ? 3600 : 60;
  int64_t seconds = 0, number = 0;
  if (parts.size() > 3) return std::nullopt;
  for (const std::string& part : parts) {
    if (!absl::SimpleAtoi(part, &number) || number < 0) return std::nullopt;
    seconds += number * unit;
    unit /= 60;
  }
  if (days.size() == 2) {
    if (!absl::SimpleAtoi(days[0], &number) || number < 0) return std::nullopt;
    seconds += number * 86400;
  }
  return seconds;
}

// Before the end of the job: what a checkpoint may take, and the slack.
int SignalLead(const v1::ClusterSection& cluster) {
  return static_cast<int>(std::ceil(base::SecondsOf(cluster.grace()).count())) +
         kSignalSlack;
}

absl::Status Check(const SlurmJob& job, const v1::RunConfig& config) {
  const int stages = config.pipeline().stages();
  if (job.workers > stages) {
    return absl::InvalidArgumentError(absl::StrCat("--workers ", job.workers,
                                                   ": expected 1 to ", stages,
                                                   " (pipeline.stages)"));
  }
  GIMBAL_RETURN_IF_ERROR(CheckWord("--partition", job.partition));
  GIMBAL_RETURN_IF_ERROR(CheckWord("--mem", job.memory));
  GIMBAL_RETURN_IF_ERROR(CheckWord("--time", job.time));
  for (const std::string& option : job.options) {
    GIMBAL_RETURN_IF_ERROR(CheckWord("--option", option));
    if (!absl::StartsWith(option, "-")) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--option ", option,
          ": expected an option of sbatch, e.g. --option=--account=physics"));
    }
  }
  const std::optional<int64_t> limit = SecondsOfLimit(job.time);
  const int lead = SignalLead(config.cluster());
  if (limit && *limit <= lead) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--time ", job.time, ": ", *limit, " s, but the last ", lead,
        " s are for the checkpoint at the end (cluster.grace and a minute, as "
        "Slurm's signals may come early); ask for more"));
  }
  return absl::OkStatus();
}

int CeilDiv(int a, int b) { return (a + b - 1) / b; }

// Of sbatch.
std::string Directives(const SlurmJob& job, const v1::RunConfig& config,
                       int workers, int nodes, int cpus) {
  const v1::ClusterSection& cluster = config.cluster();
  const int all = workers + cluster.spares();
  std::vector<std::string> options = {
      absl::StrCat("--job-name=", JobName(config.run().name())),
      absl::StrCat("--nodes=", nodes), absl::StrCat("--ntasks=", all),
      absl::StrCat("--ntasks-per-node=", CeilDiv(all, nodes)),
      absl::StrCat("--cpus-per-task=", cpus)};
  if (job.gpus > 0) {
    options.push_back(absl::StrCat("--gpus-per-task=", job.gpus));
  }
  if (!job.memory.empty()) options.push_back("--mem=" + job.memory);
  if (job.exclusive) options.push_back("--exclusive");
  if (!job.partition.empty()) options.push_back("--partition=" + job.partition);
  if (!job.time.empty()) options.push_back("--time=" + job.time);
  options.push_back("--output=slurm-%x-%j.out");
  options.push_back("--open-mode=append");
  options.push_back(absl::StrCat("--signal=B:USR1@", SignalLead(cluster)));
  options.push_back(job.requeue ? "--requeue" : "--no-requeue");
  std::string text;
  for (const std::string& option : options) {
    absl::StrAppend(&text, "#SBATCH ", option, "\n");
  }
  const bool can_shrink =
      cluster.min_workers() > 0 && cluster.min_workers() < workers;
  if (cluster.spares() > 0 || can_shrink) {
    absl::StrAppend(&text,
                    "# The stages of a lost node move to other workers.\n"
                    "#SBATCH --no-kill\n");
  }
  for (const std::string& option : job.options) {
    absl::StrAppend(&text, "#SBATCH ", option, "\n");
  }
  return text;
}

std::vector<std::string> WorkerOptions(const v1::RunConfig& config) {
  const v1::ClusterSection& cluster = config.cluster();
  std::vector<std::string> options = {
      "--stop-signals", "'" + absl::StrJoin(cluster.stop_signals(), ",") + "'"};
  const auto add = [&](const char* flag, const std::string& path) {
    if (path.empty()) return;
    options.push_back(flag);
    options.push_back(ShellWord(path));
  };
  add("--tls-ca", cluster.tls().ca());
  add("--tls-cert", cluster.tls().cert());
  add("--tls-key", cluster.tls().key());
  add("--token-file", cluster.token_file());
  return options;
}

std::string Settings(const SlurmJob& job, const v1::RunConfig& config,
                     int workers, int nodes, int cpus) {
  const int spares = config.cluster().spares();
  // Where nobody but the coordinator's own node reaches it, a cluster's
  // Prometheus does not either.
  const std::string& metrics = config.cluster().metrics_listen();
  const bool has_metrics = !net::IsLoopback(net::HostOf(metrics));
  std::vector<std::string> step = {absl::StrCat("--cpus-per-task=", cpus),
                                   "--cpu-bind=cores"};
  if (job.gpus > 0) step.push_back(absl::StrCat("--gpus-per-task=", job.gpus));
  return absl::StrCat(
      "readonly config=", ShellWord(job.config), "\n",
      "readonly run_dir=", ShellWord(job.run_dir), "\n",
      "readonly bin=", ShellWord(job.bin_dir), "\n",
      "readonly workers=", workers, "  # share the stages\n",
      "readonly spares=", spares, "  # step in when one of them is lost\n",
      "readonly workers_per_node=", CeilDiv(workers + spares, nodes), "\n",
      "readonly metrics_listen=", has_metrics ? ShellWord(metrics) : "",
      "  # of the coordinator; else at its node's address\n",
      "readonly requeue=", job.requeue ? "yes" : "no", "\n",
      "readonly step_options=(", absl::StrJoin(step, " "), ")\n",
      "readonly worker_options=(", absl::StrJoin(WorkerOptions(config), " "),
      ")\n");
}

}  // namespace

absl::StatusOr<std::string> SlurmScript(const SlurmJob& job,
                                        const v1::RunConfig& config) {
  GIMBAL_RETURN_IF_ERROR(Check(job, config));
  const int workers =
      job.workers > 0 ? job.workers : config.pipeline().stages();
  const int all = workers + config.cluster().spares();
  const int nodes = job.nodes > 0 ? job.nodes : all;
  if (nodes > all) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--nodes ", nodes, ": expected at most ", all,
        ", the number of workers and spares; a node without one would idle"));
  }
  const int cpus = job.cpus > 0 ? job.cpus : config.cluster().threads();
  return absl::StrCat(
      "#!/bin/bash\n"
      "# A gimbal run as a Slurm job, made by `gimbal slurm render`.\n"
      "#   sbatch JOB             starts the run\n"
      "#   sbatch JOB --resume    goes on with the one in run_dir\n",
      Directives(job, config, workers, nodes, cpus), "set -uo pipefail\n\n",
      Settings(job, config, workers, nodes, cpus), kBody);
}

}  // namespace gimbal::cli
