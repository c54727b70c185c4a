#!/usr/bin/env bash
# Kills one stage of a pipeline of four while it trains, then the coordinator,
# and shows that the other processes stay, that training goes on within moments,
# and that every loss is what it is in a run that nobody disturbed.
#
#   deploy/examples/kill_a_stage.sh [FOLDER]     default: runs/kill_a_stage
#
# Needs a build (deploy/quickstart.sh makes one) or GIMBAL_BIN_DIR, and python3.
set -euo pipefail
cd "$(dirname "$0")/../.."

readonly BIN=${GIMBAL_BIN_DIR:-build/release/bin}
readonly OUT=${1:-runs/kill_a_stage}
readonly RUN=$OUT/disturbed

train() {
  "$BIN/gimbal" train --run-dir "$1" --workers "$2" "$OUT/config.yaml"
}

status() { "$BIN/gimbal" status --run-dir "$RUN" --json 2>/dev/null; }

# field EXPRESSION: of the status, as Python sees it in `s`.
field() {
  status | python3 -c "import json, sys; s = json.load(sys.stdin); print($1)"
}

wait_for_update() {
  for _ in $(seq 600); do
    [[ $(field 's["update"]' 2>/dev/null || echo 0) -ge $1 ]] && return
    sleep 0.1
  done
  echo "update $1 was not reached" >&2
  exit 1
}

# Metrics without the time they were written at.
losses() { sed -E 's/"seconds":[^,}]*//' "$1/metrics.jsonl"; }

rm -rf "$OUT"
mkdir -p "$OUT"
for _ in $(seq 4000); do
  echo "In the beginning was a line of $RANDOM words, and it was good."
done >"$OUT/corpus.txt"
cat >"$OUT/config.yaml" <<END
run: {name: kill-a-stage, steps: 2000}
data: {train: $OUT/corpus.txt, valid: $OUT/corpus.txt, format: text}
model: {layers: 4, hidden: 32, heads: 2, context: 32}
batch: {microbatch: 4}
pipeline: {stages: 4}
optimizer: {lr: 2.0e-3, schedule: {warmup: 20}}
checkpoint: {every: 200}
eval: {every: 500, batches: 4}
END

echo "== a run that nobody disturbs"
train "$OUT/undisturbed" 1 >"$OUT/undisturbed.log"

echo "== the same one on four workers"
train "$RUN" 4 >"$OUT/disturbed.log" &
readonly TRAINING=$!
wait_for_update 300
workers() { field '*["stages %s: pid %d" % (w["stages"], w["pid"]) for w in s["workers"]], sep="\n"'; }
workers
victim=$(field '[w["pid"] for w in s["workers"] if 2 in w["stages"]][0]')
echo "== kill -9 $victim, the worker of stage 2, at update $(field 's["update"]')"
kill -9 "$victim"
wait_for_update 700
workers
coordinator=$(python3 -c "import json; print(json.load(open('$RUN/coordinator.json'))['pid'])")
echo "== kill -9 $coordinator, the coordinator, at update $(field 's["update"]')"
kill -9 "$coordinator"
wait_for_update 1200
workers
wait "$TRAINING"

echo "== what the coordinator decided"
python3 - "$RUN" <<'END'
import json, sys
for line in open(f"{sys.argv[1]}/events.jsonl"):
    event = json.loads(line)
    if any(word in event["what"] for word in ("lost", "replayed", "goes on", "goes back", "keeps")):
        print(f'{event["what"]}: {event["reason"]}')
for recovery in json.load(open(f"{sys.argv[1]}/summary.json"))["recoveries"]:
    seconds = recovery["recovered_seconds"] - recovery["detected_seconds"]
    print(f'stage {recovery["stage"]} was back after {seconds:.2f} s, '
          f'{recovery["steps_replayed"]} updates replayed')
END

if diff <(losses "$OUT/undisturbed") <(losses "$RUN") >"$OUT/difference"; then
  echo "== all $(wc -l <"$RUN/metrics.jsonl") rows of metrics.jsonl are the same"
else
  echo "== the numbers differ, see $OUT/difference" >&2
  exit 1
fi
