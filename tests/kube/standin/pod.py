"""One pod with one container: what the kubelet does with it."""

import http.client
import re
import signal
import threading
import time

from sandbox import Sandbox
from standin.network import NODE

POLL = 0.05


def _expand(text, env):
    return re.sub(r"\$\((\w+)\)", lambda match: env[match[1]], text)


class Pod:
    """Begins with `start`, ends by itself, by `kill` or by `delete`; `code` is
    then set. Never starts again: the Job makes another pod."""

    def __init__(self, name, hostname, template, index, network):
        self.name = name
        self.hostname = hostname
        self.spec = template["spec"]
        self.labels = template["metadata"]["labels"]
        self.namespace = "default"
        self.annotations = {"batch.kubernetes.io/job-completion-index": str(index)}
        self.container = self.spec["containers"][0]
        self.ports = {port["name"]: port["containerPort"]
                      for port in self.container.get("ports", [])}
        self.network = network
        self.address, self.link = network.add(name)
        self.ready = False
        self.waits_for = ""
        self.disrupted = False  # condition DisruptionTarget
        self.code = None
        self.events = []
        self._delete_by = None
        self._forced = False

    def start(self, root, binds, log):
        security = self.spec["securityContext"]
        assert self.container["securityContext"]["readOnlyRootFilesystem"]
        self.sandbox = Sandbox(root=root, user=security["runAsUser"], binds=binds,
                               network=self.name)
        self.log = open(log, "wb")
        self.process = self.sandbox.start(
            self.argv(), self.environment(), stdout=self.log, stderr=self.log
        )
        threading.Thread(target=self._look_after, daemon=True).start()

    # What the container is told.

    def environment(self):
        env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOSTNAME": self.hostname}
        for entry in self.container.get("env", []):
            if "value" in entry:
                env[entry["name"]] = _expand(entry["value"], env)
            else:
                env[entry["name"]] = self._field(entry["valueFrom"]["fieldRef"])
        return env

    def _field(self, source):
        path = source["fieldPath"]
        simple = {"status.podIP": self.address, "metadata.namespace": self.namespace,
                  "metadata.name": self.name}
        if path in simple:
            return simple[path]
        return self.annotations[re.fullmatch(r"metadata\.annotations\['(.+)'\]",
                                             path).group(1)]

    def argv(self):
        env = self.environment()
        words = [*self.container["command"], *self.container.get("args", [])]
        return [_expand(word, env) for word in words]

    def execute(self, *command):
        """Beside the container's process, with its environment."""
        env = [f"{key}={value}" for key, value in self.environment().items()]
        return self.sandbox.enter(self.process, ["/usr/bin/env", "-i", *env, *command])

    # What happens to it.

    @property
    def pid(self):
        return self.process.first_pid()

    def kill(self):
        """As the kernel does when memory runs out."""
        self.process.signal(signal.SIGKILL)

    def delete(self):
        """As an eviction: TERM, and KILL when the grace period is over."""
        self.disrupted = True
        self.process.signal(signal.SIGTERM)
        grace = self.spec["terminationGracePeriodSeconds"]
        self._delete_by = time.monotonic() + grace

    def lose_node(self):
        """The node is cut off and given up: nothing that the processes still do
        there reaches anybody, and another pod takes the place."""
        self.disrupted = True
        self.network.cut(self.link)
        self._forced = True

    def _look_after(self):
        probes = [Probe(self, kind) for kind in ("startup", "liveness", "readiness")
                  if f"{kind}Probe" in self.container]
        started = not any(probe.kind == "startup" for probe in probes)
        code = None
        while code is None and not self._forced:
            for probe in probes:
                # The others begin when the container has started.
                if (probe.kind == "startup") == started:
                    continue
                verdict = probe.look()
                if probe.kind == "readiness":
                    self.ready, self.waits_for = probe.passed, probe.answer
                elif verdict is True and probe.kind == "startup":
                    started = True
                elif verdict is False:
                    self.events.append(f"{probe.kind} probe failed: {probe.answer}")
                    self.kill()
            if self._delete_by is not None and time.monotonic() > self._delete_by:
                self.kill()
            time.sleep(POLL)
            code = self.process.poll()
        self.ready = False
        self.code = 137 if code is None else code

    def remove(self):
        self.process.kill()
        self.log.close()
        self.network.remove(self.name)


class Probe:
    """One HTTP probe with its period and thresholds."""

    def __init__(self, pod, kind):
        self.pod = pod
        self.kind = kind
        self.spec = pod.container[f"{kind}Probe"]
        self.due = time.monotonic() + self.spec.get("initialDelaySeconds", 0)
        self.failures = 0
        self.passed = False
        self.answer = ""

    def look(self):
        """None when it is not due or not decided yet; True, False otherwise."""
        if time.monotonic() < self.due:
            return None
        self.due = time.monotonic() + self.spec.get("periodSeconds", 10)
        if self._ask():
            self.failures, self.passed = 0, True
            return True
        self.failures += 1
        if self.failures < self.spec.get("failureThreshold", 3):
            return None
        self.passed = False
        return False

    def _ask(self):
        get = self.spec["httpGet"]
        port = self.pod.ports.get(get["port"], get["port"])
        connection = http.client.HTTPConnection(
            self.pod.address, port, timeout=self.spec.get("timeoutSeconds", 1),
            source_address=(NODE, 0),
        )
        try:
            connection.request("GET", get["path"])
            response = connection.getresponse()
            self.answer = f"{response.status} {response.read().decode().strip()}"
            return 200 <= response.status < 400
        except OSError as error:
            self.answer = str(error)
            return False
        finally:
            connection.close()
