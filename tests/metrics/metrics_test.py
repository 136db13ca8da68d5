#!/usr/bin/env python3
"""What the daemon exports, and what looks at it: metrics_test.py PULSEWHEELD

Prometheus' own promtool judges the format of /metrics on a daemon with traffic, and the alert rules;
each metric that the rules, the Grafana dashboard and the documents name has to exist. Exits with 77
(skipped) where there is no promtool.
"""

import json
import re
import shutil
import subprocess
import sys
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
from real_daemon import Client, RealDaemon  # noqa: E402: found by the line above

EXIT_SKIPPED = 77
ALERTS = ROOT / "docker/alerts.yml"
ALERTS_TEST = Path(__file__).parent / "alerts_test.yml"
GRAFANA = ROOT / "docker/grafana-dashboard.json"
DOCUMENTS = [ROOT / "README.md", ROOT / "docker/README.md"]

# Of 20 clients who log in, and 10 of them out.
EXPECTED = ['pulsewheel_logins_total{result="accepted"} 20',
            'pulsewheel_packets_total{type="logout"} 10',
            'pulsewheel_edges_total{kind="offline",reason="logout"} 10']
WAIT_S = 15

NAME = re.compile(r"\b(?:pulsewheel|process)_[a-z0-9_]*[a-z0-9]\b")


def promtool(*arguments, text=None):
    done = subprocess.run(["promtool", *map(str, arguments)], input=text, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=False)
    return done.returncode, done.stdout


def names_in(text):
    return set(NAME.findall(text))


class MetricsTest(unittest.TestCase):
    program = None

    @classmethod
    def setUpClass(cls):
        # With a Redis that is not there: its metrics are.
        cls.daemon = RealDaemon(cls.program, "redis.mode=shared", "redis.url=redis://127.0.0.1:1")
        cls.addClassCleanup(cls.daemon.close)
        clients = [Client(cls.daemon, b"user-%d" % i) for i in range(20)]
        for client in clients[:10]:
            client.logout()
        for client in clients[10:]:
            client.close()
        # Shards publish what they counted at the end of their round.
        end = time.monotonic() + WAIT_S
        cls.text = cls.daemon.get("/metrics")
        while not all(f"\n{line}\n" in cls.text for line in EXPECTED) and time.monotonic() < end:
            time.sleep(0.02)
            cls.text = cls.daemon.get("/metrics")
        cls.exported = set()  # as queries name them
        for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", cls.text, re.MULTILINE):
            cls.exported.add(name)
            if kind == "histogram":
                cls.exported |= {f"{name}_{part}" for part in ("bucket", "count", "sum")}

    def assert_exported(self, names, where):
        self.assertGreater(len(names), 0, where)
        self.assertEqual(names - self.exported, set(), f"named in {where}, not in /metrics")

    def test_promtool_finds_nothing_wrong_with_the_format(self):
        self.assertEqual(promtool("check", "metrics", text=self.text), (0, ""))

    def test_each_metric_has_help_and_a_type(self):
        series = set(re.findall(r"^([a-z_]+)[{ ]", self.text, re.MULTILINE))
        self.assertEqual(series - self.exported, set())
        helped = set(re.findall(r"^# HELP (\S+) \S", self.text, re.MULTILINE))
        typed = set(re.findall(r"^# TYPE (\S+)", self.text, re.MULTILINE))
        self.assertEqual(helped, typed)

    def test_counts_what_the_clients_did(self):
        lines = self.text.splitlines()
        self.assertEqual([line for line in EXPECTED if line not in lines], [])

    def test_has_what_every_process_has(self):
        for name in ("process_cpu_seconds_total", "process_resident_memory_bytes",
                     "process_open_fds", "process_max_fds", "process_start_time_seconds"):
            self.assertIn(name, self.exported)

    def test_the_alert_rules_are_rules(self):
        code, said = promtool("check", "rules", ALERTS)
        self.assertEqual(code, 0, said)
        self.assert_exported(names_in(ALERTS.read_text(encoding="utf-8")), ALERTS.name)

    def test_the_scrape_configuration_is_one(self):
        code, said = promtool("check", "config", "--syntax-only", ROOT / "docker/prometheus.yml")
        self.assertEqual(code, 0, said)

    def test_the_alert_rules_do_what_they_should(self):
        code, said = promtool("test", "rules", ALERTS_TEST)
        self.assertEqual(code, 0, said)

    def test_each_alert_is_tested_and_says_what_to_do(self):
        rules = ALERTS.read_text(encoding="utf-8").split("- alert: ")[1:]
        tests = ALERTS_TEST.read_text(encoding="utf-8")
        self.assertGreater(len(rules), 10)
        for rule in rules:
            name = rule.split("\n", 1)[0]
            with self.subTest(name):
                self.assertIn(name, tests)
                self.assertRegex(rule, r"severity: (warning|critical)")
                self.assertRegex(rule, r"summary: ")
                self.assertRegex(rule, r"runbook: ")

    def test_each_panel_of_the_grafana_dashboard_asks_for_what_there_is(self):
        dashboard = json.loads(GRAFANA.read_text(encoding="utf-8"))
        queries = [target["expr"] for panel in dashboard["panels"]
                   for target in panel.get("targets", [])]
        self.assertGreater(len(queries), 10)
        for query in queries:
            with self.subTest(query):
                self.assert_exported(names_in(query), GRAFANA.name)

    def test_the_grafana_queries_are_queries(self):
        dashboard = json.loads(GRAFANA.read_text(encoding="utf-8"))
        rules = [{"record": "x:y", "expr": re.sub(r"\$__rate_interval", "5m", target["expr"])}
                 for panel in dashboard["panels"] for target in panel.get("targets", [])]
        # JSON is YAML, which is how promtool wants its rules.
        code, said = promtool("check", "rules", "--lint=none", "/dev/stdin",
                              text=json.dumps({"groups": [{"name": "panels", "rules": rules}]}))
        self.assertEqual(code, 0, said)

    def test_the_documents_name_metrics_that_exist(self):
        for document in DOCUMENTS:
            with self.subTest(document.name):
                names = names_in(document.read_text(encoding="utf-8"))
                self.assertEqual(names - self.exported, set())


def main():
    if shutil.which("promtool") is None:
        print("skipped: no promtool here (Debian: apt-get install prometheus, or "
              "./dev test --label metrics)")
        return EXIT_SKIPPED
    MetricsTest.program = sys.argv.pop(1)
    return not unittest.main(argv=sys.argv, exit=False, verbosity=2).result.wasSuccessful()


if __name__ == "__main__":
    sys.exit(main())
