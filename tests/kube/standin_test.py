"""The chart's objects at work: pods are killed, cut off and moved, the numbers
are those of a run that nobody disturbed.

Steps are taken when the run has come further, and while a pod is missing the run
stands still: no step depends on how fast the machine is.
"""

import copy
import functools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import yaml

import render
from namespaces import enter_namespaces
from standin.cluster import Cluster

BIN = pathlib.Path(os.environ["GIMBAL_BIN_DIR"])
USER = 10001
STEPS = 1600
LONG = 180  # seconds, of anything that is waited for

CONFIG = {
    "run": {"name": "standin", "steps": STEPS},
    "data": {"train": "/var/lib/gimbal/corpus.txt", "format": "text"},
    "model": {"layers": 4, "hidden": 32, "heads": 2, "context": 32},
    "batch": {"microbatch": 4},
    "pipeline": {"stages": 4},
    "checkpoint": {"every": 100},
    "cluster": {"grace": "60s"},
}
COORDINATOR, WORKER = "gimbal-coordinator", "gimbal-worker"
RUN = "runs/gimbal"


def rows(run_dir):
    text = (run_dir / "metrics.jsonl").read_text()
    return re.sub(r'"seconds":[^,}]*', "", text).splitlines()


@functools.cache
def undisturbed():
    """Rows of the same run in one process on the machine itself."""
    with tempfile.TemporaryDirectory(prefix="gimbal-kube-") as folder:
        work = pathlib.Path(folder)
        config = copy.deepcopy(CONFIG)
        config["data"]["train"] = f"{make_volume(work)}/corpus.txt"
        (work / "config.yaml").write_text(yaml.safe_dump(config))
        done = render.run(BIN / "gimbal", "train", work / "config.yaml",
                          "--workers", "1", "--run-dir", work / "run")
        assert done.returncode == 0, done.stdout + done.stderr
        return rows(work / "run")


def make_volume(work):
    claim = work / "claim"
    claim.mkdir()
    (claim / "corpus.txt").write_text(
        "".join(f"{n} knots of wind, and the lamp hung level\n" for n in range(3000))
    )
    for path in (claim, claim / "corpus.txt"):
        os.chown(path, USER, USER)
    return str(claim)


def make_secret(folder, files):
    """As with fsGroup: the pod's group reads it, nobody else does."""
    folder.mkdir()
    for name, content in files.items():
        path = folder / name
        path.write_bytes(content)
        os.chown(path, 0, USER)
        path.chmod(0o440)
    return str(folder)


def make_certificates(work):
    """What the README says of the certificate of a run named gimbal."""
    script, folder = render.SOURCE / "deploy" / "certs.sh", work / "certs"
    for words in (["ca"], ["host", "gimbal", COORDINATOR, f"*.{WORKER}.default.svc"]):
        done = render.run(script, folder, *words)
        assert done.returncode == 0, done.stderr
    return {"ca.crt": (folder / "ca.pem").read_bytes(),
            "tls.crt": (folder / "gimbal.pem").read_bytes(),
            "tls.key": (folder / "gimbal.key").read_bytes()}


def make_cluster(work, *options):
    config = work / "run.yaml"
    config.write_text(yaml.safe_dump(CONFIG))
    objects = render.helm("--set-file", f"config={config}", *options)
    programs = work / "programs"
    programs.mkdir()
    for program in ("gimbal", COORDINATOR, WORKER):
        shutil.copy(BIN / program, programs)
    secrets = {
        "gimbal-token": make_secret(work / "token", {"token": b"long-enough-to-pass\n"}),
        "gimbal-tls": make_secret(work / "tls", make_certificates(work)),
    }
    return Cluster(objects, programs=str(programs), claims={"gimbal": make_volume(work)},
                   secrets=secrets, work=work / "pods")


class StandInTest(unittest.TestCase):
    def begin_with(self, *options):
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="gimbal-kube-"))
        self.addCleanup(shutil.rmtree, self.work, ignore_errors=True)
        self.cluster = self.enterContext(make_cluster(self.work, *options))
        self.begin = time.monotonic()

    def show(self):
        for pod in self.cluster.history:
            log = (self.work / "pods" / pod.name / "log")
            text = log.read_text(errors="replace") if log.exists() else ""
            print(f"== {pod.name} {pod.address} code {pod.code} {pod.events} "
                  f"{pod.waits_for}\n{text[-5000:]}", file=sys.stderr)

    # What the run is at.

    @property
    def run_dir(self):
        return self.work / "claim" / RUN

    def updates(self):
        metrics = self.run_dir / "metrics.jsonl"
        return metrics.read_text().count("\n") if metrics.exists() else 0

    def goes_on(self, what):
        begin = self.updates()
        self.assertLess(begin, STEPS - 100, "the run is too short for this test")
        self.cluster.wait(lambda: self.updates() >= begin + 50, LONG,
                          f"{what}: the run goes on")
        print(f"{time.monotonic() - self.begin:5.1f} s, update {self.updates():4}: {what}")

    def all_ready(self):
        """With the run paused, so that it is not over before the probes came."""
        self.in_coordinator("gimbal", "pause", "--coordinator", "localhost:7001")
        self.cluster.wait(
            lambda: len(self.pods()) == 5 and all(pod.ready for pod in self.pods()), LONG,
            "all pods are ready",
        )

    def resume(self):
        self.in_coordinator("gimbal", "resume", "--coordinator", "localhost:7001")

    def in_coordinator(self, *command):
        """As `kubectl exec` does."""
        def done():
            pods = self.cluster.pods(COORDINATOR)
            return pods and pods[0].execute(*command).returncode == 0

        self.cluster.wait(done, LONG, " ".join(command))

    def pods(self):
        return self.cluster.pods(COORDINATOR) + self.cluster.pods(WORKER)

    def worker(self, index):
        return self.cluster.pods(WORKER)[index]

    def pids(self):
        return [pod.pid for pod in self.cluster.pods(WORKER)]

    def replaced(self, job, pod):
        """Waits for the pod that takes the place of `pod`, at another address."""
        index = int(pod.annotations["batch.kubernetes.io/job-completion-index"])

        def successor():
            there = [each for each in self.cluster.history
                     if each.labels is not None and each.hostname == pod.hostname]
            return there[-1] if there[-1] is not pod else None

        new = self.cluster.wait(successor, LONG, f"{pod.name} is replaced")
        self.assertNotEqual(new.address, pod.address)
        self.assertEqual(int(new.name.rpartition("-")[2]),
                         int(pod.name.rpartition("-")[2]) + 1, (job, index))
        return new

    # What is done to it.

    def kill_a_worker(self):
        before = self.pids()
        victim = self.worker(1)
        victim.kill()
        self.replaced(WORKER, victim)
        self.goes_on("worker 1 was killed")
        self.assertEqual(victim.code, 137)
        self.same_processes(before, but=1)

    def cut_a_worker_off(self):
        before = self.pids()
        victim = self.worker(2)
        victim.lose_node()
        self.replaced(WORKER, victim)
        self.goes_on("the node of worker 2 was lost")
        # Its process is still there and may do no harm.
        self.assertIsNotNone(victim.pid)
        self.same_processes(before, but=2)

    def kill_the_coordinator(self):
        before = self.pids()
        victim, = self.cluster.pods(COORDINATOR)
        victim.kill()
        self.replaced(COORDINATOR, victim)
        begin = time.monotonic()
        self.goes_on("the coordinator was killed, and came back elsewhere")
        self.assertEqual(self.pids(), before)
        # A name that is not asked for again at once is old for half a minute.
        self.assertLess(time.monotonic() - begin, 25)

    def evict_the_coordinator(self):
        pods = self.pods()
        victim, = self.cluster.pods(COORDINATOR)
        victim.delete()
        self.replaced(COORDINATOR, victim)
        self.goes_on("the coordinator was evicted, and all began at the checkpoint")
        self.assertEqual([pod.code for pod in pods], [4] * 5)

    def same_processes(self, before, but):
        after = self.pids()
        self.assertNotEqual(after[but], before[but])
        del before[but], after[but]
        self.assertEqual(after, before)

    def visitor(self, name, labels, *command):
        """Exit code of a pod that is none of the run's."""
        template = copy.deepcopy(
            self.cluster.jobs[WORKER].spec["template"]
        )
        template["metadata"]["labels"] = labels
        container = template["spec"]["containers"][0]
        container.update(command=list(command), args=[])
        for kind in ("startup", "liveness", "readiness"):
            del container[f"{kind}Probe"]
        pod = self.cluster.run_pod(name, template)
        self.cluster.wait(lambda: pod.code is not None, LONG, f"{name} ends")
        return pod.code

    def policies_let_clients_in_and_strangers_not(self):
        status = ("gimbal", "status", "--coordinator", f"{COORDINATOR}:7001")
        links = ("timeout", "3", "bash", "-c",
                 f"exec 3<>/dev/tcp/{self.worker(0).address}/7101")
        mine = {"app.kubernetes.io/name": "gimbal", "app.kubernetes.io/instance": "gimbal"}
        client = {**mine, "app.kubernetes.io/component": "client"}
        stranger = {"app.kubernetes.io/name": "else"}
        self.assertEqual(self.visitor("client", client, *status), 0)
        self.assertNotEqual(self.visitor("stranger", stranger, *status), 0)
        self.assertNotEqual(self.visitor("stranger-links", stranger, *links), 0)
        neighbour = self.cluster.jobs[WORKER].spec["template"]["metadata"]["labels"]
        self.assertEqual(self.visitor("neighbour-links", neighbour, *links), 0)

    def check(self, disturb):
        try:
            disturb()
            self.cluster.wait(
                lambda: all(job.complete for job in self.cluster.jobs.values()),
                LONG, "the run is over",
            )
        except BaseException:
            self.show()
            raise
        print(f"{time.monotonic() - self.begin:5.1f} s: the run is over")
        self.assertEqual(len(rows(self.run_dir)), STEPS)
        self.assertEqual(rows(self.run_dir), undisturbed())

    def test_with_tls_pods_are_killed_lost_and_moved(self):
        self.begin_with("--set", "auth.tlsSecret=gimbal-tls")

        def disturb():
            self.all_ready()
            self.policies_let_clients_in_and_strangers_not()
            self.resume()
            self.goes_on("all pods were ready")
            self.kill_a_worker()
            self.cut_a_worker_off()
            self.kill_the_coordinator()
            self.evict_the_coordinator()

        self.check(disturb)

    def test_with_a_token_a_spare_steps_in(self):
        self.begin_with("--set", "workers.spares=1")

        def disturb():
            self.goes_on("it trains")
            spare = self.cluster.wait(self.spare, LONG, "one worker is a spare")
            busy = next(pod for pod in self.cluster.pods(WORKER) if pod is not spare)
            busy.kill()
            # It hosts a stage before there is another pod.
            self.cluster.wait(lambda: self.spare() is not spare, LONG, "it steps in")
            self.goes_on("a spare has stepped in")

        self.check(disturb)

    def spare(self):
        """The pod that hosts no stage."""
        done, = (pod.execute("gimbal", "status", "--coordinator", "localhost:7001",
                             "--json") for pod in self.cluster.pods(COORDINATOR))
        if done.returncode != 0:
            return None
        idle = [worker["name"] for worker in json.loads(done.stdout)["workers"]
                if not worker["stages"]]
        pods = {f"worker-{n}": pod for n, pod in enumerate(self.cluster.pods(WORKER))}
        return pods.get(idle[0]) if idle else None


if "unittest" in sys.modules["__main__"].__spec__.name:
    enter_namespaces(sys.orig_argv)
