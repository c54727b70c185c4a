#!/usr/bin/env python3
"""Dashboards and rules as files.

    dashboards_test.py          promtool is content, and they fit each other
    dashboards_test.py VENV     the committed dashboards are what generate.py
                                makes, and Grafana's schema knows every key; ends
                                with code 77 where the package for this, which
                                the folder VENV keeps, cannot be had
"""

import json
import os
import pathlib
import re
import subprocess
import sys

from panels import panels_of

SOURCE = pathlib.Path(os.environ["GIMBAL_SOURCE_DIR"])
DASHBOARDS = SOURCE / "dashboards"
RULES = DASHBOARDS / "prometheus"
DATA_SOURCE = {"type": "prometheus", "uid": "gimbal-prometheus"}

# Run by the Python that has the package: text of generate.py's dashboards, and
# every committed one as Grafana's model reads and writes it.
WITH_SDK = """
import json, pathlib, sys
folder = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(folder))
import generate
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard
register_default_plugins()
read = {path.name: json.loads(json.dumps(
    Dashboard.from_json(json.loads(path.read_text())), cls=JSONEncoder))
    for path in folder.glob('*.json')}
print(json.dumps({'made': generate.rendered(), 'read': read}))
"""


def check(condition, what):
    if not condition:
        raise AssertionError(what)


def python_with_sdk(venv):
    """None when the package cannot be had."""
    python = venv / "bin" / "python"
    needed = (DASHBOARDS / "requirements.txt").read_text(encoding="utf-8")
    mark = venv / "requirements.txt"
    if mark.exists() and mark.read_text(encoding="utf-8") == needed:
        return python
    pip = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check",
           "--timeout", "20", "--retries", "2"]
    for command in (["python3", "-m", "venv", venv],
                    [*pip, "-r", DASHBOARDS / "requirements.txt"]):
        done = subprocess.run(command, capture_output=True, text=True,
                              check=False)
        if done.returncode != 0:
            print(done.stderr.strip().splitlines()[-1:])
            return None
    mark.write_text(needed, encoding="utf-8")
    return python


def unknown_in(written, read, at=""):
    """Paths of what was written and not read so; a reader may add defaults."""
    if isinstance(written, dict) and isinstance(read, dict):
        for key in written:
            if key in read:
                yield from unknown_in(written[key], read[key], f"{at}.{key}")
            else:
                yield f"{at}.{key}"
    elif isinstance(written, list) and isinstance(read, list) and \
            len(written) == len(read):
        for i, (a, b) in enumerate(zip(written, read)):
            yield from unknown_in(a, b, f"{at}[{i}]")
    elif written != read:
        yield at


def check_schema(python):
    done = subprocess.run([python, "-c", WITH_SDK, DASHBOARDS],
                          capture_output=True, text=True, check=False)
    check(done.returncode == 0, done.stderr)
    result = json.loads(done.stdout)
    committed = {path.name: path.read_text(encoding="utf-8")
                 for path in DASHBOARDS.glob("*.json")}
    check(committed == result["made"], "the dashboards are not what "
          "dashboards/generate.py makes: run it")
    for name, read in result["read"].items():
        unknown = list(unknown_in(json.loads(committed[name]), read))
        check(not unknown, f"{name}: Grafana's schema does not have {unknown}")


def check_dashboards():
    uids = set()
    for path in sorted(DASHBOARDS.glob("*.json")):
        board = json.loads(path.read_text(encoding="utf-8"))
        uids.add(board["uid"])
        check(board["uid"] == path.stem, f"{path.name}: uid {board['uid']}")
        check("__inputs" not in board, path.name)
        titles = [panel["title"] for panel in panels_of(board)]
        check(len(titles) == len(set(titles)), f"{path.name}: {titles}")
        for panel in panels_of(board):
            where = f"{path.name}: {panel['title']}"
            if panel["type"] == "row":
                continue
            check(panel["targets"], f"{where} shows nothing")
            check(panel["datasource"] == DATA_SOURCE, where)
            check(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24, where)
        for part in (board["templating"], board["annotations"]):
            for each in part["list"]:
                check(each["datasource"] == DATA_SOURCE, each["name"])
    check(uids == {"run_overview", "stage_detail", "control_plane"}, f"{uids}")
    provisioned = (DASHBOARDS / "grafana/provisioning/datasources/prometheus.yml"
                   ).read_text(encoding="utf-8")
    check("uid: " + DATA_SOURCE["uid"] in provisioned, provisioned)


def check_rules():
    for command in (["check", "rules", *sorted(RULES.glob("*.rules.yml"))],
                    ["check", "config", RULES / "prometheus.yml"],
                    ["test", "rules", RULES / "rules_test.yml"]):
        done = subprocess.run(["promtool", *command], capture_output=True,
                              text=True, check=False)
        check(done.returncode == 0, done.stdout + done.stderr)
    alerts = re.findall(r"alert: (\w+)", (RULES / "alerts.rules.yml").read_text(
        encoding="utf-8"))
    tests = (RULES / "rules_test.yml").read_text(encoding="utf-8")
    runbook = (DASHBOARDS / "RUNBOOK.md").read_text(encoding="utf-8")
    sections = re.findall(r"(?m)^## (\w+)$", runbook)
    check(sorted(sections) == sorted(alerts), f"RUNBOOK.md: {sections}")
    for alert in alerts:
        check(f'alertname="{alert}"' in tests, f"rules_test.yml: no {alert}")


def main():
    if len(sys.argv) == 1:
        check_dashboards()
        check_rules()
        return
    python = python_with_sdk(pathlib.Path(sys.argv[1]))
    if python is None:
        print("skipped: grafana-foundation-sdk cannot be installed")
        sys.exit(77)
    check_schema(python)


if __name__ == "__main__":
    main()
