"""deploy/three-machines.md, done word for word on three machines with systemd;
then what its table says of processes and machines that die and come back.

Left out is what compiles, and ssh is a stand-in that runs a command on one of
them. Nothing depends on how fast the machine is: each step waits for what it
needs.
"""

import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

from machines import LONG, Machines
from namespaces import enter_namespaces
from pages import Page, lines
from sandbox import wait_until

SOURCE = pathlib.Path(os.environ["GIMBAL_SOURCE_DIR"])
BIN = pathlib.Path(os.environ["GIMBAL_BIN_DIR"])
HOSTS = {"trainer-1": "10.0.0.1", "trainer-2": "10.0.0.2", "trainer-3": "10.0.0.3"}
STEPS = 1500
READ_URL = "python3 -c 'import sys, urllib.request as r; r.urlopen(sys.argv[1]).read()'"
SETTINGS = "set -a; . /etc/gimbal/gimbal.env; set +a; "


class Desk:
    """Where somebody sits who has a checkout and reaches the three."""

    def __init__(self, folder, machines):
        self.folder = folder / "checkout"
        for part in ("deploy", "dashboards"):
            shutil.copytree(SOURCE / part, self.folder / part)
        programs = self.folder / "build/release/bin"
        programs.mkdir(parents=True)
        for name in ("gimbal", "gimbal-coordinator", "gimbal-worker"):
            shutil.copy(BIN / name, programs)
        self.path = folder / "path"
        self.path.mkdir()
        self.put_on_path("cmake", "exit 0")
        self.put_on_path("ssh", "\n".join([
            "case ${1#root@} in",
            *(f'{machine.name}) exec {shlex.join(machine.argv("")[:-1])} "$2" ;;'
              for machine in machines),
            "esac", "exit 255"]))

    def put_on_path(self, name, script):
        path = self.path / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def run(self, command):
        done = subprocess.run(
            ["bash", "-ec", command], cwd=self.folder, text=True, timeout=LONG,
            env={**os.environ, "PATH": f"{self.path}:{os.environ['PATH']}"},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert done.returncode == 0, f"{command}\n{done.stdout}"
        return done.stdout


class MachinesTest(unittest.TestCase):
    def setUp(self):
        self.begin = time.monotonic()
        work = pathlib.Path(tempfile.mkdtemp(prefix="gimbal-machines-"))
        self.addCleanup(shutil.rmtree, work, ignore_errors=True)
        self.work = work
        self.machines = self.enterContext(Machines(work, HOSTS))
        self.first = self.machines["trainer-1"]
        self.desk = Desk(work, self.machines)

    def on_each(self, block):
        """In the folder that was copied there. Names of the first machine stand
        for those of each, and comments say where a line is for one alone."""
        for machine in self.machines:
            for command, where in lines(block):
                if where in HOSTS and where != machine.name:
                    continue
                if "/etc/gimbal/host" in command:
                    command = command.replace("trainer-1", machine.name)
                machine.run(f"cd gimbal; {command}")

    def text_of_run(self, name):
        return self.first.call(f"cat /srv/gimbal/runs/first/{name}").stdout

    def updates(self):
        return self.text_of_run("metrics.jsonl").count("\n")

    def goes_on(self, what):
        begin = self.updates()
        self.assertLess(begin, STEPS - 100, f"{what}: the run is too short for this test")
        wait_until(lambda: self.updates() >= begin + 30, LONG,
                   f"{what}: the run goes on")
        self.done(what)

    def done(self, what):
        print(f"{time.monotonic() - self.begin:5.1f} s, update {self.updates():4}: {what}",
              flush=True)

    # The page.

    def install(self, page):
        self.desk.run(page.take("packages.sh"))
        self.done("copied")
        self.on_each(page.take("apt-get install"))
        self.done("installed")
        for machine in self.machines:
            machine.write("/root/gimbal/corpus.txt", "".join(
                f"{n} lamps hung level in the swell\n" for n in range(12000)))
        self.on_each(page.take("useradd"))

    def make_certificates(self, page):
        self.desk.run(page.take("certs.sh certs ca"))
        for machine in self.machines:
            self.desk.run(
                f"tar c certs/ca.pem certs/{machine.name}.pem certs/{machine.name}.key |"
                f" ssh root@{machine.name} 'tar x --no-same-owner -C gimbal'")
        self.on_each(page.take("host.key"))

    def settle(self, page):
        config = page.take("peer_snapshot_every", "yaml")
        # Of the sizes on the page it would take days.
        for was, now in (
            ("steps: 20000", f"steps: {STEPS}"),
            ("layers: 12, hidden: 256, heads: 8, context: 256",
             "layers: 3, hidden: 64, heads: 2, context: 64"),
            ("every: 500", "every: 200"),
        ):
            self.assertIn(was, config)
            config = config.replace(was, now)
        self.first.write("/etc/gimbal/run.yaml", config)
        env = (SOURCE / "deploy/systemd/gimbal.env").read_text()
        for machine in self.machines:
            machine.write("/etc/gimbal/gimbal.env", env.replace(
                "GIMBAL_HOST=trainer-1", f"GIMBAL_HOST={machine.name}"))
        self.assertIn("stage", self.first.run("gimbal plan /etc/gimbal/run.yaml"))
        doctor = page.take("gimbal doctor")
        self.first.run(doctor)
        for name in ("trainer-2", "trainer-3"):
            self.machines[name].run(doctor.replace("/etc/gimbal/run.yaml", ""))

    def look(self, page):
        """From a host that is not the coordinator's, while the run is paused."""
        self.steer("pause")
        other = self.machines["trainer-3"]
        for command, _ in lines(page.take("gimbal status")):
            if "gimbal stop" in command:
                continue  # when all is started by hand, below
            if command.startswith("gimbal train"):
                self.until_it_says(other, command, "update")
            elif command.startswith("journalctl"):
                self.until_it_says(self.first, command, "is PAUSED")
            elif command.startswith("gimbal checkpoint"):
                self.steer("resume")
                other.run(SETTINGS + command)
                self.steer("pause")
            else:
                other.run(SETTINGS + command)
        self.assertIn("ssh -N -L 7400:localhost:7400", page.take("ssh"))
        self.first.run(f"{READ_URL} http://localhost:7400/")
        self.until_it_says(
            self.first, "gimbal/deploy/monitoring.sh --port 0 $GIMBAL_RUN_DIR",
            "Prometheus  http")
        self.steer("resume")

    def until_it_says(self, machine, command, text):
        """Ends it then, as ^C does."""
        begins = shlex.quote(f"{SETTINGS} exec {command}")
        said = machine.call(
            f"timeout {LONG} bash -c {begins} >/tmp/said 2>&1 & "
            f"until grep -q {shlex.quote(text)} /tmp/said || ! kill -0 $!; do "
            "sleep 0.1; done; kill $!; wait; cat /tmp/said").stdout
        self.assertIn(text, said, command)

    def renew(self, page):
        before = self.first.run("openssl x509 -in /etc/gimbal/host.pem -noout -serial")
        self.desk.run("deploy/certs.sh certs renew trainer-1; deploy/certs.sh certs show;"
                      " cat certs/trainer-1.pem | ssh root@trainer-1 'cat >trainer-1.pem'")
        self.first.run(page.take("mv /etc/gimbal/host.pem.new"))
        shown = (f"{SETTINGS} openssl s_client -connect trainer-1:7000 -CAfile "
                 "$GIMBAL_TLS_CA -cert $GIMBAL_TLS_CERT -key $GIMBAL_TLS_KEY </dev/null"
                 " 2>/dev/null | openssl x509 -noout -serial")
        wait_until(lambda: self.first.call(shown).stdout not in (before, ""), LONG,
                   "the coordinator shows the renewed certificate")
        self.goes_on("a certificate was renewed")

    # What happens when.

    def kill_processes(self):
        for name, unit in (("trainer-2", "gimbal-worker@0"),
                           ("trainer-1", "gimbal-coordinator")):
            self.machines[name].run(f"systemctl kill -s KILL {unit}")
            wait_until(lambda: self.restarts(name, unit) == 1, LONG, f"{unit} restarts")
            self.goes_on(f"{unit} of {name} was killed")

    def restarts(self, name, unit):
        said = self.machines[name].run(f"systemctl show -p NRestarts --value {unit}")
        return int(said)

    def lose_machines(self):
        for name in ("trainer-3", "trainer-1"):
            self.machines[name].kill()
            self.machines[name].boot()
            self.goes_on(f"{name} lost power")

    def active(self):
        return [f"{machine.name}: {unit}" for machine in self.machines
                for unit in ("gimbal-coordinator", "gimbal-worker@0")
                if machine.call(f"systemctl is-active {unit}").stdout.strip()
                not in ("inactive", "failed")]

    def stop_one_and_start_all(self, by_hand):
        self.machines["trainer-2"].run("systemctl stop gimbal-worker@0")
        wait_until(lambda: not self.active(), LONG, "all units have ended")
        self.go_on_by_hand(by_hand)
        for machine in self.machines:
            machine.run("systemctl start gimbal-worker@0")
        self.first.run("systemctl start gimbal-coordinator")
        self.goes_on("all units were stopped, and started again")

    def go_on_by_hand(self, block):
        settings, *commands = lines(block)
        started = []
        for command, where in commands:
            for machine in self.machines:
                if where in ("", machine.name):
                    shell = f"{settings[0]}; exec {command}"
                    started.append(subprocess.Popen(machine.argv(
                        f"exec runuser -u gimbal bash -- -c {shlex.quote(shell)}"),
                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        self.goes_on("all was started by hand")
        self.steer("stop")
        self.assertEqual([process.wait(LONG) for process in started], [4] * 4)

    def steer(self, verb):
        self.first.run(f"{SETTINGS} gimbal {verb} --coordinator $GIMBAL_COORDINATOR")

    def rows(self, text):
        return re.sub(r'"seconds":[^,}]*', "", text).splitlines()

    # deploy/operations.md

    def on_the_run(self, block, folder):
        """DIR and BACKUP of the page; what it says of the folder's user."""
        block = block.replace("BACKUP", "/srv/gimbal/backup").replace("DIR", folder)
        for command, _ in lines(block):
            self.first.run(f"runuser -u gimbal -- {command}")

    def back_up(self, page):
        page.take("gimbal doctor my.yaml")
        self.on_the_run(page.take("rsync"), "/srv/gimbal/runs/first")
        self.goes_on("a backup was made")

    def restore(self, page):
        self.on_the_run(page.take("cp -a BACKUP"), "/srv/gimbal/runs/again")
        page.end()
        again = self.first.run("cat /srv/gimbal/runs/again/metrics.jsonl")
        self.assertEqual(self.rows(again), self.rows(self.text_of_run("metrics.jsonl")))

    def the_numbers_are_those_of_one_machine(self):
        wait_until(lambda: not self.active(), LONG, "the run is complete")
        self.done("the run is complete")
        self.first.run("runuser -u gimbal -- gimbal train /etc/gimbal/run.yaml"
                       " --workers 3 --run-dir /tmp/alone")
        alone = self.first.run("cat /tmp/alone/metrics.jsonl")
        self.assertEqual(len(self.rows(alone)), STEPS)
        self.assertEqual(self.rows(self.text_of_run("metrics.jsonl")), self.rows(alone))
        for machine in self.machines:
            self.assertEqual(machine.run("systemctl --failed --no-legend"), "")

    def show(self):
        for machine in self.machines:
            print(f"== {machine.name}", machine.call(
                "journalctl --no-pager -n 60 -u 'gimbal-*'").stdout, sep="\n")

    def test_from_nothing_to_a_running_job(self):
        page = Page(SOURCE / "deploy/three-machines.md")
        self.install(page)
        self.make_certificates(page)
        self.settle(page)
        self.on_each(page.take("systemctl enable"))
        by_hand = page.take("gimbal-coordinator --config")
        try:
            wait_until(lambda: self.updates() > 20, LONG, "it trains")
            self.done("it trains")
            self.look(page)
            self.done("it was looked at")
            self.renew(page)
            page.end()
            operations = Page(SOURCE / "deploy/operations.md")
            self.back_up(operations)
            self.kill_processes()
            self.lose_machines()
            self.stop_one_and_start_all(by_hand)
            self.the_numbers_are_those_of_one_machine()
            self.done("the same numbers")
            self.restore(operations)
            self.done("restored")
        except BaseException:
            self.show()
            raise


if "unittest" in sys.modules["__main__"].__spec__.name:
    enter_namespaces(sys.orig_argv)
