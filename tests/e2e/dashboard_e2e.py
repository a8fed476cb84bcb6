# SPDX-License-Identifier: Apache-2.0
"""The dashboard beside a real daemon with an emulated device: the page, its stream, requests that are passed on, what is
refused, and a daemon that is killed and started again."""
import http.client
import json
import os
import signal
import socket
import subprocess
import unittest

import emulated
import weir_e2e as e2e


def reply_of(port, method, path, token="", body=None, headers=None):
    """(status, the reply's headers, its body) of one request."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=e2e.PATIENCE)
    sent = {"Authorization": "Bearer " + token} if token else {}
    if body is not None:
        sent["Content-Type"] = "application/json"
    sent.update(headers or {})
    try:
        connection.request(method, path, body, {name: value for name, value in sent.items() if value is not None})
        reply = connection.getresponse()
        return reply.status, reply.headers, reply.read().decode()
    finally:
        connection.close()


class Stream:
    """The events of one page."""

    def __init__(self, port, token):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=e2e.PATIENCE)
        self.connection.request("GET", "/api/stream", headers={"Authorization": "Bearer " + token})
        self.reply = self.connection.getresponse()
        if self.reply.status != 200:
            raise AssertionError(f"the stream: {self.reply.status} {self.reply.read()}")

    def next(self):
        name, data = "", []
        while True:
            line = self.reply.readline().decode()
            if not line:
                raise AssertionError("the stream has ended")
            if line == "\n":
                return name, json.loads("\n".join(data))
            field, value = line.rstrip("\n").split(": ", 1)
            if field == "event":
                name = value
            else:
                data.append(value)

    def find(self, wanted, holds=lambda data: True, most=400):
        """The first event of this name for which `holds` is true. `most` bounds how many are read: ticks come without an
        end."""
        for _ in range(most):
            name, data = self.next()
            if name == wanted and holds(data):
                return data
        raise AssertionError(f"no such '{wanted}' in {most} events")

    def close(self):
        self.connection.close()


class Dashboard:
    """A `weir dashboard` of a node."""

    def __init__(self, node, *arguments):
        self.process = subprocess.Popen(
            [e2e.WEIR, "--run-dir", node.run_dir, "dashboard", "--no-open", *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.address = self.process.stdout.readline().strip()
        if not self.address.startswith("http://127.0.0.1:"):
            raise AssertionError(f"no address: {self.address!r} {self.process.stderr.read()}")
        self.port = int(self.address.split(":")[2].split("/")[0])
        self.token = self.address.split("#token=")[1] if "#token=" in self.address else ""

    def ask(self, method, path, body=None, **headers):
        return reply_of(self.port, method, path, headers.pop("token", self.token), body, headers.pop("lines", None))

    def close(self):
        if self.process.poll() is None:
            self.process.terminate()
        self.process.communicate(timeout=e2e.PATIENCE)


def field_of(tick, of, row, name):
    return row[tick[of + "_fields"].index(name) + 1]


class WithDashboard(emulated.WithEmulatedNode):
    def dashboard(self, *arguments):
        made = Dashboard(self.node, *arguments)
        self.addCleanup(made.close)
        return made

    def stream(self, dashboard):
        made = Stream(dashboard.port, dashboard.token)
        self.addCleanup(made.close)
        return made


class Page(WithDashboard):
    def test_the_page_is_served_with_its_headers(self):
        dashboard = self.dashboard()
        for path, kind in (("/", "text/html; charset=utf-8"), ("/app.js", "text/javascript; charset=utf-8"),
                           ("/app.css", "text/css; charset=utf-8"), ("/icon.svg", "image/svg+xml")):
            status, headers, body = dashboard.ask("GET", path, token="")
            self.assertEqual((status, headers["Content-Type"]), (200, kind), path)
            self.assertTrue(body, path)
        for path in ("/", "/api/v1/status", "/nothing"):
            _, headers, _ = dashboard.ask("GET", path)
            self.assertEqual(headers["Content-Security-Policy"],
                             "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
                             "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
            self.assertEqual(headers["X-Content-Type-Options"], "nosniff")
            self.assertEqual(headers["Referrer-Policy"], "no-referrer")
            self.assertEqual(headers["Cache-Control"], "no-store")

    def test_a_stream_shows_a_running_program_and_a_change(self):
        self.node.create("game")
        dashboard = self.dashboard()
        stream = self.stream(dashboard)
        name, hello = stream.next()
        self.assertEqual((name, hello["format"], hello["node"], hello["read_only"], hello["tick_ms"]),
                         ("hello", 1, socket.gethostname(), False, 250))
        lists = stream.find("lists")
        self.assertEqual([vgpu["name"] for vgpu in lists["vgpus"]], ["game"])
        [vgpu] = lists["vgpus"]
        self.start(e2e.BUMP, "game")
        tick = stream.find("tick", lambda tick: field_of(tick, "vgpu", tick["vgpus"][0], "fps") > 0)
        self.assertEqual(tick["vgpus"][0][0], vgpu["id"])
        self.assertGreater(field_of(tick, "vgpu", tick["vgpus"][0], "frames"), 0)
        stream.find("tick", lambda tick: field_of(tick, "device", tick["devices"][0], "gpu_use") > 0)
        stream.find("lists", lambda lists: lists["vgpus"][0]["processes"])

        status, _, body = dashboard.ask("PATCH", "/api/v1/vgpus/game", '{"cap": 0.25}')
        self.assertEqual((status, json.loads(body)["settings"]["cap"]), (200, 0.25))
        self.assertEqual(self.node.vgpu("game")["settings"]["cap"], 0.25)
        stream.find("tick", lambda tick: field_of(tick, "vgpu", tick["vgpus"][0], "cap") == 0.25)
        stream.find("lists", lambda lists: lists["vgpus"][0]["settings"]["cap"] == 0.25)

        self.assertEqual(dashboard.ask("POST", "/api/v1/vgpus", '{"name": "other", "cap": 0.1}')[0], 201)
        events = stream.find("events", lambda events: any(event["vgpu"] == "other" for event in events["events"]))
        self.assertEqual([event["kind"] for event in events["events"] if event["vgpu"] == "other"], ["sold"])
        self.assertEqual(dashboard.ask("DELETE", "/api/v1/vgpus/other")[0], 200)
        self.assertEqual(self.node.call("GET", "/v1/vgpus/other")[0], 404)

        def rows():
            status, _, body = dashboard.ask("GET", "/api/history?vgpu=game")
            return status == 200 and json.loads(body)["series"][0]["rows"]

        self.assertGreater(len(e2e.wait_for(rows, "rows of the history")[0]), 5)
        history = json.loads(dashboard.ask("GET", "/api/history?device=emulated0")[2])
        self.assertEqual([series["kind"] for series in history["series"]], ["device", "use"])
        self.assertEqual(dashboard.ask("GET", "/api/history?vgpu=nobody")[0], 404)

    def test_the_program_has_given_up_its_rights(self):
        dashboard = self.dashboard()
        children = f"/proc/{dashboard.process.pid}/task/{dashboard.process.pid}/children"
        with open(children) as file:
            [pid] = file.read().split()
        with open(f"/proc/{pid}/status") as file:
            status = dict(line.split(":\t", 1) for line in file if ":\t" in line)
        for kind in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
            self.assertEqual(int(status[kind], 16), 0, kind)
        self.assertEqual(status["NoNewPrivs"].strip(), "1")
        self.assertEqual(status["Seccomp"].strip(), "2")
        token = os.path.join(self.node.run_dir, "dashboard.token")
        self.assertEqual(os.stat(token).st_mode & 0o777, 0o600)
        with open(f"/proc/{pid}/cmdline") as file:
            self.assertNotIn(dashboard.token, file.read())


class Refused(WithDashboard):
    def setUp(self):
        super().setUp()
        self.node.create("game", cap=0.5)
        self.before = self.settings()

    def settings(self):
        devices = self.node.get("/v1/devices")["devices"]
        return ([vgpu["settings"] for vgpu in self.node.get("/v1/vgpus")["vgpus"]],
                [(device["policy"], device["oversell"]["mode"]) for device in devices])

    def refused(self, dashboard, status, method, path, body=None, lines=None, words="", **more):
        got, headers, text = dashboard.ask(method, path, body, lines=lines, **more)
        self.assertEqual(got, status, (method, path, lines, text))
        message = json.loads(text)["error"]["message"]
        self.assertTrue(message and words in message, text)
        self.assertEqual(headers["Cache-Control"], "no-store")

    def test_each_with_the_status_of_the_table(self):
        dashboard = self.dashboard()
        change = ("PATCH", "/api/v1/vgpus/game", '{"cap": 0.1}')
        self.refused(dashboard, 421, *change, lines={"Host": "evil.example"})
        self.refused(dashboard, 421, *change, lines={"Host": f"evil.example:{dashboard.port}"})
        self.refused(dashboard, 421, "GET", "/", lines={"Host": f"evil.example:{dashboard.port}"})
        self.refused(dashboard, 403, *change, lines={"Origin": "http://evil.example"})
        self.refused(dashboard, 403, *change, lines={"Origin": "null"})
        for token in ("", "0" * 64, dashboard.token[:-1], dashboard.token + "0"):
            self.refused(dashboard, 401, *change, token=token)
            self.refused(dashboard, 401, "GET", "/api/stream", token=token)
        for kind in (None, "text/plain", "application/x-www-form-urlencoded"):
            self.refused(dashboard, 415, *change, lines={"Content-Type": kind})
        for method, path in (("GET", "/api/v1/events"), ("POST", "/api/v1/shutdown"), ("GET", "/metrics"),
                             ("PUT", "/api/v1/use"), ("POST", "/api/v1/vgpus/../shutdown")):
            self.refused(dashboard, 404, method, path)
        self.refused(dashboard, 405, "PUT", "/api/v1/vgpus/game", "{}")
        self.refused(dashboard, 413, "PATCH", "/api/v1/vgpus/game", " " * (64 << 10) + '{"cap": 0.1}')
        self.assertEqual(self.settings(), self.before)
        self.assertIsNone(self.node.process.poll())
        own = {"Origin": f"http://localhost:{dashboard.port}", "Host": f"localhost:{dashboard.port}"}
        self.assertEqual(dashboard.ask(*change, lines=own)[0], 200)

    def test_fields_that_the_daemon_does_not_know(self):
        dashboard = self.dashboard()
        for method, path, body in (("PATCH", "/api/v1/vgpus/game", '{"cap": 0.1, "wieght": 2}'),
                                   ("POST", "/api/v1/vgpus", '{"name": "b", "wieght": 2}'),
                                   ("PUT", "/api/v1/devices/emulated0/policy", '{"policy": "none", "wieght": 2}'),
                                   ("PUT", "/api/v1/devices/emulated0/oversell", '{"mode": "strict", "wieght": 2}')):
            self.refused(dashboard, 400, method, path, body, words="wieght")
        self.assertEqual(self.settings(), self.before)

    def test_changes_of_a_read_only_one(self):
        dashboard = self.dashboard("--read-only")
        for method, path, body in (("PATCH", "/api/v1/vgpus/game", '{"cap": 0.1}'), ("DELETE", "/api/v1/vgpus/game", None),
                                   ("POST", "/api/v1/vgpus", '{"name": "b"}'), ("POST", "/api/v1/vgpus/game/pause", None),
                                   ("PUT", "/api/v1/devices/emulated0/policy", '{"policy": "none"}'),
                                   ("PUT", "/api/v1/devices/emulated0/oversell", '{"mode": "strict"}')):
            self.refused(dashboard, 403, method, path, body)
        self.assertEqual(self.settings(), self.before)
        self.assertEqual(dashboard.ask("GET", "/api/v1/vgpus")[0], 200)
        stream = self.stream(dashboard)
        self.assertTrue(stream.next()[1]["read_only"])

    def test_a_plain_one_needs_no_token_but_is_on_loopback_only(self):
        dashboard = self.dashboard("--plain")
        self.assertEqual(dashboard.token, "")
        self.assertEqual(dashboard.ask("GET", "/api/v1/vgpus")[0], 200)
        self.refused(dashboard, 403, "GET", "/api/v1/vgpus", lines={"Origin": "http://evil.example"})
        for command in (["dashboard", "--plain", "--listen", "10.0.0.1:8080"],
                        ["serve", "--http", "10.0.0.1:8080", "--http-plain"],
                        ["serve", "--http", "127.example.org:8080", "--http-plain"],
                        ["serve", "--http", "0.0.0.0:8080"], ["serve", "--http", "8080"], ["serve", "--http-plain"]):
            done = subprocess.run([e2e.WEIR, *command, "--run-dir", self.node.folder + "/x"], capture_output=True,
                                  text=True, timeout=e2e.PATIENCE)
            self.assertEqual(done.returncode, 2, (command, done.stderr))


class Restart(WithDashboard):
    def test_a_killed_daemon_is_away_and_then_back(self):
        self.node.create("game")
        dashboard = self.dashboard()
        stream = self.stream(dashboard)
        stream.find("tick")
        self.node.kill()
        self.assertIn("weir serve", stream.find("away")["message"])
        self.assertEqual(dashboard.ask("GET", "/api/v1/status")[0], 503)
        self.node.start()
        self.assertEqual(stream.find("back"), {})
        self.assertEqual([vgpu["name"] for vgpu in stream.find("lists")["vgpus"]], ["game"])
        stream.find("tick")
        self.assertEqual(dashboard.ask("GET", "/api/v1/vgpus/game")[0], 200)
        token = dashboard.token
        dashboard.process.send_signal(signal.SIGINT)
        self.assertEqual(dashboard.process.wait(e2e.PATIENCE), 0)
        self.assertEqual(self.dashboard().token, token, "a page that is open goes on")

    def test_the_daemon_keeps_one_running(self):
        port = free_port()
        self.node.arguments = (*self.node.arguments, "--http", f"127.0.0.1:{port}")
        self.node.kill()
        self.node.start()
        token_file = os.path.join(self.node.run_dir, "dashboard.token")

        def serves():
            try:
                with open(token_file) as file:
                    token = file.read().strip()
                status, _, body = reply_of(port, "GET", "/api/v1/status", token)
                return status == 200 and json.loads(body)["pid"] == self.node.process.pid and token
            except OSError:
                return False

        token = e2e.wait_for(serves, "the dashboard answers")
        self.assertIn(f"http://127.0.0.1:{port}/", self.node.log_text())
        self.assertNotIn(token, self.node.log_text(), "a log is no place for the token")
        for how in (self.node.kill, lambda: os.kill(self.helper(), signal.SIGKILL)):
            how()
            if self.node.process.poll() is not None:
                self.node.start()
            self.assertEqual(e2e.wait_for(serves, "it answers again"), token)

        other = e2e.Node("--http", f"127.0.0.1:{port}")
        self.addCleanup(other.close)
        done = subprocess.run([e2e.WEIR, "serve", "--run-dir", other.run_dir, "--state-dir", other.state_dir,
                               *other.arguments], capture_output=True, text=True, timeout=e2e.PATIENCE)
        self.assertEqual(done.returncode, 5, done.stderr)
        self.assertIn("choose another port", done.stderr)
        done = subprocess.run([e2e.WEIR, "--run-dir", self.node.run_dir, "dashboard", "--listen", f"127.0.0.1:{port}"],
                              capture_output=True, text=True, timeout=e2e.PATIENCE)
        self.assertEqual((done.returncode, done.stdout), (5, ""), done.stderr)
        self.assertIn("choose another port", done.stderr)

    def helper(self):
        """The dashboard's process that the daemon keeps."""
        found = []
        with open(f"/proc/{self.node.process.pid}/task/{self.node.process.pid}/children") as file:
            for pid in file.read().split():
                with open(f"/proc/{pid}/comm") as name:
                    if name.read().startswith("weir-dashboard"):
                        found.append(int(pid))
        [pid] = found
        return pid

    def test_without_a_daemon_the_command_says_what_to_do(self):
        done = subprocess.run([e2e.WEIR, "--run-dir", self.node.folder + "/nowhere", "dashboard"], capture_output=True,
                              text=True, timeout=e2e.PATIENCE)
        self.assertEqual(done.returncode, 8, done.stderr)
        self.assertIn("weir serve", done.stderr)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


if __name__ == "__main__":
    e2e.main()
