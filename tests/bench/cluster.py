#!/usr/bin/env python3
"""Measures what a cluster of processes costs and brings on this machine.

  tests/bench/cluster.py [build/release/bin]

1. Throughput of a two-stage pipeline on two workers of one thread each, over
   that on one worker (the same numbers): medians of alternating runs.
2. Start of a cluster of four workers: from the command to the first update.
Needs two idle cores; prints one line per figure.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

BIN = sys.argv[1] if len(sys.argv) > 1 else "build/release/bin"
ROUNDS = 3
RUN_TIMEOUT = 300  # seconds

CONFIG = """
run: {name: bench, steps: %(steps)d}
data: {train: %(data)s, format: text}
model: {layers: %(layers)d, hidden: %(hidden)d, heads: 4, context: 128}
batch: {microbatch: 8}
pipeline: {stages: %(stages)d}
optimizer: {name: adamw}
checkpoint: {every: 0}
"""


def write(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def objects(run, name):
    with open(os.path.join(run, name), encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def train(config, run, workers):
    try:
        done = subprocess.run(
            [os.path.join(BIN, "gimbal"), "train", config, "--run-dir", run,
             "--workers", str(workers)],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            timeout=RUN_TIMEOUT, check=False)
    except subprocess.TimeoutExpired as error:
        sys.exit(f"the run in {run} takes longer than {error.timeout} s")
    if done.returncode != 0:
        sys.exit(f"the run in {run} failed with exit code {done.returncode}:\n"
                 f"{done.stdout}")


def tokens_per_second(config, run, workers):
    train(config, run, workers)
    steady = objects(run, "metrics.jsonl")[5:]  # without the ramp
    first, last = steady[0], steady[-1]
    return ((last["tokens"] - first["tokens"]) /
            (last["seconds"] - first["seconds"]))


def seconds_to_first_update(config, run):
    begin = time.time()
    train(config, run, 4)
    # Rows reach the disk now and then; their seconds count from RUNNING.
    running = next(event for event in objects(run, "events.jsonl")
                   if event["what"] == "run is RUNNING")
    first = objects(run, "metrics.jsonl")[0]
    return running["unix_seconds"] - begin + first["seconds"]


def main():
    with tempfile.TemporaryDirectory() as folder:
        data = write(folder, "corpus.txt", "a quick brown fox, again. " * 8000)
        values = {"steps": 40, "layers": 8, "hidden": 256, "stages": 2,
                  "data": data}
        config = write(folder, "two.yaml", CONFIG % values)
        speed = {1: [], 2: []}
        for i in range(ROUNDS):
            for workers in (1, 2):
                run = os.path.join(folder, f"run-{i}-{workers}")
                speed[workers].append(tokens_per_second(config, run, workers))
        one, two = (statistics.median(speed[w]) for w in (1, 2))
        print(f"P = 2: {one:.0f} tokens/s on one worker, {two:.0f} on two: "
              f"{two / one:.2f} times (target 1.8)")

        values.update({"steps": 5, "layers": 4, "hidden": 64, "stages": 4})
        config = write(folder, "four.yaml", CONFIG % values)
        starts = [seconds_to_first_update(config,
                                          os.path.join(folder, f"start-{i}"))
                  for i in range(5)]
        print(f"start of 4 workers to the first update: "
              f"{statistics.median(starts):.2f} s (target 2)")


if __name__ == "__main__":
    main()
