#!/usr/bin/env python3
"""The status page of a real run in a real browser.

Leaves screenshots in the folder that GIMBAL_ARTIFACTS names. Exit code 77:
there is no browser (deploy/packages.sh installs it).
"""
import base64
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

try:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
except ImportError:
    webdriver = None

BIN = pathlib.Path(os.environ.get("GIMBAL_BIN_DIR", "build/dev/bin"))
ARTIFACTS = pathlib.Path(os.environ.get("GIMBAL_ARTIFACTS", "artifacts"))
PATIENCE = 90  # seconds; costs nothing when all is well
STAGES = 4

# What a browser says while a server is away, or starts.
GONE = ("ERR_CONNECTION_REFUSED", "ERR_CONNECTION_RESET", "ERR_EMPTY_RESPONSE",
        "ERR_CONNECTION_CLOSED", "503 (Service Unavailable)")


def eventually(condition, what):
    deadline = time.monotonic() + PATIENCE
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {PATIENCE} s: {what}")
        time.sleep(0.1)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def browser():
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for flag in ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
                 "--no-first-run", "--disable-background-networking",
                 "--disable-component-update", "--disable-sync",
                 "--disable-dev-shm-usage", "--hide-scrollbars",
                 "--window-size=1240,1000",
                 f"--user-data-dir={tempfile.mkdtemp()}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs",
                           {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(options=options,
                            service=Service(shutil.which("chromedriver")))


class Run:
    """`gimbal train` in a folder of its own."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="gimbal-page-"))
        words = random.Random(3)
        (self.folder / "text").write_text(" ".join(
            f"word{words.randrange(97)}" for _ in range(6000)))
        self.http = f"127.0.0.1:{free_port()}"
        (self.folder / "config.yaml").write_text(f"""
run: {{name: "a <b>bold</b> run", seed: 5, steps: 100000}}
data: {{train: {self.folder}/text, valid: {self.folder}/text, format: text}}
model: {{layers: 8, hidden: 16, heads: 2, context: 16}}
batch: {{microbatch: 2}}
pipeline: {{stages: {STAGES}}}
optimizer: {{lr: 3.0e-3, schedule: {{warmup: 5}}, rotation: {{period: 4}}}}
checkpoint: {{every: 100}}
eval: {{every: 50, batches: 2}}
cluster: {{lease: 10s, metrics_listen: "{self.http}"}}
""")
        self.dir = self.folder / "run"
        self.log = open(self.folder / "out", "w")
        # Updates of 20 ms: a minute of them is a picture.
        self.process = subprocess.Popen(
            [BIN / "gimbal", "train", self.folder / "config.yaml", "--run-dir",
             self.dir, "--workers", str(STAGES)],
            stdout=self.log, stderr=subprocess.STDOUT, start_new_session=True,
            env=dict(os.environ, GIMBAL_STAGE_SECONDS="0.02"))

    def gimbal(self, *arguments):
        return subprocess.run(
            [BIN / "gimbal", *arguments, "--run-dir", self.dir],
            stdout=subprocess.PIPE, text=True, timeout=PATIENCE, check=False)

    def status(self):
        done = self.gimbal("status", "--json")
        return json.loads(done.stdout) if done.returncode == 0 else None

    def loss_of(self, update):
        for line in (self.dir / "metrics.jsonl").read_text().splitlines():
            row = json.loads(line)
            if row["step"] == update:
                return row["loss"]
        return None

    def close(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for pid in self.dir.glob("coordinator.json"):
            try:
                os.kill(json.loads(pid.read_text())["pid"], signal.SIGKILL)
            except (OSError, ValueError):
                pass
        shutil.rmtree(self.folder, ignore_errors=True)


class StatusPage(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        ARTIFACTS.mkdir(parents=True, exist_ok=True)
        cls.run_ = Run()
        cls.page = None
        try:
            eventually(lambda: (cls.run_.status() or {}).get("update", 0) > 5,
                       "the run trains")
            cls.page = browser()
            cls.page.get(f"http://{cls.run_.http}/")
            eventually(lambda: cls.update() > 0, "the page shows an update")
        except BaseException:
            cls.tearDownClass()
            raise

    @classmethod
    def tearDownClass(cls):
        if cls.page is not None:
            cls.page.quit()
        print((cls.run_.folder / "out").read_text()[-1500:])
        cls.run_.close()

    @classmethod
    def update(cls):
        return int(cls.page.execute_script(
            "return document.documentElement.dataset.update || 0"))

    def text(self, id_):
        return self.page.find_element(By.ID, id_).text

    def rows(self, id_):
        return self.page.execute_script(
            "return [...document.getElementById(arguments[0]).tBodies[0].rows]"
            ".map(r => [...r.cells].map(c => c.textContent.trim()))", id_)

    def console(self):
        """Lines of the console since the last call."""
        return [entry["message"] for entry in self.page.get_log("browser")]

    def emulate(self, width, height, scheme, phone=False):
        self.page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": height, "deviceScaleFactor": 1,
            "mobile": phone})
        self.page.execute_cdp_cmd("Emulation.setEmulatedMedia", {
            "features": [{"name": "prefers-color-scheme", "value": scheme}]})

    def screenshot(self, name):
        """Of the whole document, once the page has drawn itself anew."""
        seen = self.update()
        eventually(lambda: self.update() > seen, "the page goes on")
        size = self.page.execute_cdp_cmd("Page.getLayoutMetrics", {})
        shot = self.page.execute_cdp_cmd("Page.captureScreenshot", {
            "captureBeyondViewport": True,
            "clip": dict(size["cssContentSize"], scale=1)})
        data = base64.b64decode(shot["data"])
        self.assertGreater(len(data), 20000)
        (ARTIFACTS / name).write_bytes(data)

    def assert_fits(self):
        """Nothing but tables scrolls sideways."""
        self.assertLessEqual(
            self.page.execute_script("return document.documentElement.scrollWidth"),
            self.page.execute_script("return document.documentElement.clientWidth"))

    # unittest runs these in the order of their names.

    def test_1_shows_what_gimbal_status_says(self):
        status = self.run_.status()
        self.assertEqual(self.text("name"), status["name"])
        self.assertEqual(self.text("state"), "running")
        self.assertIn(f"of {status['steps']:,}", self.text("update-note"))
        stages = self.rows("stages")
        self.assertEqual(len(stages), STAGES)
        for row, stage in zip(stages, status["stages"]):
            self.assertEqual(row[0], str(stage["stage"]))
            self.assertEqual(row[1], stage["layers"])
        eventually(lambda: [row[2] for row in self.rows("staleness")] ==
                   [str(s["delay_expected"]) for s in status["stages"]],
                   "the page shows the staleness that is expected and no other")
        self.assertEqual([row[3] for row in self.rows("staleness")],
                         [str(s["delay_expected"]) for s in status["stages"]])
        self.assertEqual(
            {(row[0], row[6]) for row in self.rows("workers")},
            {(w["name"], str(w["pid"])) for w in status["workers"]})
        # What changes lies between the answers before and after.
        before = self.run_.status()["update"]
        eventually(lambda: self.update() >= before, "the page catches up")
        shown, loss = self.page.execute_script(
            "return [Number(document.documentElement.dataset.update),"
            " document.getElementById('loss').textContent]")
        self.assertLessEqual(before, shown)
        self.assertLessEqual(shown, self.run_.status()["update"])
        row = eventually(lambda: self.run_.loss_of(shown), "the row is written")
        self.assertEqual(loss, f"{row:.4f}")

    def test_2_goes_on_with_the_run(self):
        seen = self.update()
        eventually(lambda: self.update() > seen + 20, "updates are shown")
        self.assertIn("to", self.page.find_element(By.ID, "curve")
                      .get_attribute("aria-label"))
        eventually(lambda: self.page.find_elements(By.CSS_SELECTOR,
                                                   "#checkpoints time"),
                   "a checkpoint is shown")

    def test_3_reads_well_without_eyes_or_mouse(self):
        headings = self.page.execute_script(
            "return [...document.querySelectorAll('h1,h2,h3')]"
            ".map(h => Number(h.tagName[1]))")
        self.assertEqual(headings[0], 1)
        self.assertEqual(headings.count(1), 1)
        self.assertTrue(all(b <= a + 1 for a, b in zip(headings, headings[1:])))
        self.assertEqual([], self.page.execute_script(
            "return [...document.querySelectorAll('thead th')]"
            ".filter(t => t.scope !== 'col').map(t => t.textContent)"))
        self.assertEqual([], self.page.execute_script(
            "return [...document.querySelectorAll('[role=img]')]"
            ".filter(e => !e.getAttribute('aria-label')).map(e => e.id)"))
        self.assertEqual(1, len(self.page.find_elements(
            By.CSS_SELECTOR, "[aria-live]")))
        self.page.execute_script("document.activeElement.blur()")
        body = self.page.find_element(By.TAG_NAME, "body")
        body.send_keys(Keys.TAB)
        self.assertEqual(self.page.switch_to.active_element.get_attribute("href"),
                         f"http://{self.run_.http}/#main")
        reached = set()
        for _ in range(16):
            self.page.switch_to.active_element.send_keys(Keys.TAB)
            reached.add(self.page.execute_script(
                "return document.activeElement.getAttribute('aria-labelledby')"))
        self.assertLessEqual({"h-stages", "h-workers", "h-decisions"}, reached)
        # Text against its ground, WCAG AA.
        for scheme in ("light", "dark"):
            self.emulate(1240, 1000, scheme)
            for pair in self.page.execute_script(CONTRASTS):
                self.assertGreaterEqual(pair["ratio"], 4.5, (scheme, pair))

    def test_4_survives_the_coordinator_and_a_worker(self):
        self.page.execute_script("window.sameDocument = true")
        self.assertEqual(self.console(), [])
        self.page.execute_script("window.scrollTo(0, 0)")
        pid = self.run_.status()["workers"][1]["pid"]
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: "updates replayed" in self.text("recoveries"),
                   "the recovery is shown")
        self.assertEqual(self.console(), [])
        first = json.loads((self.run_.dir / "coordinator.json").read_text())
        seen = self.update()
        os.kill(first["pid"], signal.SIGKILL)
        eventually(lambda: self.update() > seen + 40, "the page goes on")
        second = json.loads((self.run_.dir / "coordinator.json").read_text())
        self.assertNotEqual(first["pid"], second["pid"])
        self.assertEqual(second["metrics_address"], self.run_.http)
        self.assertTrue(self.page.execute_script("return window.sameDocument"))
        eventually(lambda: not self.page.find_element(
            By.ID, "banner").is_displayed(), "no warning is left")
        self.assertIn("updates replayed", self.text("recoveries"))
        for line in self.console():
            self.assertTrue(any(gone in line for gone in GONE), line)

    def test_4b_says_that_the_coordinator_hangs(self):
        """It once showed green leases "0.0 s ago" and "running"."""
        old = "return document.documentElement.hasAttribute('data-old')"
        self.assertFalse(self.page.execute_script(old))
        facts = json.loads((self.run_.dir / "coordinator.json").read_text())
        os.kill(facts["pid"], signal.SIGSTOP)
        try:
            eventually(lambda: self.page.execute_script(old), "it is seen")
            self.assertIn("does not answer", self.text("banner"))
            self.assertEqual(self.text("state"), "not known")
            eventually(lambda: all(float(row[4].split(" s ago")[0]) > 3
                                   for row in self.rows("workers")),
                       "the workers' ages grow")
        finally:
            os.kill(facts["pid"], signal.SIGCONT)
        eventually(lambda: not self.page.execute_script(old)
                   and self.text("state") == "running"
                   and not self.page.find_element(By.ID, "banner")
                   .is_displayed(), "all is well again")

    def test_4c_begins_with_the_last_minute(self):
        """A reload once began an empty timeline."""
        shown = "return columnsOf(answers, 0).filter(c => !c.silent).length"
        def kept():
            with urllib.request.urlopen(
                    f"http://{self.run_.http}/times.json") as answer:
                return len(json.load(answer))
        eventually(lambda: kept() > 9, "the coordinator has some of it")
        self.page.refresh()
        eventually(lambda: self.update() > 0, "the page is there again")
        self.assertGreater(self.page.execute_script(shown), 6)

    def columns(self, told):
        """Of a stage that told `told`, [(seconds, times or None), ...]."""
        return self.page.execute_script(
            "return columnsOf(arguments[0].map(([at, times]) => "
            "({at, times: new Map([[0, times]])})), 0)", told)

    def test_4d_draws_no_time_of_which_nothing_was_told(self):
        """A stage that hung once stayed as busy as it was, and what was drawn
        of the others moved on without it."""
        def told(forward, idle):
            return {"forward": forward, "idle": idle}
        hung = self.columns([(0, told(0, 0)), (1, told(.75, .25)),
                             (2, told(.75, .25)), (3, told(.75, .25)),
                             (4, told(3.75, .25)), (5, told(4.5, .5))])
        self.assertEqual([c.get("silent") for c in hung], [0, 1, 1, 0, 0])
        self.assertEqual([c.get("forward") for c in hung],
                         [.75, None, None, 1, .75])
        # A single report that was late is no silence.
        late = self.columns([(0, told(0, 0)), (1, told(0, 0)),
                             (2, told(1.5, .5)), (3, told(2.25, .75))])
        self.assertEqual([c["forward"] for c in late], [.75] * 3)
        # Another one in its place.
        anew = self.columns([(0, told(9, 9)), (1, told(.5, .5)),
                             (2, told(1, 1))])
        self.assertEqual([c.get("silent") for c in anew], [1, 0])
        self.assertEqual(anew[1]["forward"], .5)

    def test_4e_draws_what_takes_long_from_its_beginning(self):
        """It counts as idle until it ends, and once was drawn so for good."""
        columns = self.columns([
            (0, {"forward": 0, "update": 0, "idle": 0}),
            (1, {"forward": 0, "update": .5, "idle": .5}),
            (2, {"forward": 0, "update": .5, "idle": 1.5}),
            (3, {"forward": 2.25, "update": .5, "idle": .25})])
        for phase, seconds in (("forward", [.25, 1, 1]), ("idle", [.25, 0, 0]),
                               ("update", [.5, 0, 0])):
            for column, expected in zip(columns, seconds):
                self.assertAlmostEqual(column[phase], expected, msg=phase)

    def test_4f_shows_which_stage_hangs(self):
        status = self.run_.status()
        worker = next(w for w in status["workers"] if 2 in w["stages"])
        shown = ("return [0, 1, 2, 3].map(s => columnsOf(answers, s)"
                 ".slice(-2).map(c => !!c.silent))")
        os.kill(worker["pid"], signal.SIGSTOP)
        try:
            eventually(lambda: self.page.execute_script(shown) == [
                [s == 2] * 2 for s in range(STAGES)], "stage 2 alone is silent")
            self.assertTrue(any("silent" in share.text for share in
                                self.page.find_elements(
                                    By.CSS_SELECTOR, "#timeline .share")))
        finally:
            os.kill(worker["pid"], signal.SIGCONT)
        eventually(lambda: not any(any(c) for c in
                                   self.page.execute_script(shown)),
                   "all stages are heard of again")

    def test_5_looks_right(self):
        eventually(lambda: self.page.execute_script(
            "return answers.length > 9"), "the timeline fills")
        for scheme in ("light", "dark"):
            self.emulate(1240, 1000, scheme)
            self.screenshot(f"{scheme}.png")
            self.assert_fits()
            self.emulate(390, 844, scheme, phone=True)
            self.screenshot(f"phone-{scheme}.png")
            self.assert_fits()
        self.emulate(1240, 1000, "light")
        self.assertEqual(self.console(), [])

    def test_6_asks_nobody_else(self):
        asked = []
        for entry in self.page.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                asked.append(message["params"]["request"]["url"])
        self.assertIn(f"http://{self.run_.http}/history.json", asked)
        for url in asked:
            self.assertTrue(url.startswith((f"http://{self.run_.http}/", "data:",
                                            "chrome:", "about:")), url)

    def test_7_shows_the_end(self):
        self.assertEqual(self.run_.gimbal("stop").returncode, 0)
        eventually(lambda: self.text("state") == "stopped", "the end is shown")
        self.assertEqual(self.run_.process.wait(timeout=PATIENCE), 4)
        eventually(lambda: "ended" in self.text("banner"), "the page says so")
        self.assertEqual(self.text("state"), "stopped")
        # Each question that nobody answers is an error on the console; it
        # once was one a second for ever.
        errors = []

        def two_errors():
            errors.extend(entry["timestamp"] for entry
                          in self.page.get_log("browser"))
            return len(errors) > 1
        self.page.get_log("browser")
        eventually(two_errors, "the page asks on")
        self.assertGreater(errors[1] - errors[0], 2500)


CONTRASTS = """
const channel = (c) => (c /= 255) <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4;
const light = (rgb) => .2126 * channel(rgb[0]) + .7152 * channel(rgb[1]) + .0722 * channel(rgb[2]);
const parse = (text) => text.match(/[\\d.]+/g).map(Number);
const ground = (e) => {
  for (; e; e = e.parentElement) {
    const c = parse(getComputedStyle(e).backgroundColor);
    if (c.length === 3 || c[3] === 1) return c;
  }
  return [255, 255, 255];
};
return [...document.querySelectorAll('h1,h2,dt,dd,th,td,p,summary,a,li,time,.pill')]
  .filter(e => e.textContent.trim() && !e.hidden && e.offsetParent).map(e => {
    const a = light(parse(getComputedStyle(e).color)), b = light(ground(e));
    return {what: e.tagName + '#' + e.id + '.' + e.className,
            ratio: (Math.max(a, b) + .05) / (Math.min(a, b) + .05)};
  });
"""

if __name__ == "__main__":
    if webdriver is None or not shutil.which("chromium") or \
            not shutil.which("chromedriver"):
        print("skipped: no chromium, chromium-driver or python3-selenium")
        sys.exit(77)
    unittest.main(failfast=True, verbosity=2)
