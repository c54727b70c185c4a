"""Targets that a test makes up."""

import http.server
import json
import re
import threading

from runs import scrape

DCGM = ("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_POWER_USAGE")


class Exporter:
    """What is posted to /trainjob is kept in `reports`. Says what a DCGM exporter says; after lie() also the metrics of a
    coordinator with every stage one update staler than expected. A run that
    really were so would fail by itself, before anybody looked."""

    def __init__(self, targets_file):
        self.targets_file = targets_file
        self.run = None  # about which it lies
        self.reports = []  # (authorization, body)
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0),
                                                      self._handler())
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self._write("dcgm")

    @property
    def address(self):
        return "127.0.0.1:%d" % self.server.server_address[1]

    def lie(self, run):
        self.run = run
        self._write("dcgm", "stale")

    def _write(self, *paths):
        self.targets_file.write_text(json.dumps(
            [{"targets": [self.address],
              "labels": {"job": path, "__metrics_path__": f"/{path}"}}
             for path in paths]), encoding="utf-8")

    def text(self, path):
        if path == "/dcgm":
            return "".join(f'# TYPE {name} gauge\n{name}{{gpu="0",'
                           'Hostname="node"} 50\n' for name in DCGM)
        return re.sub(r"(?m)^(gimbal_stage_staleness_updates\{.*\}) (\d+)$",
                      lambda m: f"{m[1]} {int(m[2]) + 1}",
                      scrape(self.run.coordinator_metrics()))

    def _handler(self):
        exporter = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.end_headers()
                self.wfile.write(exporter.text(self.path).encode())

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                exporter.reports.append((self.headers["Authorization"], body))
                self.send_response(200 if self.path == "/trainjob" else 404)
                self.end_headers()

            def log_message(self, *_):
                pass

        return Handler
