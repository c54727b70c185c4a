"""Objects as kubectl and helm render them, at work."""

import pathlib
import threading
import time

from sandbox import Bind, wait_until
from standin.names import NameServer, service_lookup
from standin.network import DNS, Network
from standin.pod import POLL, Pod

# Of a Job's replacements: a tenth of a cluster's.
FIRST_BACKOFF, LONGEST_BACKOFF = 1.0, 36.0


class NameServerPod:
    """What NetworkPolicies see of the DNS server."""

    address, namespace, labels, ports = DNS, "kube-system", {}, {}


class Index:
    """One completion of a Job."""

    def __init__(self):
        self.pod = None
        self.not_before = 0.0
        self.failures = 0
        self.attempts = 0
        self.succeeded = False
        self.failed = False


class Job:
    def __init__(self, item):
        self.name = item["metadata"]["name"]
        self.spec = item["spec"]
        assert self.spec["podReplacementPolicy"] == "Failed"
        self.indexed = self.spec.get("completionMode") == "Indexed"
        self.indices = [Index() for _ in range(self.spec["completions"])]
        self.failed = False

    @property
    def complete(self):
        return all(index.succeeded for index in self.indices)

    def action(self, pod):
        """Of the first rule of podFailurePolicy that matches."""
        for rule in self.spec["podFailurePolicy"]["rules"]:
            codes = rule.get("onExitCodes")
            if codes is not None:
                assert codes["operator"] == "In"
                if pod.code in codes["values"]:
                    return rule["action"]
            elif pod.disrupted and any(
                condition["type"] == "DisruptionTarget"
                for condition in rule["onPodConditions"]
            ):
                return rule["action"]
        return "Count"

    def settle(self, index, pod):
        """What the end of a pod means for its index."""
        if pod.code == 0:
            index.succeeded = True
            return
        action = self.action(pod)
        if action == "FailJob":
            self.failed = True
        elif action == "FailIndex":
            index.failed = True
        elif action == "Count":
            index.failures += 1
            limit = self.spec.get("backoffLimitPerIndex", self.spec.get("backoffLimit"))
            if index.failures > limit:
                index.failed = True
            backoff = min(FIRST_BACKOFF * 2 ** (index.failures - 1), LONGEST_BACKOFF)
            index.not_before = time.monotonic() + backoff


class Cluster:
    """`programs`: folder of what the image has in /usr/local/bin; `claims` and
    `secrets`: folders by name."""

    def __init__(self, objects, programs, claims, secrets, work):
        self.programs, self.claims, self.secrets = programs, claims, secrets
        self.work = pathlib.Path(work)
        of_kind = lambda kind: [o for o in objects if o["kind"] == kind]  # noqa: E731
        self.configs = {o["metadata"]["name"]: o["data"] for o in of_kind("ConfigMap")}
        self.policies = of_kind("NetworkPolicy")
        self.jobs = {o["metadata"]["name"]: Job(o) for o in of_kind("Job")}
        self.history = []  # all pods that ever were
        self.others = []  # pods of no Job
        self.network = Network()
        self.lock = threading.RLock()
        self.names = NameServer(DNS, service_lookup(of_kind("Service"), self.pods))
        self.stopping = False
        self.thread = threading.Thread(target=self._reconcile, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stopping = True
        self.thread.join()
        for pod in self.history:
            pod.remove()
        self.names.stop()

    def pods(self, job=None):
        """Those that are there, of one Job in the order of its indices."""
        with self.lock:
            jobs = [self.jobs[job]] if job else self.jobs.values()
            found = [index.pod for each in jobs for index in each.indices if index.pod]
            return found + ([] if job else list(self.others))

    def wait(self, condition, seconds, what):
        def checked():
            broken = [name for name, job in self.jobs.items() if job.failed
                      or any(index.failed for index in job.indices)]
            assert not broken, f"failed: {broken}"
            return condition()

        return wait_until(checked, seconds, what)

    def run_pod(self, name, template):
        """A pod that no Job looks after."""
        with self.lock:
            pod = self._start(name, name, template, 0)
            self.others.append(pod)
            self._filter()
        return pod

    # The controller of Jobs.

    def _reconcile(self):
        while not self.stopping:
            with self.lock:
                changed = False
                for job in self.jobs.values():
                    for number, index in enumerate(job.indices):
                        changed |= self._look_at(job, number, index)
                if changed:
                    self._filter()
            time.sleep(POLL)

    def _look_at(self, job, number, index):
        if index.pod is not None:
            if index.pod.code is None:
                return False
            job.settle(index, index.pod)
            index.pod = None
            return True
        waiting = time.monotonic() < index.not_before
        if index.succeeded or index.failed or job.failed or waiting:
            return False
        index.attempts += 1
        hostname = f"{job.name}-{number}" if job.indexed else job.name
        name = f"{hostname}-{index.attempts}"
        index.pod = self._start(name, hostname, job.spec["template"], number)
        return True

    def _filter(self):
        self.network.filter(self.policies, [*self.pods(), NameServerPod])

    def _start(self, name, hostname, template, number):
        pod = Pod(name, hostname, template, number, self.network)
        folder = self.work / name
        folder.mkdir(parents=True)
        pod.start(self._root(folder), self._binds(pod, folder), folder / "log")
        self.history.append(pod)
        return pod

    # The file system of a container.

    def _root(self, folder):
        root = folder / "root"
        for name in ("dev", "etc", "proc", "usr"):
            (root / name).mkdir(parents=True)
        for name in ("bin", "lib", "lib64", "sbin"):
            (root / name).symlink_to(f"usr/{name}")
        (root / "etc/resolv.conf").write_text(
            "search default.svc.cluster.local svc.cluster.local cluster.local\n"
            f"nameserver {DNS}\noptions ndots:5\n"
        )
        (root / "etc/hosts").write_text("127.0.0.1 localhost\n")
        (root / "etc/nsswitch.conf").write_text("hosts: files dns\n")
        return str(root)

    def _binds(self, pod, folder):
        binds = [Bind("/usr", "/usr", True), Bind("/etc/ld.so.cache", "/etc/ld.so.cache"),
                 Bind("/etc/alternatives", "/etc/alternatives", True),
                 Bind(self.programs, "/usr/local/bin", True)]
        volumes = {volume["name"]: volume for volume in pod.spec.get("volumes", [])}
        for mount in pod.container.get("volumeMounts", []):
            source = self._volume(volumes[mount["name"]], folder)
            if "subPath" in mount:
                source = f"{source}/{mount['subPath']}"
            binds.append(Bind(source, mount["mountPath"], mount.get("readOnly", False)))
        return binds

    def _volume(self, volume, folder):
        if "persistentVolumeClaim" in volume:
            return self.claims[volume["persistentVolumeClaim"]["claimName"]]
        if "secret" in volume:
            return self.secrets[volume["secret"]["secretName"]]
        made = folder / volume["name"]
        made.mkdir()
        if "emptyDir" in volume:
            made.chmod(0o777)
            return str(made)
        for key, text in self.configs[volume["configMap"]["name"]].items():
            (made / key).write_text(text)
        return str(made)
