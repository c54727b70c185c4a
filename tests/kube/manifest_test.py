"""What deploy/kubernetes renders: schemas, policies, Kustomize against Helm."""

import copy
import functools
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import jsonschema
import kubernetes_validate
import yaml

import render

VERSIONS = ("1.29", "1.37")  # the oldest that the chart allows, and the newest
SCHEMAS = pathlib.Path(__file__).parent / "schemas"
SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}


def validate(item, version):
    if item["apiVersion"].startswith("monitoring.coreos.com/"):
        schema = json.loads((SCHEMAS / f"{item['kind']}.json").read_text())
        jsonschema.validate(item, schema)
    else:
        kubernetes_validate.validate(item, version, strict=True)


def grace_seconds(config):
    text = config.get("cluster", {}).get("grace", "120s")
    number, unit = re.fullmatch(r"([\d.]+)(ms|s|m|h)", text).groups()
    return math.ceil(float(number) * SECONDS[unit])


def run_config(objects):
    config = next(item for item in objects if item["kind"] == "ConfigMap")
    return yaml.safe_load(config["data"]["config.yaml"])


@functools.cache
def program_help(name):
    program = pathlib.Path(os.environ["GIMBAL_BIN_DIR"]) / name
    return render.run(program, "--help").stdout.replace(",", " ")


class RenderedTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.rendered = render.everything()

    where = ""

    def each(self):
        for self.where, objects in self.rendered:
            yield objects

    def each_pod(self):
        for rendered, objects in self.rendered:
            for name, pod, item in render.pods(objects):
                self.where = f"{rendered}: {name}"
                yield pod, item, objects

    def _formatMessage(self, msg, standardMsg):
        return f"{self.where}: {super()._formatMessage(msg, standardMsg)}"


class SchemaTest(RenderedTest):
    def test_objects_follow_their_schemas(self):
        # Most objects are in several renderings; looking up a schema is slow.
        distinct = {
            json.dumps(item, sort_keys=True): item
            for _, objects in self.rendered
            for item in objects
        }
        for item in distinct.values():
            for version in VERSIONS:
                with self.subTest(f"{version} {item['kind']} {item['metadata']}"):
                    validate(item, version)

    def test_an_unknown_field_is_refused_in_every_kind(self):
        seen = set()
        for _, objects in self.rendered:
            for item in objects:
                if item["kind"] in seen or "spec" not in item:
                    continue
                seen.add(item["kind"])
                broken = copy.deepcopy(item)
                broken["spec"]["unheardOf"] = 1
                with self.subTest(item["kind"]), self.assertRaises(Exception):
                    validate(broken, VERSIONS[-1])
        self.assertLessEqual({"Job", "Service", "NetworkPolicy"}, seen)
        self.assertLessEqual({"PodMonitor", "PrometheusRule"}, seen)

    def test_the_chart_is_linted(self):
        for values in [None, *render.VALUES]:
            given = ["-f", values] if values else []
            lint = render.run(
                render.TOOLS / "helm", "lint", "--strict", *given, render.CHART
            )
            self.assertEqual(lint.returncode, 0, lint.stdout + lint.stderr)


class PodPolicyTest(RenderedTest):
    def test_no_root_and_no_privileges(self):
        for pod, _, _ in self.each_pod():
            security = pod["securityContext"]
            self.assertTrue(security["runAsNonRoot"])
            self.assertGreater(security["runAsUser"], 0)
            self.assertEqual(security["seccompProfile"]["type"], "RuntimeDefault")
            self.assertFalse(pod["automountServiceAccountToken"])
            for container in pod["containers"]:
                security = container["securityContext"]
                self.assertFalse(security["allowPrivilegeEscalation"])
                self.assertTrue(security["readOnlyRootFilesystem"])
                self.assertEqual(security["capabilities"], {"drop": ["ALL"]})
                self.assertNotIn("privileged", security)

    def test_no_access_to_the_host(self):
        for pod, _, _ in self.each_pod():
            for key in ("hostNetwork", "hostPID", "hostIPC", "hostUsers"):
                self.assertNotIn(key, pod)
            for volume in pod["volumes"]:
                self.assertNotIn("hostPath", volume)
            for container in pod["containers"]:
                for port in container["ports"]:
                    self.assertNotIn("hostPort", port)

    def test_images_have_a_version(self):
        for pod, _, _ in self.each_pod():
            for container in pod["containers"]:
                _, _, tag = container["image"].rpartition(":")
                self.assertRegex(tag, r"^\d+\.\d+\.\d+")

    def test_probes_reach_a_port_that_is_there(self):
        for pod, _, _ in self.each_pod():
            for container in pod["containers"]:
                ports = {port["name"] for port in container["ports"]}
                for probe, path in (
                    ("startupProbe", "/healthz"),
                    ("livenessProbe", "/healthz"),
                    ("readinessProbe", "/readyz"),
                ):
                    get = container[probe]["httpGet"]
                    self.assertEqual(get["path"], path)
                    self.assertIn(get["port"], ports)

    def test_grace_is_that_of_the_config_and_half_a_minute(self):
        for pod, _, objects in self.each_pod():
            self.assertEqual(
                pod["terminationGracePeriodSeconds"],
                grace_seconds(run_config(objects)) + 30,
            )

    def test_every_container_asks_for_resources(self):
        for pod, _, _ in self.each_pod():
            for container in pod["containers"]:
                asked = container["resources"]
                self.assertEqual(set(asked["requests"]), {"cpu", "memory"})
                self.assertEqual(
                    asked["requests"]["memory"], asked["limits"]["memory"]
                )

    def test_volumes_and_mounts_fit(self):
        for pod, _, _ in self.each_pod():
            volumes = {volume["name"] for volume in pod["volumes"]}
            mounts = [
                mount["name"]
                for container in pod["containers"]
                for mount in container["volumeMounts"]
            ]
            self.assertEqual(volumes, set(mounts))
            self.assertIn("token", volumes)

    def test_variables_are_set_before_they_are_used(self):
        for pod, _, _ in self.each_pod():
            for container in pod["containers"]:
                known = set()
                for entry in container["env"]:
                    used = re.findall(r"\$\((\w+)\)", entry.get("value", ""))
                    self.assertLessEqual(set(used), known, entry)
                    known.add(entry["name"])
                    self.assertEqual(len(entry), 2, entry)
                used = re.findall(r"\$\((\w+)\)", " ".join(container["args"]))
                self.assertLessEqual(set(used), known)

    def test_programs_know_their_arguments(self):
        for pod, _, _ in self.each_pod():
            for container in pod["containers"]:
                known = program_help(container["command"][0])
                for argument in container["args"]:
                    self.assertIn(f"{argument.partition('=')[0]} ", known)

    def test_workers_can_fail_one_by_one(self):
        for pod, item, _ in self.each_pod():
            spec = item["spec"]
            self.assertEqual(pod["restartPolicy"], "Never")
            self.assertEqual(spec["podReplacementPolicy"], "Failed")
            if item["metadata"]["name"].endswith("-worker"):
                self.assertEqual(spec["completionMode"], "Indexed")
                self.assertEqual(spec["completions"], spec["parallelism"])
                self.assertGreater(spec["backoffLimitPerIndex"], 0)


class PrepareTest(unittest.TestCase):
    def test_the_pod_that_prepares_data_is_as_a_workers(self):
        (_, (pod,)), = (each for each in render.everything() if each[0] == "prepare")
        found = render.by_name(render.overlay("cpu"))
        worker = found["Job", "gimbal-worker"]["spec"]["template"]["spec"]
        self.assertEqual(pod["spec"]["securityContext"], worker["securityContext"])
        container, other = pod["spec"]["containers"][0], worker["containers"][0]
        for key in ("image", "securityContext"):
            self.assertEqual(container[key], other[key])
        self.assertIn(container["volumeMounts"][0], other["volumeMounts"])
        self.assertIn(pod["spec"]["volumes"][0], worker["volumes"])
        # It is none of the run's pods.
        labels = found["Service", "gimbal-worker"]["spec"]["selector"]
        self.assertFalse(labels.items() <= pod["metadata"]["labels"].items())


class ObjectPolicyTest(RenderedTest):
    def test_selectors_find_the_pods_they_mean(self):
        for objects in self.each():
            labels = {
                item["metadata"]["name"]: item["spec"]["template"]["metadata"]["labels"]
                for item in objects
                if item["kind"] == "Job"
            }
            for item in objects:
                spec = item.get("spec", {})
                if item["kind"] == "Service":
                    wanted = spec["selector"]
                elif item["kind"] == "PodDisruptionBudget":
                    wanted = spec["selector"]["matchLabels"]
                elif item["kind"] == "NetworkPolicy":
                    wanted = spec["podSelector"]["matchLabels"]
                else:
                    continue
                found = [
                    job for job, has in labels.items() if wanted.items() <= has.items()
                ]
                self.assertEqual(found, [item["metadata"]["name"]])

    def test_workers_are_kept_apart_by_labels_that_they_have(self):
        found = 0
        for pod, item, _ in self.each_pod():
            if not item["metadata"]["name"].endswith("-worker"):
                continue
            labels = item["spec"]["template"]["metadata"]["labels"].items()
            apart, = pod["affinity"]["podAntiAffinity"][
                "preferredDuringSchedulingIgnoredDuringExecution"]
            near, = pod["affinity"]["podAffinity"][
                "preferredDuringSchedulingIgnoredDuringExecution"]
            spread, = pod["topologySpreadConstraints"]
            for term, key in ((apart["podAffinityTerm"], "kubernetes.io/hostname"),
                              (spread, "kubernetes.io/hostname"),
                              (near["podAffinityTerm"], "topology.kubernetes.io/zone")):
                self.assertEqual(term["topologyKey"], key)
                wanted = term["labelSelector"]["matchLabels"].items()
                self.assertLessEqual(wanted, labels)
            self.assertGreater(apart["weight"], near["weight"])
            found += 1
        self.assertGreater(found, len(render.OVERLAYS))

    def test_the_monitor_finds_every_pod_of_the_run_at_its_port(self):
        for objects in self.each():
            found = render.by_name(objects)
            for (kind, _), monitor in found.items():
                if kind != "PodMonitor":
                    continue
                wanted = monitor["spec"]["selector"]["matchLabels"].items()
                endpoint, = monitor["spec"]["podMetricsEndpoints"]
                jobs = [item for _, _, item in render.pods(objects)]
                self.assertEqual(len(jobs), 2)
                for job in jobs:
                    template = job["spec"]["template"]
                    self.assertLessEqual(wanted, template["metadata"]["labels"].items())
                    ports = [port["name"] for container in template["spec"]["containers"]
                             for port in container["ports"]]
                    self.assertIn(endpoint["port"], ports)

    def test_names_lead_to_addresses_before_pods_are_ready(self):
        for objects in self.each():
            for item in objects:
                if item["kind"] == "Service":
                    self.assertEqual(item["spec"]["clusterIP"], "None")
                    self.assertTrue(item["spec"]["publishNotReadyAddresses"])

    def test_the_budget_is_one_stage_at_a_time(self):
        for objects in self.each():
            found = render.by_name(objects)
            budget = found.get(("PodDisruptionBudget", "gimbal-worker"))
            if budget is None:
                self.assertNotIn(("Job", "gimbal-worker"), found)
                continue
            args = found["Job", "gimbal-coordinator"]["spec"]["template"]["spec"][
                "containers"
            ][0]["args"]
            workers = next(
                int(arg.removeprefix("--workers="))
                for arg in args
                if arg.startswith("--workers=")
            )
            stages = run_config(objects)["pipeline"]["stages"]
            self.assertEqual(budget["spec"]["minAvailable"], (workers or stages) - 1)

    def test_every_pod_is_behind_a_policy_in_both_directions(self):
        for where, objects in self.rendered:
            jobs = {i["metadata"]["name"] for i in objects if i["kind"] == "Job"}
            policies = {
                i["metadata"]["name"]
                for i in objects
                if i["kind"] == "NetworkPolicy"
                and i["spec"]["policyTypes"] == ["Ingress", "Egress"]
            }
            self.assertEqual(jobs, policies, where)


class SameObjectsTest(unittest.TestCase):
    """Kustomize and Helm with equal settings render the same."""

    maxDiff = None
    HELM_ONLY = (
        "app.kubernetes.io/version",
        "app.kubernetes.io/managed-by",
        "helm.sh/chart",
        "helm.sh/resource-policy",
    )
    # Lists that Kubernetes merges by a key, so that their order means nothing.
    KEYS = {"env": "name", "volumeMounts": "mountPath", "volumes": "name"}

    def plain(self, tree):
        if isinstance(tree, dict):
            kept = {
                key: self.plain(value)
                for key, value in tree.items()
                if key not in self.HELM_ONLY
            }
            if kept.get("annotations") == {}:
                del kept["annotations"]
            for key in self.KEYS.keys() & kept.keys():
                kept[key].sort(key=lambda item, by=self.KEYS[key]: item[by])
            return kept
        if isinstance(tree, list):
            return [self.plain(item) for item in tree]
        return tree

    def compare(self, kustomized, values):
        volume = render.kustomize(render.KUBERNETES / "volume")
        ours = render.by_name(self.plain(kustomized + volume))
        charts = render.by_name(self.plain(render.helm_with(values)))
        self.assertEqual(ours.keys(), charts.keys())
        for key, item in ours.items():
            with self.subTest(key):
                self.assertEqual(item, charts[key])

    def test_base_on_cpu(self):
        self.compare(render.overlay("cpu"), None)

    def test_components(self):
        for name in render.OVERLAYS:
            if name != "cpu":
                with self.subTest(name):
                    values = render.CHART / "ci" / f"{name}-values.yaml"
                    self.compare(render.overlay(name), values)


class RulesTest(unittest.TestCase):
    def test_the_rules_are_those_of_the_dashboards(self):
        groups = []
        for name in ("recording", "alerts"):
            path = render.SOURCE / "dashboards" / "prometheus" / f"{name}.rules.yml"
            groups += yaml.safe_load(path.read_text())["groups"]
        rendered = render.by_name(render.overlay("monitoring"))
        self.assertEqual(rendered["PrometheusRule", "gimbal"]["spec"]["groups"], groups,
                         "run deploy/kubernetes/rules.sh")

    def test_series_are_named_as_the_alerts_expect(self):
        rendered = render.by_name(render.overlay("monitoring"))
        endpoint, = rendered["PodMonitor", "gimbal"]["spec"]["podMetricsEndpoints"]
        job, = (each for each in endpoint["relabelings"]
                if each.get("targetLabel") == "job")
        self.assertEqual(job["replacement"], "gimbal-$1")
        self.assertTrue(endpoint["honorLabels"])


class ChartTest(unittest.TestCase):
    def refused(self, *options):
        done = render.run(
            render.TOOLS / "helm", "template", "gimbal", render.CHART, *options
        )
        self.assertNotEqual(done.returncode, 0)
        return done.stderr

    def test_unknown_values_are_refused(self):
        self.assertIn("wokers", self.refused("--set", "wokers.count=2"))
        self.assertIn("cout", self.refused("--set", "workers.cout=2"))

    def test_a_tag_that_moves_is_refused(self):
        self.assertIn("tag", self.refused("--set", "image.tag=latest"))

    def test_what_is_no_config_is_refused(self):
        for text in ("stages", "[1]", "run: {steps: 1}", "a: b: c"):
            self.assertIn("config:", self.refused("--set-literal", f"config={text}"))

    def test_a_config_is_taken_whole(self):
        text = "# mine\npipeline: {stages: 2}\n"
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(text)
            file.flush()
            objects = render.by_name(render.helm("--set-file", f"config={file.name}"))
        self.assertEqual(
            objects["ConfigMap", "gimbal-config"]["data"]["config.yaml"], text
        )
        self.assertEqual(objects["Job", "gimbal-worker"]["spec"]["completions"], 2)

    def test_more_workers_than_stages_are_refused(self):
        text = self.refused("--set", "workers.count=5")
        self.assertIn("workers.count: found 5, expected at most", text)

    def test_a_bad_grace_is_refused(self):
        config = "config=pipeline: {stages: 2}\ncluster: {grace: soon}\n"
        text = self.refused("--set-literal", config)
        self.assertIn("found 'soon', expected a duration", text)

    def test_objects_carry_the_name_of_the_release(self):
        other = render.objects_of(
            [render.TOOLS / "helm", "template", "second", render.CHART]
        )
        for item in other:
            self.assertTrue(item["metadata"]["name"].startswith("second"))
        for _, pod, _ in render.pods(other):
            names = re.findall(r"(?:claimName|secretName|configMap: name): (\S+)",
                               yaml.dump(pod["volumes"]))
            self.assertGreaterEqual(len(names), 2)
            for name in names:
                self.assertTrue(name.startswith("second"), name)
            self.assertNotIn("--coordinator=gimbal", yaml.dump(pod["containers"]))


class ResourcesTest(unittest.TestCase):
    SCRIPT = render.KUBERNETES / "resources.py"

    def plan(self, config, *options):
        done = render.run(
            f"{os.environ['GIMBAL_BIN_DIR']}/gimbal", "plan", config, "--json",
            *options,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def asked(self, plan, *options):
        done = render.run(sys.executable, self.SCRIPT, *options, input=plan)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_the_overlay_and_the_chart_hold_what_the_plan_says(self):
        plan = self.plan(render.KUBERNETES / "base" / "config.yaml")
        written = (render.KUBERNETES / "overlays" / "cpu" / "resources.yaml").read_text()
        self.assertEqual(self.asked(plan, "--patch"), written)
        values = yaml.safe_load((render.CHART / "values.yaml").read_text())
        self.assertEqual(
            yaml.safe_load(self.asked(plan))["workers"]["resources"],
            values["workers"]["resources"],
        )

    def test_fewer_workers_and_more_threads_ask_for_more(self):
        plan = self.plan(
            render.KUBERNETES / "base" / "config.yaml",
            "--set", "cluster.threads=6", "--set", "model.hidden=512",
        )
        four = yaml.safe_load(self.asked(plan))["workers"]["resources"]
        one = yaml.safe_load(self.asked(plan, "--workers=1"))["workers"]["resources"]
        self.assertEqual(four["requests"]["cpu"], 7)
        total = json.loads(plan)["total_bytes"]
        self.assertGreater(int(one["requests"]["memory"][:-2]) << 20, total)
        self.assertGreater(
            int(one["requests"]["memory"][:-2]), int(four["requests"]["memory"][:-2])
        )

    def test_what_is_no_plan_is_refused(self):
        for text in ("", "{}", "[1]"):
            done = render.run(sys.executable, self.SCRIPT, input=text)
            self.assertEqual(done.returncode, 1)
            self.assertIn("gimbal plan --json", done.stderr)


class ConfigTest(unittest.TestCase):
    def test_the_coordinator_accepts_the_config_of_every_overlay(self):
        for name in render.OVERLAYS:
            with self.subTest(name), tempfile.NamedTemporaryFile("w") as file:
                yaml.safe_dump(run_config(render.overlay(name)), file)
                file.flush()
                done = subprocess.run(
                    [
                        f"{os.environ['GIMBAL_BIN_DIR']}/gimbal-coordinator",
                        "--check-config", f"--config={file.name}", "--run-dir=/nowhere",
                    ],
                    capture_output=True,
                    text=True,
                )
                self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
