"""The container image: really built, and a run inside it as it will be run, by a
user without privileges on a read-only root.

Builds the base from Debian's packages and takes the programs that are built
already; the stage that compiles is the default of the Dockerfile.
"""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tests" / "support"))
from sandbox import Bind, Sandbox, wait_until  # noqa: E402

BIN = pathlib.Path(os.environ["GIMBAL_BIN_DIR"])
USER = 10001
MOST_MEGABYTES = 300
PATIENCE = 600  # seconds, of a command; those that download give up before

CONFIG = """\
run: {name: in-an-image, steps: 60}
data: {train: corpus.txt, format: text}
model: {layers: 4, hidden: 32, heads: 2, context: 32}
batch: {microbatch: 4}
pipeline: {stages: 2}
checkpoint: {every: 20}
"""


def run(*command, **options):
    done = subprocess.run(
        [str(word) for word in command], text=True, capture_output=True,
        timeout=PATIENCE, **options
    )
    if done.returncode != 0:
        raise RuntimeError(f"{command}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


class ImageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.work = pathlib.Path(tempfile.mkdtemp(prefix="gimbal-image-"))
        cls.addClassCleanup(shutil.rmtree, cls.work, ignore_errors=True)
        cls.env = {
            **os.environ,
            "BUILDAH_ISOLATION": "chroot",
            "STORAGE_DRIVER": "vfs",
            "CONTAINERS_STORAGE_CONF": str(cls.work / "storage.conf"),
        }
        (cls.work / "storage.conf").write_text(
            f'[storage]\ndriver = "vfs"\nrunroot = "{cls.work}/runroot"\n'
            f'graphroot = "{cls.work}/graph"\n'
        )
        cls.make_base()
        cls.build()
        container = cls.buildah("from", "--pull-never", "gimbal:test")
        cls.root = cls.buildah("mount", container)

    @classmethod
    def buildah(cls, *arguments, **options):
        return run("buildah", *arguments, env=cls.env, **options)

    @classmethod
    def make_base(cls):
        folder = cls.work / "base"
        folder.mkdir()
        run(
            "mmdebstrap", "--quiet", "--variant=minbase",
            # For apt in the image, too.
            *(f"--aptopt=Acquire::{option}" for option in
              ('Languages "none"', "Retries 2", "http::Timeout 30")),
            "--dpkgopt=force-unsafe-io",
            *(f"--dpkgopt=path-exclude=/usr/share/{kind}/*"
              for kind in ("doc", "info", "locale", "man")),
            "bookworm", folder / "base.tar",
        )
        (folder / "Dockerfile").write_text("FROM scratch\nADD base.tar /\n")
        cls.buildah("bud", "-q", "-t", "debian:bookworm-slim", folder)
        (folder / "base.tar").unlink()

    @classmethod
    def build(cls):
        context = cls.work / "context"
        shutil.copytree(SOURCE / "deploy", context / "deploy")
        shutil.copy(SOURCE / "CMakeLists.txt", context)
        # Without the GPU back end, which this build may have.
        programs = cls.work / "programs"
        programs.mkdir()
        for name in ("gimbal", "gimbal-coordinator", "gimbal-worker"):
            shutil.copy(BIN / name, programs)
        run(SOURCE / "deploy" / "container" / "collect.sh", programs,
            context / "prebuilt")
        run(
            context / "deploy" / "container" / "build.sh", "cpu", "gimbal:test",
            "--pull-never", "--build-arg", "PREBUILT=prebuilt", env=cls.env,
        )

    def sandbox(self, folder):
        return Sandbox(
            root=self.root, user=USER, binds=[Bind(str(folder), "/var/lib/gimbal")]
        )

    def folder(self, name):
        folder = self.work / name
        folder.mkdir()
        (folder / "config.yaml").write_text(CONFIG)
        (folder / "corpus.txt").write_text(
            "".join(f"{n} bottles of salt water\n" for n in range(2000))
        )
        return folder

    def in_image(self, name):
        folder = self.folder(name)
        for path in (folder, *folder.iterdir()):
            os.chown(path, USER, USER)
        return folder

    ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin", "OPENBLAS_NUM_THREADS": "1",
           "PWD": "/var/lib/gimbal"}

    def start(self, folder, *argv):
        log = open(folder / "output", "w", encoding="utf-8")
        self.addCleanup(log.close)
        process = self.sandbox(folder).start(
            ["sh", "-c", 'cd /var/lib/gimbal && exec "$@"', "sh", *argv],
            self.ENV, stdout=log, stderr=subprocess.STDOUT,
        )
        self.addCleanup(process.kill)
        return process

    def test_says_what_it_is(self):
        config = json.loads(self.buildah("inspect", "--type", "image", "gimbal:test"))
        config = config["Docker"]["config"]
        self.assertEqual(config["User"], f"{USER}:{USER}")
        self.assertEqual(config["Healthcheck"]["Test"], ["CMD", "gimbal-health"])
        labels = config["Labels"]
        self.assertEqual(labels["org.opencontainers.image.title"], "gimbal")
        self.assertRegex(labels["org.opencontainers.image.version"], r"^\d+\.\d+\.\d+$")
        self.assertEqual(labels["org.opencontainers.image.licenses"], "Apache-2.0")

    def test_holds_the_programs_and_no_compiler(self):
        root = pathlib.Path(self.root)
        self.assertEqual(
            {path.name for path in (root / "usr/local/bin").iterdir()},
            {"gimbal", "gimbal-coordinator", "gimbal-worker", "gimbal-health"},
        )
        for name in ("g++", "cmake", "python3"):
            self.assertFalse((root / "usr/bin" / name).exists(), name)

    def test_is_small(self):
        megabytes = int(run("du", "-sm", "--one-file-system", self.root).split()[0])
        print(f"the image holds {megabytes} MB")
        self.assertLess(megabytes, MOST_MEGABYTES)

    def test_trains_on_a_read_only_root_with_the_same_numbers(self):
        inside = self.in_image("inside")
        probe = self.start(inside, "sh", "-c", "id -u; touch /here || echo refused")
        self.assertEqual(probe.wait(60), 0)
        self.assertRegex((inside / "output").read_text(),
                         rf"^{USER}\n(?s:.*)Read-only file system\nrefused\n$")
        training = self.start(
            inside, "gimbal", "train", "config.yaml", "--run-dir", "run",
            "--workers", "2",
        )
        self.assertEqual(training.wait(300), 0, (inside / "output").read_text())
        outside = self.folder("outside")
        run(BIN / "gimbal", "train", "config.yaml", "--run-dir", "run",
            "--workers", "1", cwd=outside)
        self.assertEqual(self.rows(inside), self.rows(outside))

    def rows(self, folder):
        text = (folder / "run" / "metrics.jsonl").read_text()
        rows = re.sub(r'"seconds":[^,}]*', "", text).splitlines()
        self.assertEqual(len(rows), 60)
        return rows

    def test_tells_its_health(self):
        folder = self.in_image("health")
        coordinator = self.start(
            folder, "gimbal-coordinator", "--config=config.yaml", "--run-dir=run",
            "--metrics-listen=127.0.0.1:7002",
        )
        sandbox = self.sandbox(folder)

        def health():
            return sandbox.enter(
                coordinator, ["env", f"PATH={self.ENV['PATH']}", "gimbal-health"]
            ).returncode

        wait_until(lambda: coordinator.poll() is None and health() == 0, 60,
                   "the coordinator is alive")
        # One that is stopped does not answer.
        coordinator.signal(signal.SIGSTOP)
        wait_until(lambda: health() != 0, 60, "the coordinator does not answer")


if __name__ == "__main__":
    unittest.main()
