"""Reads the text form of metrics."""

import re
from typing import NamedTuple

SAMPLE = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$")
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
SUFFIXES = {"histogram": ("_bucket", "_sum", "_count"),
            "summary": ("", "_sum", "_count")}


class Family(NamedTuple):
    name: str
    kind: str
    help: str
    samples: dict  # (name, labels as a sorted tuple) -> value


def parse(text):
    """Families by name. ValueError for a line that is not well formed."""
    families = {}
    for line in text.splitlines():
        if line.startswith("# HELP "):
            _, _, name, words = line.split(" ", 3)
            families[name] = Family(name, "", words, {})
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            families[name] = families[name]._replace(kind=kind)
        elif line and not line.startswith("#"):
            add_sample(families, line)
    return families


def add_sample(families, line):
    match = SAMPLE.match(line)
    if not match:
        raise ValueError(f"not a sample: {line}")
    name, labels, value = match.groups()
    family = next((f for f in families.values() if name == f.name or name in
                   [f.name + s for s in SUFFIXES.get(f.kind, ())]), None)
    if family is None:
        raise ValueError(f"a sample of no family: {line}")
    key = (name, tuple(sorted(LABEL.findall(labels or ""))))
    if key in family.samples:
        raise ValueError(f"twice: {line}")
    family.samples[key] = float(value)


def series(families):
    """All (name, labels) of the project's families."""
    return {key for name, family in families.items()
            if name.startswith("gimbal_") for key in family.samples}
