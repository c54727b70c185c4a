"""Rules for names, units and labels, and the table of dashboards/README.md."""

import re
import subprocess

from exposition import parse

MAX_LABELS = 10  # run and `le` included
# Every label there is. Never an update, pid, address or attempt.
LABELS = {"run", "stage", "edge", "phase", "reason", "state", "direction",
          "kind", "method", "code", "version", "le"}
# Values of a label that do not grow with the length of the run.
MAX_VALUES = 64
UNITS = {"seconds", "bytes", "updates", "ratio", "info", "versions"}
# Gauges and histograms of things that are counted or have no unit.
PLAIN = {"gimbal_train_loss", "gimbal_valid_loss", "gimbal_train_grad_norm",
         "gimbal_train_learning_rate", "gimbal_train_update",
         "gimbal_train_final_update", "gimbal_stage_staleness",
         "gimbal_stage_weight_version", "gimbal_stage_restarts_left",
         "gimbal_stage_basis_orthogonality_error",
         "gimbal_basis_orthogonality_limit", "gimbal_run_state",
         "gimbal_workers", "gimbal_checkpoint_update"}


def lint(text):
    """What is wrong with an exposition, one line each."""
    faults = []
    checked = subprocess.run(
        ["promtool", "check", "metrics"], input=own(text), text=True,
        capture_output=True, check=False)
    faults += checked.stderr.splitlines() if checked.returncode else []
    for name, family in parse(text).items():
        if name.startswith("gimbal_"):
            faults += [f"{name}: {fault}" for fault in faults_of(family)]
    return faults


def own(text):
    """The lines of the project's metrics, not those of the HTTP library."""
    return "".join(line + "\n" for line in text.splitlines()
                   if re.match(r"(# (HELP|TYPE) )?gimbal_", line))


def faults_of(family):
    name, kind = family.name, family.kind
    if kind not in ("gauge", "counter", "histogram"):
        yield f"type {kind}"
    if (kind == "counter") != name.endswith("_total"):
        yield "counters, and no others, end in _total"
    unit = name.removesuffix("_total").rsplit("_", 1)[-1]
    if kind != "counter" and unit not in UNITS and name not in PLAIN:
        yield f"{unit} is no base unit"
    if not family.help or family.help.endswith("."):
        yield "expected a help text without a full stop"
    values = {}
    for _, labels in family.samples:
        if len(labels) > MAX_LABELS:
            yield f"{len(labels)} labels"
        for label, value in labels:
            values.setdefault(label, set()).add(value)
    for label, found in values.items():
        if label not in LABELS:
            yield f"unknown label {label}"
        if len(found) > MAX_VALUES:
            yield f"label {label} has {len(found)} values"
    if "run" not in values and name != "gimbal_build_info":
        yield "no label run: the metrics of two runs would collide"
    for key, value in family.samples.items():
        if value != value or value in (float("inf"), -1):
            yield f"{key}: {value} stands for something else"


def table(coordinator, worker):
    """Rows of the table of metrics, from the families of both programs."""
    rows = []
    for name in sorted(set(coordinator) | set(worker)):
        if not name.startswith("gimbal_"):
            continue
        family = coordinator.get(name) or worker[name]
        labels = sorted({label for _, pairs in family.samples
                         for label, _ in pairs} - {"le", "run"})
        where = [program for program, families in
                 (("coordinator", coordinator), ("worker", worker))
                 if name in families]
        rows.append(f"| `{name}` | {family.kind} | {', '.join(labels)} | "
                    f"{', '.join(where)} | {family.help} |")
    return rows


def table_of_readme(text):
    return [line for line in text.splitlines() if line.startswith("| `gimbal_")]
