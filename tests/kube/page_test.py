"""deploy/kubernetes/README.md, done word for word without a cluster: what is
rendered is rendered, what is made is made by a dry run, and what asks a cluster
gets as far as to find none."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import yaml

import render
from pages import Page

CONFIG = render.KUBERNETES / "base" / "config.yaml"
STANDINS = {
    "kubectl": """\
case "$1 $2" in
  "apply -k") exec "$TOOLS/kubectl" kustomize "$3" ;;
  "apply -f") exec cat "$3" ;;
  "create "*) exec "$TOOLS/kubectl" "$@" --dry-run=client -o yaml ;;
  "config "*) exec "$TOOLS/kubectl" "$@" ;;
esac
said=$(timeout 60 "$TOOLS/kubectl" "$@" 2>&1)
case $said in *"127.0.0.1:1 was refused"*) exit 0 ;; esac
echo "kubectl $*: $said"
exit 1
""",
    "helm": """\
[ "$1" = install ] && shift && exec "$TOOLS/helm" template "$@"
exec "$TOOLS/helm" "$@"
""",
}
NOBODY = """\
apiVersion: v1
kind: Config
current-context: none
contexts: [{name: none, context: {cluster: none, user: none}}]
clusters: [{name: none, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: none, user: {}}]
"""


class PageTest(unittest.TestCase):
    def setUp(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="gimbal-kube-page-"))
        self.addCleanup(shutil.rmtree, folder)
        # Named as the page's paths from a folder beside it have it.
        self.checkout = folder / "gimbal"
        shutil.copytree(render.SOURCE / "deploy", self.checkout / "deploy")
        path = folder / "path"
        path.mkdir()
        for name, script in STANDINS.items():
            (path / name).write_text(f"#!/bin/sh\n{script}")
            (path / name).chmod(0o755)
        (folder / "kubeconfig").write_text(NOBODY)
        self.env = {
            **os.environ, "TOOLS": str(render.TOOLS),
            "KUBECONFIG": str(folder / "kubeconfig"),
            "PATH": f"{path}:{os.environ['GIMBAL_BIN_DIR']}:{os.environ['PATH']}",
        }
        self.page = Page(render.KUBERNETES / "README.md")

    def run_all(self, block, folder=None):
        done = subprocess.run(
            ["bash", "-ec", block], cwd=folder or self.checkout, env=self.env,
            text=True, capture_output=True)
        self.assertEqual(done.returncode, 0, block + done.stdout + done.stderr)
        return done.stdout

    def kinds(self, text):
        return {item["kind"] for item in yaml.safe_load_all(text) if item}

    def kustomize(self, patch):
        """The folder of one's own, beside the checkout."""
        mine = self.checkout.parent / "mine"
        mine.mkdir()
        (mine / "kustomization.yaml").write_text(self.page.take("resources: [", "yaml"))
        shutil.copy(CONFIG, mine / "config.yaml")
        (mine / "resources.yaml").write_text(patch)
        return self.run_all(self.page.take("kubectl apply -k ."), mine)

    def test_every_command(self):
        self.assertIn("build.sh cpu", self.page.take("buildah push"))  # tests/image
        self.assertLessEqual({"PersistentVolumeClaim", "Secret", "Namespace"},
                             self.made(self.page.take("kubectl create namespace")))
        (self.checkout / "corpus.txt").write_text("aye\n")
        self.run_all(self.page.take("gimbal-prepare"))
        shutil.copy(CONFIG, self.checkout / "my.yaml")
        for_helm, for_kustomize = self.page.take("gimbal plan").splitlines()
        self.run_all(for_helm)
        jobs = self.run_all(self.page.take("helm install"))
        self.run_all(for_kustomize)
        patch = (self.checkout / "resources.yaml").read_text()
        for text in (jobs, self.kustomize(patch)):
            self.assertLessEqual({"Job", "Service", "NetworkPolicy"}, self.kinds(text))
            self.assertIn("image: registry.example.com/gimbal:0.1.0", text)
        self.run_all(self.page.take("kubectl get pods"))
        self.run_all(self.page.take("kubectl port-forward"))
        self.assertIn("tls.key", self.run_all(self.page.take("certs.sh certs ca")))
        self.page.end()

    def made(self, block):
        made = set()
        for line in block.splitlines():
            text = self.run_all(line)
            if line.startswith(("kubectl create", "kubectl apply")):
                made |= self.kinds(text)
        return made


if __name__ == "__main__":
    sys.exit(unittest.main())
