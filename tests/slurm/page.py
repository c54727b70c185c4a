"""deploy/slurm/README.md, done word for word on the Slurm that SLURM_CONF names;
/shared is FOLDER. Left out is what compiles.

    page.py FOLDER
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import time

SOURCE = pathlib.Path(os.environ["GIMBAL_SOURCE_DIR"])
sys.path.insert(0, str(SOURCE / "tests" / "support"))
from pages import Page  # noqa: E402

LONG = 500  # seconds
PAGE = SOURCE / "deploy" / "slurm" / "README.md"


def spans():
    """What the page has between backticks in its text."""
    return re.findall(r"`([^`\n]+)`", PAGE.read_text(encoding="utf-8"))


def run(command, shared):
    command = command.replace("/shared", str(shared))
    # Programs are on PATH; deploy/certs.sh is meant from the checkout.
    command = command.replace("deploy/", f"{SOURCE}/deploy/")
    done = subprocess.run(["bash", "-ec", command], cwd=shared, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, f"{command}\n{done.stdout}"
    print(f"$ {command}\n{done.stdout}")
    return done.stdout


def named(beginning):
    found = next((span for span in spans() if span.startswith(beginning)), None)
    assert found, f"the page has no {beginning}"
    return found


def main():
    shared = pathlib.Path(sys.argv[1])
    page = Page(PAGE)
    job = page.take("gimbal slurm render")
    assert "cmake --preset release" in page.take("packages.sh")
    (shared / "corpus.txt").write_text(
        "".join(f"{n} lamps hung level in the swell\n" for n in range(40000)))
    run(named("gimbal prepare"), shared)
    run(page.take("/shared/token"), shared)
    run(page.take("certs.sh /shared/certs host"), shared)
    with_token, with_tls = page.take("token_file", "yaml").splitlines()
    page.end()
    config = (SOURCE / "deploy/examples/quickstart.yaml").read_text()
    config = config.replace("data/kjv", f"{shared}/data/corpus")
    config = config.replace("steps: 2000", "steps: 120")
    assert "cluster:" in with_token and "steps: 120" in config
    # Either will do; this run has certificates.
    (shared / "my.yaml").write_text(
        config + with_tls.replace("/shared", str(shared)) + "\n")
    run(named("gimbal plan my.yaml"), shared)
    run(named("srun gimbal doctor"), shared)
    run(job, shared)
    end = time.monotonic() + LONG
    while run("squeue -h", shared):
        assert time.monotonic() < end, "the job does not end"
        time.sleep(1)
    summary = json.loads((shared / "runs/a/summary.json").read_text())
    rows = (shared / "runs/a/metrics.jsonl").read_text().count("\n")
    assert rows == 120 and summary["recoveries"] == [], summary
    assert list(shared.glob("slurm-gimbal-*.out"))


main()
