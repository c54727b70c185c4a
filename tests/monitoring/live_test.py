#!/usr/bin/env python3
"""Real runs and a real Prometheus: the metrics are clean, their number is the
same after 20 restarts of a stage, every query of every dashboard and every
recording rule returns data, and each alert fires because its cause was brought
about.

    live_test.py [--write]    --write: the table of dashboards/README.md
"""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

from exporter import Exporter
from exposition import series
from lint import lint, table, table_of_readme
from panels import queries
from prometheus import RULES, Prometheus
from runs import PATIENCE, Run, eventually, scrape, write_corpus

SOURCE = pathlib.Path(os.environ["GIMBAL_SOURCE_DIR"])
DASHBOARDS = SOURCE / "dashboards"
RESTARTS = 20
LOST_STAGE = 1

CONFIG = """
run: {name: %(name)s, steps: 100000000}
data: {train: %(corpus)s, valid: %(corpus)s, format: text}
model: {layers: 4, hidden: 32, heads: 2, context: 32}
batch: {microbatch: 4}
pipeline: {stages: %(stages)d}
optimizer: {rotation: {period: 5, max_orthogonality_error: %(error)s}}
precision: {basis: fp16}
checkpoint: {every: %(checkpoint)d, keep: 1}
eval: {every: 50, batches: 1}
guards: {nan: %(nan)s}
cluster: {restart_budget: %(budget)d, lease: %(lease)s}
"""


def check(condition, what):
    if not condition:
        raise AssertionError(what)


def start_runs(folder, exporter):
    corpus = folder / "corpus.txt"
    write_corpus(corpus)
    token = folder / "token"
    token.write_text("secret\n", encoding="utf-8")
    # Bases in fp16 never come as close to orthonormal as 1e-6.
    lossy = Run(folder, "lossy", CONFIG % {
        "name": "lossy", "corpus": corpus, "stages": 4, "error": "1.0e-6",
        "checkpoint": 40, "budget": RESTARTS + 1, "lease": "3s", "nan": "skip"},
        {"KUBEFLOW_TRAINER_SERVER_URL": f"http://{exporter.address}/trainjob",
         "KUBEFLOW_TRAINER_SERVER_TOKEN": str(token)})
    # Nobody is given up here.
    patient = Run(folder, "patient", CONFIG % {
        "name": "patient", "corpus": corpus, "stages": 2, "error": "0.01",
        "checkpoint": 100000, "budget": 5, "lease": "600s", "nan": "skip"})
    # Ends of its first number that is not finite.
    strict = Run(folder, "strict", CONFIG % {
        "name": "strict", "corpus": corpus, "stages": 1, "error": "0.01",
        "checkpoint": 100000, "budget": 5, "lease": "3s", "nan": "stop"})
    return lossy, patient, strict


def start_workers(lossy, patient, strict, prometheus):
    # Whatever happens next is a change of what was scraped before. Twice: a run
    # that ends waits for whoever reads its metrics regularly.
    for run in (lossy, patient, strict):
        eventually(lambda: prometheus.query(
            f'count_over_time(gimbal_train_nonfinite_total{{run="{run.id}"}}[1m])'
            " > 1"), "scraped")
    for number in range(4):
        lossy.start_worker(number, {"GIMBAL_POISON": "2:30"})
    for number in range(2):
        patient.start_worker(number)
    strict.start_worker(0, {"GIMBAL_POISON": "0:30"})


def series_of(run):
    """(number of series of all processes, which they are)."""
    found = [series(families) for _, families in run.expositions()]
    return sum(map(len, found)), set().union(*found)


def complete(run):
    """Whether all is there that is left out until it is known."""
    names = {name for name, _ in series_of(run)[1]}
    return {"gimbal_valid_loss", "gimbal_train_loss", "gimbal_checkpoint_bytes",
            "gimbal_stage_basis_offdiagonal_ratio",
            "gimbal_stage_basis_period_updates"} <= names


def check_names(run, write):
    readme = DASHBOARDS / "README.md"
    programs = {"gimbal-coordinator": {}, "gimbal-worker": {}}
    for job, families in run.expositions():
        programs[job].update(families)
    for _, _, address in run.targets():
        faults = lint(scrape(address))
        check(not faults, "\n".join(faults))
    rows = table(programs["gimbal-coordinator"], programs["gimbal-worker"])
    text = readme.read_text(encoding="utf-8")
    if write:
        kept = [line for line in text.splitlines()
                if not line.startswith("| `gimbal_")]
        at = kept.index("|---|---|---|---|---|") + 1
        readme.write_text("\n".join(kept[:at] + rows + kept[at:]) + "\n",
                          encoding="utf-8")
        return
    old = table_of_readme(text)
    check(old == rows, "dashboards/README.md: the table of metrics is not that "
          "of the programs; tests/monitoring/live_test.py --write renews it:\n"
          + "\n".join(set(old) ^ set(rows)))


def restart_stage(run):
    """Kills the worker of a stage; one of the same name takes its place."""
    number = eventually(lambda: run.workers_of(LOST_STAGE), "hosted")[0]
    before = run.value("gimbal_stage_restarts_total", stage=str(LOST_STAGE))
    run.workers[number].kill()
    run.workers[number].wait()
    run.start_worker(number)
    eventually(lambda: run.value("gimbal_stage_restarts_total",
                                 stage=str(LOST_STAGE)) > before,
               "the loss is noticed")
    eventually(lambda: run.value("gimbal_run_state", state="running") == 1,
               "the run goes on")


def check_series_after_restarts(run):
    before = series_of(run)
    for _ in range(RESTARTS):
        restart_stage(run)
    eventually(lambda: series_of(run)[0] == before[0],
               "as many series as before the restarts")
    after = series_of(run)
    check(after == before, f"{before[1] ^ after[1]}")
    print(f"{before[0]} series before and after {RESTARTS} restarts")


def trouble_patient(run, prometheus, errors):
    """The alerts of a run whose processes stop and go."""
    try:
        victim = run.workers[1]
        cause = threading.Event()

        def slow_down():
            while not cause.is_set():
                victim.send_signal(signal.SIGSTOP)
                time.sleep(0.95)
                victim.send_signal(signal.SIGCONT)
                time.sleep(0.01)
        # What is compared with needs some history.
        eventually(lambda: prometheus.query(
            f'count_over_time(run:gimbal_train_tokens:rate1m{{run="{run.id}"}}'
            "[30s]) >= 15"), "speed is known")
        slow = threading.Thread(target=slow_down)
        slow.start()
        try:
            prometheus.await_alert("GimbalThroughputDown", run.id)
        finally:
            cause.set()
            slow.join()
        victim.send_signal(signal.SIGSTOP)
        prometheus.await_alert("GimbalStageNotAdvancing", run.id)
        victim.send_signal(signal.SIGCONT)
        # Nobody takes its place.
        victim.kill()
        victim.wait()
        prometheus.await_alert("GimbalRunWaiting", run.id)
        check(("GimbalCoordinatorDown", run.id) not in prometheus.firing(),
              "it is there")
        run.coordinator.kill()
        run.coordinator.wait()
        prometheus.await_alert("GimbalCoordinatorDown", run.id)
    except BaseException as error:  # for the main thread
        errors.append(error)


def stop_checkpoints(run, prometheus):
    """A file where the folder should be: so even root cannot write there."""
    checkpoints = run.folder / "checkpoints"
    failures = "gimbal_checkpoint_failures_total"
    # One that met the NaN may have been given up.
    before = run.value(failures)
    check(before > 0 or ("GimbalCheckpointFailing", run.id)
          not in prometheus.firing(), "none failed")

    def blocked():
        checkpoints.rename(tempfile.mkdtemp(dir=run.folder))
        try:
            checkpoints.touch(exist_ok=False)
        except FileExistsError:  # a checkpoint began just then
            return False
        return True
    eventually(blocked, "checkpoints have no folder")
    eventually(lambda: run.value(failures) > before, "one fails")
    prometheus.await_alert("GimbalCheckpointFailing", run.id)
    prometheus.await_alert("GimbalCheckpointTooOld", run.id)


def check_queries(prometheus, run):
    """None is left that returns no data."""
    wanted = dict(queries(DASHBOARDS, run.id))
    for name in RULES:
        text = (DASHBOARDS / "prometheus" / name).read_text(encoding="utf-8")
        for rule in re.findall(r"record: (\S+)", text):
            wanted[rule] = f'{rule}{{run="{run.id}"}}'
    print(f"{len(wanted)} queries and recording rules")

    def empty():
        return [f"{where}: {expression}" for where, expression
                in wanted.items() if not prometheus.query(expression)]
    last = []
    try:
        eventually(lambda: last.append(empty()) or not last[-1], "", 30)
    except AssertionError:
        raise AssertionError("no data:\n" + "\n".join(last[-1])) from None


def check_reports(exporter):
    """What a Kubeflow TrainJob is told."""
    check({token for token, _ in exporter.reports} == {"Bearer secret"},
          f"{exporter.reports[:3]}")
    def newest():
        return json.loads(exporter.reports[-1][1])["trainerStatus"]
    # The time that is left is not known just after a restart.
    eventually(lambda: newest().get("estimatedRemainingSeconds", 0) > 0,
               "the time that is left is reported")
    told = newest()
    check(0 <= told["progressPercentage"] <= 100, f"{told}")
    values = {each["name"]: each["value"] for each in told["metrics"]}
    check(float(values["loss"]) > 0 and float(values["eval_loss"]) > 0
          and int(values["update"]) > 0, f"{told}")


def test(folder, write):
    exporter = Exporter(folder / "exporter.json")
    lossy, patient, strict = runs = start_runs(folder, exporter)
    prometheus = Prometheus(
        folder / "prometheus", DASHBOARDS / "prometheus",
        [run.targets_file for run in runs] + [exporter.targets_file])
    errors = []
    try:
        start_workers(lossy, patient, strict, prometheus)
        eventually(lambda: complete(lossy), "all metrics are there")
        trouble = threading.Thread(
            target=trouble_patient, args=(patient, prometheus, errors))
        trouble.start()
        check_names(lossy, write)
        prometheus.await_alert("GimbalNonFinite", lossy.id)
        prometheus.await_alert("GimbalNonFinite", strict.id)
        check(strict.coordinator.wait(PATIENCE) == 3, "the run has failed")
        prometheus.await_alert("GimbalBasisOrthogonalityLost", lossy.id)
        early = {alert for alert, run in prometheus.firing() if run == lossy.id}
        check(not early & {"GimbalWorkerLost", "GimbalRestartBudgetLow",
                           "GimbalStalenessAboveExpectation"}, f"{early}")
        check_series_after_restarts(lossy)
        prometheus.await_alert("GimbalWorkerLost", lossy.id)
        prometheus.await_alert("GimbalRestartBudgetLow", lossy.id)
        lossy.command("refresh", "--policy", "stage_aware", "--period", "7")
        check_queries(prometheus, lossy)
        check_reports(exporter)
        exporter.lie(lossy)
        prometheus.await_alert("GimbalStalenessAboveExpectation", lossy.id)
        stop_checkpoints(lossy, prometheus)
        trouble.join()
        if errors:
            raise errors[0]
    finally:
        prometheus.stop()
        for run in runs:
            run.kill()


def main():
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        try:
            test(pathlib.Path(folder), "--write" in sys.argv)
        except BaseException:
            for log in pathlib.Path(folder).glob("*.log"):
                print(f"--- {log.name}", log.read_text(errors="replace")[-4000:],
                      sep="\n")
            raise
    print(f"passed in {time.monotonic() - begin:.0f} s")


if __name__ == "__main__":
    if subprocess.run(["which", "prometheus", "promtool"], check=False,
                      stdout=subprocess.DEVNULL).returncode != 0:
        sys.exit("needs Debian's package prometheus")
    main()
