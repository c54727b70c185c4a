#!/usr/bin/env python3
"""deploy/monitoring.sh: a real Prometheus scrapes two folders' targets, Grafana
gets what it needs to provision itself, and ^C leaves nothing behind."""

import os
import pathlib
import re
import signal
import subprocess
import tempfile
import urllib.parse
import urllib.request
import json

from exporter import Exporter
from runs import eventually

SOURCE = pathlib.Path(os.environ["GIMBAL_SOURCE_DIR"])
SCRIPT = SOURCE / "deploy" / "monitoring.sh"
# Stands for Grafana, of which no package is in reach.
GRAFANA = """#!/bin/sh
env | grep -E '^(GF_|GIMBAL_)' >"$GRAFANA_SAYS.new"
mv "$GRAFANA_SAYS.new" "$GRAFANA_SAYS"
exec sleep 600
"""


def check(condition, what):
    if not condition:
        raise AssertionError(what)


def answers(address, query):
    url = f"http://{address}/api/v1/query?" + urllib.parse.urlencode(
        {"query": query})
    with urllib.request.urlopen(url, timeout=30) as answer:
        return json.load(answer)["data"]["result"]


def scrapes(address, target):
    with urllib.request.urlopen(f"http://{address}/api/v1/targets",
                                timeout=30) as answer:
        targets = json.load(answer)["data"]["activeTargets"]
    return any(target in each["scrapeUrl"] for each in targets)


def processes_with(word):
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if word in path.read_bytes().decode(errors="replace"):
                found.append(path.parent.name)
        except OSError:
            pass
    return found


def test(folder):
    folders = [folder / "run a", folder / "run-b"]
    for path in folders:
        path.mkdir()
        Exporter(path / "prometheus-targets.json")
    (folder / "bin").mkdir()
    grafana = folder / "bin" / "grafana-server"
    grafana.write_text(GRAFANA, encoding="utf-8")
    grafana.chmod(0o755)
    says = folder / "grafana-says"
    log = folder / "log"
    with open(log, "wb") as out:
        process = subprocess.Popen(
            [SCRIPT, "--port", "0", *folders], stdout=out,
            stderr=subprocess.STDOUT, start_new_session=True,
            env={**os.environ, "TMPDIR": str(folder), "GRAFANA_SAYS": str(says),
                 "PATH": f"{folder}/bin:{os.environ['PATH']}"})
    try:
        address = eventually(
            lambda: re.search(r"Prometheus  http://(\S+)", log.read_text()),
            "the script says where Prometheus is")[1]
        eventually(lambda: len(answers(address, 'up{job="dcgm"} == 1')) == 2,
                   "both folders' targets are scraped")
        # An exporter that cannot be there was once a target that is down.
        has_gpu = any(pathlib.Path("/dev").glob("nvidia[0-9]*"))
        check(scrapes(address, "127.0.0.1:9400") == has_gpu, "DCGM")
        eventually(says.exists, "Grafana starts")
        said = dict(line.split("=", 1) for line in says.read_text().splitlines())
        check(said["GIMBAL_PROMETHEUS"] == address, f"{said}")
        for file in ("datasources/prometheus.yml", "dashboards/gimbal.yml"):
            path = pathlib.Path(said["GF_PATHS_PROVISIONING"]) / file
            check(path.exists(), f"{path}")
        check((pathlib.Path(said["GIMBAL_DASHBOARDS"]) / "run_overview.json"
               ).exists(), f"{said}")
    finally:
        os.killpg(process.pid, signal.SIGINT)
        code = process.wait(timeout=60)
    check(code == 0, f"exit code {code}: {log.read_text()}")
    check(not processes_with(f"{folder}/gimbal-monitoring"), "something is left")
    check(not list(folder.glob("gimbal-monitoring-*")), "a folder is left")


def test_mistakes(folder):
    for arguments, word in ((["nowhere"], "no such folder"),
                            ([], "RUN_DIR"), (["--wrong"], "unknown option")):
        done = subprocess.run([SCRIPT, *arguments], capture_output=True,
                              text=True, cwd=folder, check=False)
        check(done.returncode == 2 and word in done.stderr, f"{done}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        test(pathlib.Path(name).resolve())
        test_mistakes(name)
