#!/usr/bin/env python3
"""What one worker of a run asks Kubernetes for, from `gimbal plan`.

  gimbal plan my.yaml --json | deploy/kubernetes/resources.py            values
  gimbal plan my.yaml --json | deploy/kubernetes/resources.py --patch    Kustomize

Options: --workers N when fewer workers than stages share them.

Memory: the heaviest worker's stages, what two edges keep for a replay
(cluster.replay_memory_mb), and PROCESS_BYTES for code and buffers. Processors:
cluster.threads that compute, and one for links, snapshots and heartbeats.
"""

import argparse
import json
import sys

PROCESS_BYTES = 256 << 20
STEP = 64 << 20


def worker_bytes(plan, workers):
    """Of the heaviest worker, with the coordinator's placement of stages."""
    held = [0] * workers
    for stage, row in enumerate(plan["stages"]):
        held[stage * workers // len(plan["stages"])] += row["total_bytes"]
    return max(held) + 2 * plan["replay_memory_bytes"] + PROCESS_BYTES


def resources(plan, workers):
    memory = -(-worker_bytes(plan, workers) // STEP) * (STEP >> 20)
    return {
        "requests": {"cpu": plan["threads"] + 1, "memory": f"{memory}Mi"},
        "limits": {"memory": f"{memory}Mi"},
    }


def to_yaml(tree, indent):
    lines = []
    for key, value in tree.items():
        if isinstance(value, dict):
            lines += [f"{indent}{key}:", *to_yaml(value, indent + "  ")]
        else:
            lines.append(f"{indent}{key}: {value}")
    return lines


VALUES = """\
workers:
  resources:
{resources}
"""
PATCH = """\
apiVersion: batch/v1
kind: Job
metadata: {{name: gimbal-worker}}
spec:
  template:
    spec:
      containers:
        - name: worker
          resources:
{resources}
"""


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workers", type=int, help="default: one per stage")
    parser.add_argument("--patch", action="store_true", help="for Kustomize")
    options = parser.parse_args()
    try:
        plan = json.load(sys.stdin)
        stages = len(plan["stages"])
    except (ValueError, KeyError, TypeError):
        sys.exit("resources.py: expected the output of `gimbal plan --json`")
    workers = stages if options.workers is None else options.workers
    if not 1 <= workers <= stages:
        sys.exit(f"resources.py: --workers {workers}: expected 1 to {stages}")
    form, indent = (PATCH, " " * 12) if options.patch else (VALUES, " " * 4)
    tree = resources(plan, workers)
    print(form.format(resources="\n".join(to_yaml(tree, indent))), end="")


if __name__ == "__main__":
    main()
