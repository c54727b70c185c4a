"""Runs of the real programs, started one process at a time."""

import json
import os
import pathlib
import random
import signal
import subprocess
import time
import urllib.request

from exposition import parse

BIN = pathlib.Path(os.environ["GIMBAL_BIN_DIR"])
PATIENCE = 90  # seconds, of everything that is waited for


def eventually(condition, what, patience=PATIENCE):
    """The first true value of condition(), asked again and again."""
    end = time.monotonic() + patience
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"waited {patience} s in vain: {what}")
        time.sleep(0.05)


def write_corpus(path):
    draw = random.Random(3)
    path.write_text("".join(f"word{draw.randrange(97)} "
                            for _ in range(6000)), encoding="utf-8")


class Run:
    """A coordinator and its workers, `worker-0` to `worker-(P-1)`."""

    def __init__(self, folder, name, config, env=None):
        self.folder = pathlib.Path(folder) / name
        self.config = pathlib.Path(folder) / f"{name}.yaml"
        self.config.write_text(config, encoding="utf-8")
        self.targets_file = self.folder / "prometheus-targets.json"
        self.log = open(pathlib.Path(folder) / f"{name}.log", "ab")
        self.workers = {}
        self.coordinator = self._start(
            "gimbal-coordinator", "--config", self.config, "--run-dir",
            self.folder, env=env)
        facts = self.folder / "coordinator.json"
        eventually(facts.exists, f"{name}: the coordinator serves")
        self.address = json.loads(facts.read_text())["address"]
        eventually(self.targets_file.exists, f"{name}: targets are known")
        self.id = self.targets()[0][1].split("/")[0]

    def _start(self, program, *arguments, env=None):
        return subprocess.Popen(
            [BIN / program, *map(str, arguments)], stdout=self.log,
            stderr=self.log, env={**os.environ, **(env or {})})

    def start_worker(self, number, env=None):
        self.workers[number] = self._start(
            "gimbal-worker", "--coordinator", self.address, "--name",
            f"worker-{number}", env=env)

    def command(self, *arguments):
        done = subprocess.run(
            [BIN / "gimbal", *arguments, "--run-dir", str(self.folder)],
            capture_output=True, text=True, timeout=PATIENCE, check=False)
        if done.returncode != 0:
            raise AssertionError(done.stdout + done.stderr)
        return done.stdout

    def targets(self):
        """(job, instance, address) of every process."""
        return [(group["labels"]["job"], group["labels"]["instance"],
                 group["targets"][0])
                for group in json.loads(self.targets_file.read_text())]

    def coordinator_metrics(self):
        return self.targets()[0][2]

    def expositions(self):
        """(job, families) of every process that answers."""
        found = []
        for job, _, address in self.targets():
            try:
                found.append((job, parse(scrape(address))))
            except OSError:
                pass  # it was killed just now
        return found

    def value(self, name, **labels):
        """Sum over the coordinator's samples with these labels."""
        family = parse(scrape(self.coordinator_metrics()))[name]
        return sum(value for (_, pairs), value in family.samples.items()
                   if labels.items() <= dict(pairs).items())

    def workers_of(self, stage):
        """Numbers of the workers that host a stage."""
        numbers = []
        for job, instance, address in self.targets():
            if job != "gimbal-worker":
                continue
            try:
                text = scrape(address)
            except OSError:
                continue
            if f'gimbal_stage_stash_bytes{{run="{self.id}",stage="{stage}"}}' \
                    in text:
                numbers.append(int(instance.rsplit("worker-", 1)[1].split("-")[0]))
        return numbers

    def kill(self):
        for process in [self.coordinator, *self.workers.values()]:
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()
        self.log.close()


def scrape(address, path="/metrics"):
    with urllib.request.urlopen(f"http://{address}{path}",
                                timeout=PATIENCE) as answer:
        return answer.read().decode()
