# SPDX-License-Identifier: Apache-2.0
"""The metrics of a real daemon and of a manager against contrib/prometheus and contrib/grafana. Every name that a rule
or a panel uses is exported, each rule has a test that notices when the rule breaks, and a real Prometheus answers the
query of every panel. Tests that need promtool or prometheus are skipped where Debian's package `prometheus` is missing.
"""
import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import urllib.parse

import weir_e2e as e2e
from cluster_processes import Manager, Processes, free_ports

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))
RULES_FOLDER = os.path.join(ROOT, "contrib/prometheus")
BRIDGE = os.path.join(RULES_FOLDER, "weir-metrics-bridge")
DEVICE = os.path.join(ROOT, "devices/one-small-card.toml")
PROMTOOL, PROMETHEUS = shutil.which("promtool"), shutil.which("prometheus")
WITHOUT = "Debian's package prometheus is not installed"
# Series that Prometheus makes itself.
OF_PROMETHEUS = {"up", "ALERTS"}
ALERT = re.compile(r"^ +- alert: (\w+)\n +expr: (>-\n((?: {10}\S.*\n)+)|\S.*\n)( +for: .*\n)?", re.MULTILINE)


def text_of(name):
    with open(os.path.join(ROOT, "contrib", name), encoding="utf-8") as file:
        return file.read()


def dashboard():
    return json.loads(text_of("grafana/weir.json"))


def queries():
    """(title of the panel, query) of each query of the dashboard."""
    return [(panel["title"], target["expr"]) for panel in dashboard()["panels"] for target in panel.get("targets", [])]


def names_in(text):
    return set(re.findall(r"\b(?:weir|process)_[a-z0-9_]+", text))


def promtool(*arguments, folder=RULES_FOLDER, **options):
    return subprocess.run([PROMTOOL, *arguments], cwd=folder, capture_output=True, text=True, timeout=e2e.PATIENCE,
                          **options)


def labels_of(metrics):
    """The names of the labels of each exported series, by the name of the metric."""
    found = {}
    for name, labels in re.findall(r"^(\w+)(?:\{(.*)\})? \S+$", metrics, re.MULTILINE):
        found[name] = set(re.findall(r'(\w+)="', labels))
    return found


class Files(unittest.TestCase):
    def right(self, done):
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_each_alert_leads_to_a_page_and_has_a_test(self):
        rules = text_of("prometheus/weir-alerts.yml")
        alerts = [name for name, *_ in ALERT.findall(rules)]
        self.assertEqual(len(alerts), rules.count("- alert:"))
        self.assertEqual(len(set(alerts)), len(alerts))
        tests = re.findall(r"^  - name: (\w+)", text_of("prometheus/weir-alerts_test.yml"), re.MULTILINE)
        self.assertEqual(tests, alerts)
        pages = re.findall(r"^ +runbook: (\S+)", rules, re.MULTILINE)
        self.assertEqual(len(pages), len(alerts))
        for page in pages:
            file, _, heading = page.partition("#")
            with open(os.path.join(ROOT, file), encoding="utf-8") as text:
                headings = {re.sub(r"[^\w\- ]", "", line.lower()).strip().replace(" ", "-")
                            for line in re.findall(r"^#+ (.*)$", text.read(), re.MULTILINE)}
            self.assertTrue(not heading or heading in headings, page)
        with open(os.path.join(ROOT, "docs/how-to/metrics-and-alerts.md"), encoding="utf-8") as page:
            self.assertEqual(re.findall(r"^\| `(Weir\w+)` \|", page.read(), re.MULTILINE), alerts)

    def test_the_dashboard_has_variables_and_panels(self):
        board = dashboard()
        variables = {variable["name"] for variable in board["templating"]["list"]}
        self.assertEqual(variables, {"datasource", "node", "device", "vgpu"})
        ids = [panel["id"] for panel in board["panels"]]
        self.assertEqual(len(set(ids)), len(ids))
        for panel in board["panels"]:
            self.assertTrue(panel["title"])
            if panel["type"] != "row":
                self.assertTrue(panel["description"] and panel["targets"], panel["title"])
        used = set(re.findall(r"\$\{?(\w+)", json.dumps(board)))
        self.assertEqual(used - variables, {"__rate_interval", "__all"})

    @unittest.skipUnless(PROMTOOL, WITHOUT)
    def test_the_rules_are_valid_and_pass_their_tests(self):
        self.right(promtool("check", "rules", "weir-alerts.yml"))
        self.right(promtool("test", "rules", "weir-alerts_test.yml"))
        self.right(promtool("check", "config", "prometheus.yml"))

    @unittest.skipUnless(PROMTOOL, WITHOUT)
    def test_a_rule_that_never_always_or_too_early_fires_fails_its_test(self):
        rules = text_of("prometheus/weir-alerts.yml")
        head, *tests = re.split(r"^(?=  - name: )", text_of("prometheus/weir-alerts_test.yml"), flags=re.MULTILINE)
        folder = tempfile.mkdtemp(prefix="weir-rules-")
        self.addCleanup(shutil.rmtree, folder)

        def notices(alert, broken, test):
            with open(os.path.join(folder, "weir-alerts.yml"), "w") as file:
                file.write(rules.replace(alert[0], broken))
            with open(os.path.join(folder, "weir-alerts_test.yml"), "w") as file:
                file.write(head + test)
            done = promtool("test", "rules", "weir-alerts_test.yml", folder=folder)
            self.assertEqual(done.returncode, 1, f"{broken}{done.stdout}{done.stderr}")
            self.assertRegex(done.stdout + done.stderr, rf'(?s)got:.*\b{alert[1]}"|{alert[1]}".*\bgot:')

        for alert, test in zip(ALERT.finditer(rules), tests, strict=True):
            begin = alert[0][:alert.start(2) - alert.start()]
            query, delay = " ".join((alert[3] or alert[2]).split()), alert[4] or ""
            notices(alert, f"{begin}({query}) and on () vector(1) == 0\n{delay}", test)
            notices(alert, f"{begin}({query}) or vector(1)\n{delay}", test)
            if delay:
                notices(alert, alert[0].removesuffix(delay), test)


class OnANode(unittest.TestCase):
    """A daemon with an emulated device, elastic memory, two vGPUs, and the bridge beside it."""

    @classmethod
    def setUpClass(cls):
        cls.processes = Processes()
        cls.addClassCleanup(cls.processes.close)
        cls.node = e2e.Node("--quiet", "--device", "emulated:" + DEVICE)
        cls.addClassCleanup(cls.node.close)
        cls.node.start()
        cls.node.create("render", fps=60, memory_max_bytes=256 << 20)
        cls.node.create("job", cap=0.2)
        status, body = cls.node.call("PUT", "/v1/devices/emulated0/memory", {"size_bytes": 512 << 20})
        assert status == 200, body
        cls.manager_port, cls.prometheus_port = free_ports(2)
        Manager(cls.processes, "manager", cls.manager_port, "--state", cls.processes.path("state")).start()
        cls.bridge = subprocess.Popen([sys.executable, BRIDGE, "--socket", cls.node.socket, "--listen", "127.0.0.1:0"],
                                      stdout=subprocess.PIPE, text=True)
        cls.addClassCleanup(e2e.end_all, [cls.bridge])
        cls.bridge_port = int(re.search(r":(\d+)/metrics", cls.bridge.stdout.readline())[1])

    @staticmethod
    def ask(port, path, method="GET", token=""):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=e2e.PATIENCE)
        try:
            connection.request(method, path, headers={"Authorization": f"Bearer {token}"} if token else {})
            reply = connection.getresponse()
            return reply.status, reply.read().decode()
        finally:
            connection.close()

    def of_manager(self):
        with open(self.processes.token) as token:
            secret = token.read().strip()

        def answer():
            try:
                status, text = self.ask(self.manager_port, "/metrics", token=secret)
            except OSError:
                return None
            return text if status == 200 and "weir_cluster_leads 1" in text else None
        return e2e.wait_for(answer, "the manager leads")

    def exported(self):
        return self.node.get("/metrics") + self.of_manager()

    @unittest.skipUnless(PROMTOOL, WITHOUT)
    def test_promtool_accepts_the_metrics(self):
        for text in (self.node.get("/metrics"), self.of_manager()):
            done = promtool("check", "metrics", input=text)
            self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))

    def test_the_command_prints_and_lists_what_the_daemon_serves(self):
        def weir(*arguments):
            return subprocess.run([e2e.WEIR, "metrics", "--run-dir", self.node.run_dir, *arguments], check=True,
                                  capture_output=True, text=True, timeout=e2e.PATIENCE).stdout
        heads = re.findall(r"^# HELP (\S+) (.*)\n# TYPE \1 (\S+)$", self.node.get("/metrics"), re.MULTILINE)
        self.assertGreater(len(heads), 60)
        self.assertEqual(re.findall(r"^# HELP (\S+) (.*)\n# TYPE \1 (\S+)$", weir(), re.MULTILINE), heads)
        listed = json.loads(weir("--list", "--json"))["metrics"]
        self.assertEqual([(one["name"], one["help"], one["type"]) for one in listed], heads)
        labels = labels_of(self.node.get("/metrics"))
        for one in listed:
            series, more = (one["name"] + "_bucket", {"le"}) if one["type"] == "histogram" else (one["name"], set())
            self.assertEqual(labels[series], set(one["labels"]) | more, one["name"])
        text = weir("--list")
        self.assertEqual([line.split()[0] for line in text.splitlines()], ["NAME", *(head[0] for head in heads)])

    def test_rules_and_panels_use_exported_names(self):
        names = set(labels_of(self.exported()))
        for file in ("prometheus/weir-alerts.yml", "prometheus/weir-alerts_test.yml", "grafana/weir.json"):
            text = text_of(file)
            self.assertGreater(len(names_in(text)), 10)
            self.assertEqual(names_in(text) - names, set(), file)

    def test_the_series_of_the_rules_tests_have_the_exported_labels(self):
        labels = labels_of(self.exported())
        series = re.findall(r"series: '(\w+)\{(.*?)\}'", text_of("prometheus/weir-alerts_test.yml"))
        self.assertGreater(len(series), 30)
        for name, written in series:
            if name not in OF_PROMETHEUS:
                given = set(re.findall(r'(\w+)="', written)) - {"job", "instance"}
                self.assertEqual(given, labels[name], name)

    def test_the_rule_about_ignored_promises_knows_the_policies(self):
        keeping = {policy["name"] for policy in self.node.get("/v1/policies")["policies"] if policy["keeps_rates"]}
        in_rule = re.search(r'weir_device_info\{policy=~"(.*?)"\}', text_of("prometheus/weir-alerts.yml"))[1]
        self.assertEqual(set(in_rule.split("|")), keeping)

    def test_the_bridge_passes_on_nothing_but_metrics(self):
        status, text = self.ask(self.bridge_port, "/metrics")
        self.assertEqual((status, names_in(text)), (200, names_in(self.node.get("/metrics"))))
        for path in ("/", "/v1/vgpus", "/metrics/../v1/vgpus", "/metrics2"):
            self.assertEqual(self.ask(self.bridge_port, path)[0], 404, path)
        for method in ("POST", "PUT", "PATCH", "DELETE", "HEAD"):
            self.assertEqual(self.ask(self.bridge_port, "/v1/shutdown", method)[0], 501, method)
        self.assertIsNone(self.node.process.poll())

    def test_the_bridge_of_no_daemon_gives_status_503(self):
        bridge = subprocess.Popen([sys.executable, BRIDGE, "--socket", self.node.folder + "/none", "--listen",
                                   "127.0.0.1:0"], stdout=subprocess.PIPE, text=True)
        self.addCleanup(e2e.end_all, [bridge])
        status, text = self.ask(int(re.search(r":(\d+)/metrics", bridge.stdout.readline())[1]), "/metrics")
        self.assertEqual(status, 503)
        self.assertIn(self.node.folder + "/none", text)

    def prometheus(self, query):
        status, text = self.ask(self.prometheus_port, "/api/v1/" + query)
        self.assertEqual(status, 200, f"{query}: {text}")
        return json.loads(text)["data"]

    def query(self, expression):
        for name, value in (("$__rate_interval", "30s"), ("$node", ".*"), ("$device", ".*"), ("$vgpu", ".*")):
            expression = expression.replace(name, value)
        return self.prometheus("query?" + urllib.parse.urlencode({"query": expression}))["result"]

    def start_prometheus(self):
        """With the example's configuration, apart from its intervals, its addresses and the token."""
        config = text_of("prometheus/prometheus.yml")
        for written, used in (("scrape_interval: 5s", "scrape_interval: 1s"),
                              ("evaluation_interval: 15s", "evaluation_interval: 1s"),
                              ("- weir-alerts.yml", f"- {RULES_FOLDER}/weir-alerts.yml"),
                              ("127.0.0.1:7720", f"127.0.0.1:{self.bridge_port}"),
                              ("127.0.0.1:7710", f"127.0.0.1:{self.manager_port}"),
                              ("/etc/weir/cluster.token", self.processes.token)):
            self.assertEqual(config.count(written), 1, written)
            config = config.replace(written, used)
        config = re.sub(r"^# (?=  )", "", config, flags=re.MULTILINE)  # the part for clusters
        path = self.processes.path("prometheus.yml")
        with open(path, "w") as file:
            file.write(config)
        self.processes.start("prometheus", [
            PROMETHEUS, "--config.file", path, "--storage.tsdb.path", self.processes.path("data"),
            "--log.level", "warn", "--web.listen-address", f"127.0.0.1:{self.prometheus_port}"])

        def scraped():
            try:
                # Several scrapes of each target, so that rates have a value.
                counts = self.query('count_over_time(up[1m]) >= 3 and up == 1')
            except (OSError, http.client.HTTPException, AssertionError):
                return False
            return len(counts) == 2
        e2e.wait_for(scraped, "Prometheus has scraped the bridge and the manager")

    @unittest.skipUnless(PROMETHEUS and PROMTOOL, WITHOUT)
    def test_a_real_prometheus_answers_every_panel_and_evaluates_every_rule(self):
        self.of_manager()
        self.start_prometheus()
        for title, expression in queries():
            self.assertTrue(self.query(expression), f"{title}: no data for {expression}")
        for variable in dashboard()["templating"]["list"]:
            if variable["type"] == "query":
                series, label = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["definition"]).groups()
                self.assertIn(label, self.query(series)[0]["metric"])

        def rules():
            groups = self.prometheus("rules")["groups"]
            all_rules = [rule for group in groups for rule in group["rules"]]
            return all_rules if all(rule["health"] != "unknown" for rule in all_rules) else None
        for rule in e2e.wait_for(rules, "all rules are evaluated"):
            self.assertEqual(rule["health"], "ok", rule)
        # The default policy keeps no rate: this is the one alert that is true here.
        self.assertEqual({series["metric"]["alertname"] for series in self.query("ALERTS")}, {"WeirPromiseIgnored"})


if __name__ == "__main__":
    unittest.main(verbosity=2)
