#!/usr/bin/env python3
"""Measures what metrics and traces cost a worker, as shares of its training.

  tests/bench/observability.py [build/release/bin]

One worker hosts all four stages of deploy/examples/quickstart.yaml. In turns it
is left alone, scraped once a second, and told to trace every update; each time
from one update to another, and again and again. What counts is the time on a CPU
that the kernel notes for each thread, which other load on the machine changes
little: of the thread that trains, and of all the others (heartbeats, HTTP, the
writer of the trace). What comes once a second is set against a second, as long as
a thread trains in one that nobody disturbs; the trace against its updates. Prints
medians, and the quartiles around them.
"""

import glob
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

BIN = sys.argv[1] if len(sys.argv) > 1 else "build/release/bin"
CONFIG = os.path.join(os.path.dirname(__file__),
                      "../../deploy/examples/quickstart.yaml")
ROUNDS = 11
SECONDS = 6  # of a turn
PATIENCE = 120  # seconds
TURNS = ("plain", "scraped", "plain", "traced")


def write_config(folder):
    with open(CONFIG, encoding="utf-8") as file:
        text = file.read()
    text = re.sub(r"steps: \d+", "steps: 1000000", text)
    text = re.sub(r"data: +\{.*", f"data: {{train: {folder}/text, format: text}}",
                  text)
    text = re.sub(r"checkpoint: \{.*", "checkpoint: {every: 0}", text)
    text = re.sub(r"eval: +\{.*", "", text)
    path = os.path.join(folder, "config.yaml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    with open(os.path.join(folder, "text"), "w", encoding="utf-8") as file:
        file.write("In the beginning God created the heaven. " * 5000)
    return path


def get(url):
    with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
        return answer.read()


def eventually(condition, what):
    end = time.time() + PATIENCE
    while not (found := condition()):
        if time.time() > end:
            sys.exit(f"{what}: not within {PATIENCE} s")
        time.sleep(0.002)
    return found


class Run:
    def __init__(self, folder):
        self.dir = os.path.join(folder, "run")
        self.processes = [subprocess.Popen(
            [os.path.join(BIN, "gimbal-coordinator"), "--config",
             write_config(folder), "--run-dir", self.dir, "--workers", "1",
             "--log-level", "warning"])]
        where = os.path.join(self.dir, "coordinator.json")
        eventually(lambda: os.path.exists(where), "the coordinator serves")
        with open(where, encoding="utf-8") as file:
            addresses = json.load(file)
        self.address = addresses["address"]
        self.status_url = f"http://{addresses['metrics_address']}/status.json"
        self.processes.append(subprocess.Popen(
            [os.path.join(BIN, "gimbal-worker"), "--coordinator", self.address,
             "--device", "cpu", "--log-level", "warning"]))
        self.await_update(self.update() + 120)  # warm
        self.worker_url = (
            f"http://{self.status()['workers'][0]['metrics_address']}/metrics")

    def status(self):
        return json.loads(get(self.status_url))

    def update(self):
        return self.status()["update"]

    def await_update(self, update):
        eventually(lambda: self.update() >= update, f"update {update}")

    def trace(self, verb):
        subprocess.run([os.path.join(BIN, "gimbal"), "trace", verb,
                        "--coordinator", self.address], check=True,
                       stdout=subprocess.DEVNULL)
        time.sleep(0.2)

    def thread_seconds(self):
        """By thread of the worker."""
        seconds = {}
        for path in glob.glob(f"/proc/{self.processes[1].pid}/task/*/schedstat"):
            with open(path, encoding="utf-8") as file:
                seconds[path] = int(file.read().split()[0]) / 1e9
        return seconds

    def turn(self, scraped):
        """Seconds of training per update, and of the other threads per update
        and per second."""
        first = self.update()
        self.await_update(first + 1)
        first, before = self.update(), self.thread_seconds()
        begin = end = time.time()
        for _ in range(SECONDS):
            end += 1
            if scraped:
                get(self.worker_url)
            time.sleep(max(0, end - time.time()))
        last = self.update()
        self.await_update(last + 1)
        last, after = self.update(), self.thread_seconds()
        wall, updates = time.time() - begin, last - first
        spent = sorted(after[path] - before.get(path, 0) for path in after)
        others = sum(spent[:-1])
        return spent[-1] / updates, others / updates, others / wall

    def kill(self):
        for process in reversed(self.processes):
            process.kill()
            process.wait()


def show(what, shares):
    low, middle, high = statistics.quantiles(shares, n=4)
    print(f"{what:44} {100 * middle:+.3f}%  [{100 * low:+.3f}, "
          f"{100 * high:+.3f}]")


def main():
    turns = {"scraped": [], "traced": []}
    plain = []
    with tempfile.TemporaryDirectory() as folder:
        run = Run(folder)
        try:
            for _ in range(ROUNDS):
                for name in TURNS:
                    if name == "traced":
                        run.trace("start")
                    spent = run.turn(name == "scraped")
                    if name == "traced":
                        run.trace("stop")
                    if name == "plain":
                        plain.append(spent)
                    else:
                        turns[name].append((plain[-1], spent))
        finally:
            run.kill()
    training = statistics.median(each[0] for each in plain)
    print(f"training, CPU time of an update              {1000 * training:.1f} ms")
    show("other threads, left alone", [each[2] for each in plain])
    show("other threads, more: scraped each second",
         [spent[2] - before[2] for before, spent in turns["scraped"]])
    show("other threads, more: every update traced",
         [(spent[1] - before[1]) / before[0] for before, spent in
          turns["traced"]])
    show("training thread, more: scraped each second",
         [spent[0] / before[0] - 1 for before, spent in turns["scraped"]])
    show("training thread, more: every update traced",
         [spent[0] / before[0] - 1 for before, spent in turns["traced"]])


main()
