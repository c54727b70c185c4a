#!/usr/bin/env python3
"""Measures what a lost stage and what snapshots cost on this machine.

  tests/bench/recovery.py [build/release/bin [recoveries] [every] [keep] [pause]]

1. Workers of a pipeline of four stages are killed, then stopped (SIGSTOP), one
   by one while it trains: seconds from the signal to the coordinator's decision
   and to training again, median and largest; pids of the others.
2. Throughput of the quickstart's model (on text of its own) with a snapshot every
   50 updates, on disk and in two workers' memories, over that without: median of
   alternating runs.
3. How long the slowest stage stands still for a snapshot on disk.
Prints a table.
"""

import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

BIN = sys.argv[1] if len(sys.argv) > 1 else "build/release/bin"
KILLS, HANGS, ROUNDS, STEPS = 10, 3, 5, 300

CONFIG = """
run: {name: bench, steps: %(steps)d}
data: {train: %(data)s, format: text}
model: {layers: 8, hidden: 64, heads: 4, context: 64}
batch: {microbatch: 16}
pipeline: {stages: 4}
optimizer: {lr: 2.0e-3, schedule: {warmup: 20}}
checkpoint: {every: %(every)d, keep: 2}
cluster: {restart_budget: 100, peer_snapshot_every: %(keep)d}
"""


def write(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def command(verb, run, *more):
    return [os.path.join(BIN, "gimbal"), verb, "--run-dir", run, *more]


def status(run):
    done = subprocess.run(command("status", run, "--json"),
                          capture_output=True, text=True, check=False)
    return json.loads(done.stdout) if done.returncode == 0 else None


def events(run):
    with open(os.path.join(run, "events.jsonl"), encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.endswith("\n")]


def first_after(run, moment, word):
    """Seconds from `moment` to the first event with the word; waits for it."""
    while time.time() < moment + 60:
        for event in events(run):
            if event["unix_seconds"] >= moment and word in event["what"]:
                return event["unix_seconds"] - moment
        time.sleep(0.02)
    sys.exit(f"no event '{word}' in {run}")


def disturb(run, what):
    workers = [w["pid"] for w in status(run)["workers"]]
    victim = random.choice(workers)
    moment = time.time()
    os.kill(victim, what)
    lost = first_after(run, moment, "was lost")
    back = first_after(run, moment + lost, "run is RUNNING") + lost
    left = {w["pid"] for w in status(run)["workers"]}
    if not set(workers) - {victim} <= left:
        sys.exit("another worker was restarted, too")
    time.sleep(1)
    return lost, back


def recoveries(folder, data):
    config = write(folder, "long.yaml",
                   CONFIG % {"steps": 1000000, "data": data, "every": 100,
                             "keep": 0})
    run = os.path.join(folder, "disturbed")
    with subprocess.Popen(command("train", run, config),
                          stdout=subprocess.DEVNULL) as train:
        while not (status(run) or {}).get("update"):
            time.sleep(0.1)
        time.sleep(3)
        for name, what, count in (("killed", signal.SIGKILL, KILLS),
                                  ("stopped", signal.SIGSTOP, HANGS)):
            lost, back = zip(*(disturb(run, what) for _ in range(count)))
            print(f"| a worker is {name} ({count} times): noticed after | "
                  f"{statistics.median(lost):.2f} s, at most {max(lost):.2f} |")
            print(f"| training again after | {statistics.median(back):.2f} s, "
                  f"at most {max(back):.2f} |", flush=True)
        train.kill()


def updates_per_second(folder, data, name, every=0, keep=0):
    config = write(folder, "short.yaml",
                   CONFIG % {"steps": STEPS, "data": data, "every": every,
                             "keep": keep})
    run = os.path.join(folder, name)
    subprocess.run(command("train", run, config), check=True,
                   stdout=subprocess.DEVNULL)
    with open(os.path.join(run, "metrics.jsonl"), encoding="utf-8") as file:
        rows = [json.loads(line) for line in file][20:]
    return (len(rows) - 1) / (rows[-1]["seconds"] - rows[0]["seconds"])


def snapshots(folder, data, where):
    ratios = []
    for i in range(ROUNDS):
        name = f"{where}-{i}"
        without = updates_per_second(folder, data, "no-" + name)
        with_them = updates_per_second(folder, data, name, **{where: 50})
        ratios.append(with_them / without)
    place = "on disk" if where == "every" else "in memory"
    print(f"| throughput with a snapshot {place} every 50 updates "
          f"({ROUNDS} pairs) | {statistics.median(ratios):.3f} of that without, "
          f"from {min(ratios):.3f} to {max(ratios):.3f} |", flush=True)


def checkpoint_seconds(view):
    """Largest time that a stage has spent in snapshots so far."""
    seconds = [0.0]
    for worker in view["workers"]:
        url = f"http://{worker['metrics_address']}/metrics"
        with urllib.request.urlopen(url, timeout=5) as page:
            text = page.read().decode()
        seconds += map(float, re.findall(
            r'gimbal_stage_phase_seconds_total{[^}]*phase="checkpoint"[^}]*} '
            r"(\S+)", text))
    return max(seconds)


def pause(folder, data):
    config = write(folder, "pause.yaml",
                   CONFIG % {"steps": STEPS, "data": data, "every": 50,
                             "keep": 0})
    run = os.path.join(folder, "pause")
    spent, update = 0.0, 0
    with subprocess.Popen(command("train", run, config),
                          stdout=subprocess.DEVNULL) as train:
        while train.poll() is None:
            time.sleep(0.1)
            view = status(run)
            if not view or view.get("update", 0) < 50:
                continue
            try:
                spent, update = checkpoint_seconds(view), view["update"]
            except OSError:
                break  # the workers leave
    with open(os.path.join(run, "metrics.jsonl"), encoding="utf-8") as file:
        rows = [json.loads(line) for line in file][20:]
    one = (rows[-1]["seconds"] - rows[0]["seconds"]) / (len(rows) - 1)
    print(f"| a stage stands still for a snapshot ({update // 50} of them) | "
          f"{spent / (update // 50) * 1000:.1f} ms, one update takes "
          f"{one * 1000:.1f} ms |", flush=True)


def main():
    with tempfile.TemporaryDirectory() as folder:
        data = write(folder, "corpus.txt", "a quick brown fox, again. " * 8000)
        print("| what | measured |\n|---|---|")
        parts = sys.argv[2:] or ["recoveries", "every", "keep", "pause"]
        if "recoveries" in parts:
            recoveries(folder, data)
        for where in ("every", "keep"):
            if where in parts:
                snapshots(folder, data, where)
        if "pause" in parts:
            pause(folder, data)


if __name__ == "__main__":
    main()
