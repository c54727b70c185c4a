#!/usr/bin/env bash
# Watches runs on this machine: starts Prometheus, which finds the processes of
# each run by RUN_DIR/prometheus-targets.json, with the project's rules and
# alerts, and, where Grafana is installed, Grafana with data source and
# dashboards. Says the URLs and stays until ^C. Nothing outside the machine can
# reach them.
#
#   deploy/monitoring.sh [--data DIR] [--port N] [--grafana-port N] RUN_DIR...
#
#   --data DIR          keeps the samples there; default: a temporary folder
#   --port N            of Prometheus; default 9090, 0: a free one
#   --grafana-port N    default 3000
#
# A run folder may be named before its run has started.
set -euo pipefail
readonly DASHBOARDS=$(cd "$(dirname "$0")/../dashboards" && pwd)

usage() {
  sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"
  exit "$1"
}
fail() { echo "monitoring.sh: $*" >&2; exit 2; }

data='' port=9090 grafana_port=3000 runs=()
while [[ $# -gt 0 ]]; do
  case $1 in
    --data) data=${2:?--data needs a folder}; shift 2 ;;
    --port) port=${2:?--port needs a number}; shift 2 ;;
    --grafana-port) grafana_port=${2:?--grafana-port needs a number}; shift 2 ;;
    -h|--help) usage 0 ;;
    -*) echo "monitoring.sh: unknown option $1" >&2; usage 2 >&2 ;;
    *) runs+=("$1"); shift ;;
  esac
done
[[ ${#runs[@]} -gt 0 ]] || usage 2 >&2
for run in "${runs[@]}"; do
  [[ -d $run ]] || fail "$run: no such folder; name run folders (--run-dir)"
done
command -v prometheus >/dev/null ||
  fail "Prometheus is not installed: apt-get install prometheus"

readonly WORK=$(mktemp -d "${TMPDIR:-/tmp}/gimbal-monitoring-XXXXXX")
children=()
# Ends what was started here, and nothing else.
finish() {
  trap '' INT TERM
  [[ ${#children[@]} -eq 0 ]] || kill "${children[@]}" 2>/dev/null || true
  wait || true
  rm -rf "$WORK"
}
trap finish EXIT
trap 'exit 0' INT TERM

# As YAML, quoted: a folder's name may have blanks.
target_files() {
  local run
  for run in "${runs[@]}"; do
    printf '"%s/prometheus-targets.json", ' "$(realpath "$run")"
  done
}

# prometheus/prometheus.yml with these runs, and the DCGM exporter, its last job,
# only where there is a GPU for it.
cp "$DASHBOARDS"/prometheus/*.rules.yml "$WORK"
has_gpu=$(compgen -G '/dev/nvidia[0-9]*' || true)
FILES=$(target_files) GPU=$has_gpu awk '
  /# The DCGM exporter/ && ENVIRON["GPU"] == "" { exit }
  /- files:/ { sub(/\[.*\]/, ""); print $0 "[" ENVIRON["FILES"] "]"; next }
  { print }' "$DASHBOARDS/prometheus/prometheus.yml" >"$WORK/prometheus.yml"

start_prometheus() {
  : >"$WORK/prometheus.log"  # read below, perhaps before the child opens it
  prometheus --config.file="$WORK/prometheus.yml" \
    --storage.tsdb.path="${data:-$WORK/data}" \
    --web.listen-address="127.0.0.1:$port" >"$WORK/prometheus.log" 2>&1 &
  children+=($!)
  local address
  while true; do
    address=$(sed -n 's/.*Listening on.*address="\{0,1\}\(127[0-9.:]*\).*/\1/p' \
      "$WORK/prometheus.log")
    [[ -z $address ]] || break
    if ! kill -0 "${children[-1]}" 2>/dev/null; then
      tail -n 3 "$WORK/prometheus.log" >&2
      fail "Prometheus did not start; is port $port taken? (--port 0)"
    fi
    sleep 0.1
  done
  PROMETHEUS=$address
  echo "Prometheus  http://$PROMETHEUS  (alerts: http://$PROMETHEUS/alerts)"
}

start_grafana() {
  local server
  server=$(command -v grafana-server || command -v grafana) || {
    echo "Grafana     is not installed; its dashboards are in $DASHBOARDS"
    return
  }
  local command=("$server")
  [[ $(basename "$server") == grafana-server ]] || command+=(server)
  GIMBAL_PROMETHEUS=$PROMETHEUS GIMBAL_DASHBOARDS=$DASHBOARDS \
    GF_PATHS_PROVISIONING=$DASHBOARDS/grafana/provisioning \
    GF_PATHS_DATA=$WORK/grafana GF_PATHS_LOGS=$WORK/grafana \
    GF_SERVER_HTTP_ADDR=127.0.0.1 GF_SERVER_HTTP_PORT=$grafana_port \
    GF_AUTH_ANONYMOUS_ENABLED=true GF_ANALYTICS_REPORTING_ENABLED=false \
    "${command[@]}" --homepath "${GRAFANA_HOME:-/usr/share/grafana}" \
    >"$WORK/grafana.log" 2>&1 &
  children+=($!)
  echo "Grafana     http://127.0.0.1:$grafana_port/d/run_overview"
}

start_prometheus
start_grafana
echo "^C ends them"
# A child that ends by itself ends all.
wait -n
for log in "$WORK"/*.log; do tail -n 3 "$log" >&2; done
fail "a process ended by itself"
