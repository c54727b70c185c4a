"""Plain machines for tests: each has a network address, a name, a root folder
that begins as this machine's and that it alone changes, and a systemd of its
own as process 1.

    enter_namespaces(sys.orig_argv)        # first thing
    with Machines(folder, {"trainer-1": "10.0.0.1"}) as machines:
        machines["trainer-1"].run("systemctl is-system-running")
        machines["trainer-1"].kill()       # as when it loses power
        machines["trainer-1"].boot()

All is in namespaces of the process and ends with it. Needs root.
"""

import contextlib
import os
import pathlib
import signal
import subprocess

from sandbox import wait_until

BRIDGE = "machines"
LONG = 300  # seconds, of anything that is waited for; a bound that costs nothing

# Becomes process 1 of the machine: what is not this machine's own is replaced,
# what is the kernel's can be read only. Without lists of packages apt takes what
# is installed as the newest.
BOOT = """\
set -e
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/changes,workdir=$1/work" "$1/root"
cd "$1/root"
hostname "$2"
mount -t proc proc proc
mount --bind proc/sys proc/sys
mount -o remount,bind,ro proc/sys
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
for folder in dev run tmp var/log var/lib/apt/lists; do
  mount -t tmpfs -o mode=755 tmpfs "$folder"
done
chmod 1777 tmp
cp -a /dev/null /dev/zero /dev/full /dev/random /dev/urandom /dev/tty dev
ln -s /proc/self/fd dev/fd
ln -s pts/ptmx dev/ptmx
mkdir dev/shm dev/pts
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
pivot_root . mnt
umount -l /mnt
exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin container=test \\
  /lib/systemd/systemd --system --unit=multi-user.target --show-status=false
"""
# Of the machine that the test runs on, these services would be started, too.
FORGOTTEN = ["etc/systemd/system", "usr/lib/systemd/system/multi-user.target.wants"]


def ip(*words):
    subprocess.run(["ip", *words], check=True)


class Machine:
    def __init__(self, folder, name, address, hosts, cgroups):
        self.name = name
        self.address = address
        self.folder = folder
        self.cgroup = cgroups / f"gimbal-{os.getpid()}-{name}"
        for part in ("changes/etc", "work", "root"):
            (folder / part).mkdir(parents=True)
        for part in FORGOTTEN:
            (folder / "changes" / part).mkdir(parents=True)
            os.setxattr(folder / "changes" / part, "trusted.overlay.opaque", b"y")
        (folder / "changes/etc/hosts").write_text(hosts)
        (folder / "changes/etc/hostname").write_text(f"{name}\n")
        end = f"m{address.rpartition('.')[2]}"
        ip("netns", "add", name)
        ip("link", "add", end, "type", "veth", "peer", "name", "eth0", "netns", name)
        ip("link", "set", end, "master", BRIDGE, "up")
        ip("-n", name, "link", "set", "lo", "up")
        ip("-n", name, "addr", "add", f"{address}/24", "dev", "eth0")
        ip("-n", name, "link", "set", "eth0", "up")
        self.process = None

    def boot(self):
        """With the disk as it was left."""
        self.cgroup.mkdir(exist_ok=True)
        script = 'echo $$ >"$0/cgroup.procs"; exec "$@"'
        with open(self.folder / "console", "ab") as console:
            self.process = subprocess.Popen(
                ["sh", "-c", script, self.cgroup, "ip", "netns", "exec", self.name,
                 "unshare", "--mount", "--pid", "--fork", "--uts", "--ipc", "--cgroup",
                 "--kill-child", "sh", "-c", BOOT, "boot", self.folder, self.name],
                stdout=subprocess.DEVNULL, stderr=console,
            )
        wait_until(self.up, LONG, f"{self.name} has booted")

    def up(self):
        if self.process.poll() is not None:
            raise RuntimeError((self.folder / "console").read_text())
        done = self.call("systemctl is-active multi-user.target")
        return done.stdout.strip() == "active"

    def first_pid(self):
        children = f"/proc/{self.process.pid}/task/{self.process.pid}/children"
        pids = pathlib.Path(children).read_text().split()
        return pids[0] if pids else "0"

    def argv(self, command):
        """What runs a line of a root shell there, in /root."""
        return ["nsenter", f"--target={self.first_pid()}", "--mount", "--pid", "--uts",
                "--ipc", "--net", "--cgroup", "--root", "--wdns=/root",
                "/usr/bin/env", "-i",
                "HOME=/root", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin",
                "bash", "-c", command]

    def call(self, command, **options):
        return subprocess.run(self.argv(command), text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=LONG, **options)

    def run(self, command):
        """What it prints; it must succeed."""
        done = self.call(command)
        if done.returncode != 0:
            raise AssertionError(
                f"{self.name}: {command}\nexit code {done.returncode}\n{done.stdout}")
        return done.stdout

    def write(self, path, text):
        self.run(f"mkdir -p {pathlib.Path(path).parent}")
        self.call(f"cat >{path}", input=text).check_returncode()

    def kill(self):
        """All its processes at once."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(self.first_pid()), signal.SIGKILL)
        self.process.wait(LONG)

    def remove(self):
        if self.process is not None:
            self.kill()
        # Deepest first; empty, for what was in them is gone.
        for folder, _, _ in os.walk(self.cgroup, topdown=False):
            os.rmdir(folder)


class Machines(contextlib.ExitStack):
    """By their names; they know each other by them."""

    def __init__(self, folder, addresses):
        super().__init__()
        cgroups = self.mount(folder / "cgroups", "cgroup2")
        ip("link", "add", BRIDGE, "type", "bridge")
        ip("link", "set", BRIDGE, "up")
        # The overlays of the machines must not be on one themselves.
        disks = self.mount(folder / "disks", "tmpfs")
        hosts = "127.0.0.1 localhost\n" + "".join(
            f"{address} {name}\n" for name, address in addresses.items())
        self.machines = {}
        for name, address in addresses.items():
            machine = Machine(disks / name, name, address, hosts, cgroups)
            self.callback(machine.remove)
            self.machines[name] = machine
            machine.boot()

    def mount(self, folder, kind):
        """Until the machines are gone: whoever removes `folder` then must not
        find the kernel's groups in it."""
        folder.mkdir()
        subprocess.run(["mount", "-t", kind, kind, folder], check=True)
        self.callback(subprocess.run, ["umount", "-l", folder], check=True)
        return folder

    def __getitem__(self, name):
        return self.machines[name]

    def __iter__(self):
        return iter(self.machines.values())
