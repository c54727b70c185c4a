"""Processes as in a container: a root folder of their own that is read-only, a
user without capabilities, their own process ids, and if wanted a network
namespace. Needs root on the machine.

    sandbox = Sandbox(root="/tmp/root", user=10001,
                      binds=[Bind("/tmp/run", "/var/lib/gimbal")])
    process = sandbox.start(["gimbal-worker", "--help"], {"PATH": "/usr/bin"})
    process.first_pid()    # of process 1 as the machine sees it
    process.wait()
"""

import dataclasses
import os
import pathlib
import shlex
import signal
import subprocess
import time


@dataclasses.dataclass(frozen=True)
class Bind:
    source: str
    inside: str
    read_only: bool = False


class Process:
    """Process 1 of a sandbox; ends with everything in it."""

    def __init__(self, popen):
        self.popen = popen
        self.killed = False

    def first_pid(self):
        """None before it has begun and after it has ended."""
        children = f"/proc/{self.popen.pid}/task/{self.popen.pid}/children"
        try:
            pids = pathlib.Path(children).read_text().split()
        except OSError:
            return None
        return int(pids[0]) if pids else None

    def signal(self, number):
        pid = self.first_pid()
        if pid is not None:
            # unshare does not tell a child that was killed from one that failed.
            self.killed |= number == signal.SIGKILL
            os.kill(pid, number)

    def kill(self):
        # The whole sandbox follows: unshare --kill-child.
        if self.popen.poll() is None:
            self.popen.send_signal(signal.SIGKILL)
        self.popen.wait()

    def poll(self):
        """Exit code as a shell shows it, or None."""
        code = self.popen.poll()
        if code is None or not (self.killed or code < 0):
            return code
        return 128 + (signal.SIGKILL if self.killed else -code)

    def wait(self, timeout=None):
        self.popen.wait(timeout)
        return self.poll()


@dataclasses.dataclass(frozen=True)
class Sandbox:
    root: str
    user: int
    binds: list = dataclasses.field(default_factory=list)
    network: str = ""  # name of a namespace of `ip netns`; empty: one without links

    def start(self, argv, env, **popen):
        for bind in self.binds:
            self._make_mount_point(bind)
        network = (
            ["nsenter", f"--net=/run/netns/{self.network}"] if self.network else []
        )
        isolation = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
        if not self.network:
            isolation.append("--net")
        script = self._script(argv, env)
        return Process(
            subprocess.Popen([*network, *isolation, "sh", "-c", script], **popen)
        )

    def enter(self, process, argv, **options):
        """Runs a command beside `process`, in its namespaces."""
        pid = process.first_pid()
        return subprocess.run(
            ["nsenter", f"--target={pid}", "--mount", "--pid", "--net", "--root",
             *self._unprivileged(), *argv],
            text=True, capture_output=True, **options,
        )

    def _make_mount_point(self, bind):
        point = pathlib.Path(self.root + bind.inside)
        if pathlib.Path(bind.source).is_dir():
            point.mkdir(parents=True, exist_ok=True)
        else:
            point.parent.mkdir(parents=True, exist_ok=True)
            point.touch()

    def _unprivileged(self):
        return ["/usr/bin/setpriv", f"--reuid={self.user}", f"--regid={self.user}",
                "--clear-groups", "--no-new-privs", "--bounding-set=-all",
                "--inh-caps=-all"]

    def _script(self, argv, env):
        def words(*command):
            return shlex.join(str(word) for word in command)

        root = self.root
        lines = ["set -e", words("mount", "--bind", root, root)]
        for bind in self.binds:
            point = root + bind.inside
            lines.append(words("mount", "--bind", bind.source, point))
            if bind.read_only:
                lines.append(words("mount", "-o", "remount,bind,ro", point))
        lines += [
            words("mount", "-t", "proc", "proc", f"{root}/proc"),
            words("mount", "--rbind", "/dev", f"{root}/dev"),
            words("mount", "-o", "remount,bind,ro", root),
            "ip link set lo up",
            words("exec", "chroot", root, *self._unprivileged(), "/usr/bin/env", "-i",
                  *(f"{key}={value}" for key, value in env.items()), *argv),
        ]
        return "\n".join(lines)


def wait_until(condition, seconds, what):
    """Polls; the time is a bound that costs nothing when all is well."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.05)
    raise TimeoutError(f"{what}: not within {seconds} s")
