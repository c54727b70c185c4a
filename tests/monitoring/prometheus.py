"""A real Prometheus with the project's rules, made quick."""

import json
import pathlib
import re
import subprocess
import urllib.parse
import urllib.request

from runs import eventually

RULES = ["recording.rules.yml", "alerts.rules.yml"]
# Windows and waits of the rules, in seconds: a scrape comes every second, and
# what has happened must stay in sight for the length of a test.
WINDOWS = {"1m": 5, "2m": 6, "10m": 900, "30m": 900, "1h": 120}
WAITS = {"1m": 2, "3m": 2, "5m": 2}


def quick(rules):
    rules = re.sub(r"\[(\w+)\]", lambda m: f"[{WINDOWS[m[1]]}s]", rules)
    return re.sub(r"for: (\w+)", lambda m: f"for: {WAITS[m[1]]}s", rules)


class Prometheus:
    def __init__(self, folder, rules_folder, target_files):
        folder = pathlib.Path(folder)
        folder.mkdir()
        for name in RULES:
            text = quick((rules_folder / name).read_text(encoding="utf-8"))
            (folder / name).write_text(text, encoding="utf-8")
        files = json.dumps([str(path) for path in target_files])
        (folder / "prometheus.yml").write_text(
            "global: {scrape_interval: 1s, evaluation_interval: 1s}\n"
            f"rule_files: {json.dumps(RULES)}\n"
            "scrape_configs:\n"
            "  - job_name: gimbal\n"
            "    honor_labels: true\n"
            f"    file_sd_configs: [{{files: {files}, refresh_interval: 1s}}]\n",
            encoding="utf-8")
        self.log = folder / "log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                ["prometheus", f"--config.file={folder}/prometheus.yml",
                 f"--storage.tsdb.path={folder}/data",
                 "--web.listen-address=127.0.0.1:0"],
                stdout=log, stderr=subprocess.STDOUT)
        self.address = eventually(self._listens, "Prometheus listens")
        eventually(self._ready, "Prometheus is ready")

    def _listens(self):
        found = re.search(r'Listening on.*?address="?(127\.0\.0\.1:\d+)',
                          self.log.read_text(encoding="utf-8"))
        return found and found[1]

    def _ready(self):
        try:
            with urllib.request.urlopen(f"http://{self.address}/-/ready"):
                return True
        except OSError:
            return False

    def _get(self, path, **parameters):
        url = (f"http://{self.address}/api/v1/{path}?"
               + urllib.parse.urlencode(parameters))
        with urllib.request.urlopen(url, timeout=30) as answer:
            return json.load(answer)["data"]

    def query(self, expression):
        """[(labels, value)] of now, without what is not a number."""
        try:
            found = self._get("query", query=expression)["result"]
        except urllib.error.HTTPError as error:
            raise AssertionError(
                f"{expression}: {error.read().decode()}") from error
        return [(sample["metric"], float(sample["value"][1]))
                for sample in found if sample["value"][1] != "NaN"]

    def firing(self):
        """{(alert, run)} at the moment."""
        return {(alert["labels"]["alertname"], alert["labels"].get("run"))
                for alert in self._get("alerts")["alerts"]
                if alert["state"] == "firing"}

    def await_alert(self, alert, run):
        eventually(lambda: (alert, run) in self.firing(),
                   f"{alert} fires for {run}")

    def stop(self):
        self.process.terminate()
        self.process.wait()
