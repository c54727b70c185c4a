"""Kubernetes objects as kubectl and helm render them from deploy/kubernetes."""

import functools
import os
import pathlib
import subprocess

import yaml

SOURCE = pathlib.Path(os.environ["GIMBAL_SOURCE_DIR"])
TOOLS = pathlib.Path(os.environ["GIMBAL_KUBE_TOOLS"])
KUBERNETES = SOURCE / "deploy" / "kubernetes"
CHART = KUBERNETES / "chart"
OVERLAYS = sorted(path.name for path in (KUBERNETES / "overlays").iterdir())
VALUES = sorted((CHART / "ci").glob("*.yaml"))


def run(*command, **options):
    return subprocess.run(
        [str(word) for word in command], text=True, capture_output=True, **options
    )


def objects_of(command):
    done = run(*command)
    if done.returncode != 0:
        raise RuntimeError(f"{command}: {done.stderr}")
    return [item for item in yaml.safe_load_all(done.stdout) if item]


def kustomize(folder):
    return objects_of([TOOLS / "kubectl", "kustomize", folder])


def overlay(name):
    return kustomize(KUBERNETES / "overlays" / name)


def helm(*options):
    return objects_of([TOOLS / "helm", "template", "gimbal", CHART, *options])


def helm_with(values):
    """`values`: a file; None: the chart's own."""
    return helm(*(["-f", values] if values else []))


@functools.cache
def everything():
    """(where from, objects) of all that is rendered in these tests."""
    return [
        ("volume", kustomize(KUBERNETES / "volume")),
        ("prepare", [yaml.safe_load((KUBERNETES / "prepare.yaml").read_text())]),
        *((f"overlay {name}", overlay(name)) for name in OVERLAYS),
        ("chart", helm_with(None)),
        *((f"chart {values.name}", helm_with(values)) for values in VALUES),
    ]


def by_name(objects):
    return {(item["kind"], item["metadata"]["name"]): item for item in objects}


def pods(objects):
    """(kind and name, pod spec, the object) of everything that makes pods."""
    for item in objects:
        template = item.get("spec", {}).get("template")
        if template:
            name = f"{item['kind']} {item['metadata']['name']}"
            yield name, template["spec"], item
