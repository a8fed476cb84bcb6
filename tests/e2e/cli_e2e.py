# SPDX-License-Identifier: Apache-2.0
"""`weir` as a user types it: correct and wrong commands, without a daemon, and with another daemon in the way."""
import json
import os
import shutil
import socket
import stat
import subprocess
import tempfile
import unittest

import weir_e2e as e2e


def weir(*arguments, environment=None, run_dir=None, timeout=e2e.PATIENCE, **options):
    where = ["--run-dir", run_dir] if run_dir else []
    return subprocess.run([e2e.WEIR, *where, *arguments], capture_output=True, text=True, timeout=timeout,
                          env={**os.environ, **(environment or {})}, **options)


class Commands(e2e.WithNode):
    def weir(self, *arguments, **options):
        return weir(*arguments, run_dir=self.node.run_dir, **options)

    def ok(self, *arguments, **options):
        done = self.weir(*arguments, **options)
        self.assertEqual(done.returncode, 0, f"{arguments}: {done.stderr}")
        return done.stdout

    def test_commands_work_in_a_typical_session(self):
        self.ok("vgpu", "create", "game", "--weight", "50", "--fps", "60", "--memory", "256M:1G")
        shown = json.loads(self.ok("--json", "vgpu", "show", "game"))
        self.assertEqual(shown["settings"]["memory_min_bytes"], 256 << 20)
        self.ok("vgpu", "set", "game", "--weight", "20", "--cap", "0.5")
        self.assertIn("game", self.ok("vgpu", "list"))
        self.ok("policy", "reserve", "--param", "period_ms=2")
        self.assertEqual(json.loads(self.ok("--json", "devices"))["devices"][0]["policy"], "reserve")
        self.assertIn("proportional-share", self.ok("policy"))
        self.assertIn("game", self.ok("top", "--once"))
        program = self.tenants.start([e2e.WEIR, "--run-dir", self.node.run_dir, "run", "--vgpu", "game", "--", *e2e.DRAWS])
        self.wait_frames("game")
        self.assertEqual([p["pid"] for p in self.node.vgpu("game")["processes"]], [program.pid])
        self.assertEqual(self.weir("vgpu", "rm", "game").returncode, 5)
        self.ok("vgpu", "rm", "game", "--force")
        self.assertIsNone(program.poll())

    def test_wrong_arguments_get_one_clear_line_and_a_stable_exit_status(self):
        self.ok("vgpu", "create", "a")
        for arguments, status, says in (
                (("vgpu", "create", "a"), 4, "exists already"),
                (("vgpu", "create", "b", "--weight", "0"), 2, "weight"),
                (("vgpu", "create", "b", "--cap", "7"), 2, "cap"),
                (("vgpu", "create", "b", "--memory", "2G:1G"), 2, "memory"),
                (("vgpu", "create", "../b"), 2, "can't name a vGPU"),
                (("vgpu", "show", "nobody"), 3, "no vGPU named 'nobody'"),
                (("policy", "magic"), 3, "unknown policy 'magic'"),
                (("run", "--vgpu", "nobody", "--", "true"), 3, "no vGPU named 'nobody'"),
                (("run", "--", "/nonexistent/program"), 127, "/nonexistent/program"),
                (("run", "--", "/etc/passwd"), 126, "/etc/passwd"),
                (("vgpu", "create", "b", "--wieght", "3"), 2, "--wieght"),
                *((("serve", f"--peer{plain}", f"{wrong}"), 2, f"--peer{plain} takes HOST:PORT={wanted}, not '{wrong}'")
                  for plain, wanted in (("", "TOKENFILE"), ("-plain", "VGPU"))
                  for wrong in ("gpu2", "gpu2:7700", "gpu2:7700=", "gpu2=x", ":7700=x", "gpu2:=x", "gpu2:70000=x", "=gpu2:7700")),
                (("frobnicate",), 2, "frobnicate")):
            done = self.weir(*arguments)
            self.assertEqual(done.returncode, status, f"{arguments}: {done.stderr}")
            self.assertIn(says, done.stderr, arguments)
        self.assertEqual([v["name"] for v in self.node.get("/v1/vgpus")["vgpus"]], ["a"])

    def test_run_creates_a_vgpu_that_ends_with_the_program(self):
        program = self.tenants.start([e2e.WEIR, "--run-dir", self.node.run_dir, "run", "--weight", "7", "--name", "mine", "--",
                                      *e2e.DRAWS])
        e2e.wait_for(lambda: self.node.call("GET", "/v1/vgpus/mine")[0] == 200, "the vGPU is there")
        self.wait_frames("mine")
        self.assertEqual(self.node.vgpu("mine")["settings"]["weight"], 7)
        self.node.kill()
        self.node.start()
        e2e.wait_for(lambda: self.node.vgpu("mine")["processes"], "it is attached again after a restart")
        self.tenants.stop(program)
        e2e.wait_for(lambda: self.node.call("GET", "/v1/vgpus/mine")[0] == 404, "the vGPU is gone")

    def test_stop_says_how_many_programs_go_on(self):
        program = self.tenants.start([e2e.WEIR, "--run-dir", self.node.run_dir, "run", "--name", "mine", "--", *e2e.DRAWS])
        e2e.wait_for(lambda: self.node.call("GET", "/v1/vgpus/mine")[0] == 200, "the vGPU is there")
        self.wait_frames("mine")
        self.assertEqual(self.ok("stop"), "stopped; 1 process of vGPUs continues unthrottled\n")
        self.assertIsNone(program.poll())

    def test_run_forwards_the_exit_status_and_the_output(self):
        done = self.weir("run", "--", "sh", "-c", "echo out; echo err >&2; exit 42")
        self.assertEqual((done.returncode, done.stdout), (42, "out\n"))
        self.assertIn("err\n", done.stderr)

    def test_run_warns_of_programs_that_cannot_be_hooked(self):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        source, static = os.path.join(folder, "s.c"), os.path.join(folder, "static")
        with open(source, "w") as text:
            text.write("int main(void) { return 9; }\n")
        subprocess.run(["gcc", "-static", "-o", static, source], check=True)
        done = self.weir("run", "--", static)
        self.assertEqual(done.returncode, 9, done.stderr)
        self.assertIn("statically linked", done.stderr)
        self.assertIn("it runs unthrottled", done.stderr)
        strict = self.weir("run", "--strict", "--", static)
        self.assertEqual(strict.returncode, 5)
        self.assertNotIn("it runs unthrottled", strict.stderr)
        if os.geteuid() == 0:
            setuid = os.path.join(folder, "setuid")
            subprocess.run(["gcc", "-o", setuid, source], check=True)
            os.chown(setuid, 65534, 65534)
            os.chmod(setuid, 0o755 | stat.S_ISUID)
            done = self.weir("run", "--", setuid)
            self.assertEqual(done.returncode, 9, done.stderr)
            self.assertIn("setuid", done.stderr)

    def test_a_windows_program_is_named_where_wine_is_not_registered(self):
        registered = subprocess.run(["grep", "-rls", "magic 4d5a", "/proc/sys/fs/binfmt_misc"], capture_output=True,
                                    text=True)
        if registered.stdout:
            self.skipTest(f"{registered.stdout.strip()} runs Windows programs")
        program = os.path.join(tempfile.mkdtemp(), "game.exe")
        self.addCleanup(shutil.rmtree, os.path.dirname(program))
        with open(os.open(program, os.O_WRONLY | os.O_CREAT, 0o755), "wb") as file:
            file.write(b"MZ" + bytes(62))
        done = self.weir("run", "--", program)
        self.assertEqual(done.returncode, 126, done.stderr)
        self.assertIn(f"it is a Windows program; start it as 'wine {program}'", done.stderr)
        recorded = self.weir("record", "--", program)
        self.assertIn(f"it is a Windows program; start it as 'wine {program}'", recorded.stderr)
        examined = self.weir("doctor", "--seconds", "1", program)
        self.assertEqual(examined.returncode, 8, examined.stdout)
        self.assertIn(f"{program} is a Windows program", examined.stdout)
        self.assertNotIn("try a longer --seconds", examined.stdout, "it ended at once")

    def test_the_state_survives_a_restart_and_a_kill(self):
        self.ok("vgpu", "create", "kept", "--weight", "33", "--fps", "30")
        self.ok("policy", "reserve")
        self.node.kill()
        self.node.start()
        kept = self.node.vgpu("kept")
        self.assertEqual((kept["settings"]["weight"], kept["settings"]["fps"]), (33, 30))
        self.assertEqual(self.node.get("/v1/devices")["devices"][0]["policy"], "reserve")

    def serve(self, *arguments, run_dir=None):
        return weir("serve", "--state-dir", self.node.state_dir, *arguments, run_dir=run_dir or self.node.run_dir)

    def test_an_unreadable_state_is_refused_with_the_way_back(self):
        self.ok("vgpu", "create", "first")
        self.ok("vgpu", "create", "second")
        self.node.kill()
        state = os.path.join(self.node.state_dir, "node.json")
        with open(state, "w") as text:
            text.write("{ half a file")
        done = self.serve()
        self.assertEqual(done.returncode, 9, done.stderr)
        self.assertIn(f"cp {state}.previous {state}", done.stderr)
        with open(state) as text:
            self.assertEqual(text.read(), "{ half a file")
        shutil.copy(state + ".previous", state)
        self.node.start()
        self.assertEqual([v["name"] for v in self.node.get("/v1/vgpus")["vgpus"]], ["first"])

    def test_a_second_daemon_names_the_running_one(self):
        done = self.serve()
        self.assertEqual(done.returncode, 5, done.stderr)
        self.assertIn(f"process {self.node.process.pid}) serves", done.stderr)

    def test_a_state_folder_belongs_to_one_daemon(self):
        done = self.serve(run_dir=os.path.join(self.node.folder, "other"))
        self.assertEqual(done.returncode, 5, done.stderr)
        self.assertIn(f"process {self.node.process.pid}) keeps its state in {self.node.state_dir}", done.stderr)

    def test_a_port_in_use_is_an_error_before_anything_is_served(self):
        self.node.kill()
        with socket.create_server(("127.0.0.1", 0)) as taken:
            done = self.serve("--listen-plain", f"127.0.0.1:{taken.getsockname()[1]}")
        self.assertEqual(done.returncode, 5, done.stderr)
        self.assertIn("another program uses that port", done.stderr)
        self.assertNotIn("serving", done.stderr)

    def test_metrics_have_the_prometheus_format(self):
        self.ok("vgpu", "create", "a")
        status, text = self.node.call("GET", "/metrics")
        self.assertEqual(status, 200)
        self.assertIn('weir_vgpu_frames_total{vgpu="a",device="embedded"}', text)


class AfterACrash(unittest.TestCase):
    """After a persistent daemon was killed, 'weir run' waits for it and does not start a private one in its place."""

    def setUp(self):
        self.node = e2e.Node().start()
        self.addCleanup(self.node.close)
        self.node.create("game")
        self.node.kill()

    def run_beside_a_restart(self, *arguments, place=None):
        program = subprocess.Popen([e2e.WEIR, *(place or ["--run-dir", self.node.run_dir]), "run", *arguments, "--",
                                    "true"], stderr=subprocess.PIPE, text=True)
        self.addCleanup(program.kill)
        said = program.stderr.readline()
        self.assertIn("has crashed or is starting; waiting up to 10 s", said)
        self.node.start()
        _, rest = program.communicate(timeout=e2e.PATIENCE)
        self.assertEqual((program.returncode, rest), (0, ""))
        self.assertFalse(self.node.get("/v1/status")["private"])

    def test_a_program_of_a_named_vgpu_waits_for_the_daemon(self):
        self.run_beside_a_restart("--vgpu", "game")

    def test_a_program_without_a_vgpu_waits_for_the_daemon(self):
        self.run_beside_a_restart()

    def test_a_program_whose_socket_is_named_waits_for_the_daemon(self):
        self.run_beside_a_restart(place=["--socket", os.path.join(self.node.run_dir, "control.sock")])

    def test_no_private_daemon_is_started_where_the_socket_is_named(self):
        with tempfile.TemporaryDirectory() as empty:
            done = subprocess.run([e2e.WEIR, "run", "--", "true"], capture_output=True, text=True, timeout=e2e.PATIENCE,
                                  env={**os.environ, "WEIR_SOCKET": os.path.join(empty, "control.sock")})
        self.assertEqual(done.returncode, 8, done.stderr)
        self.assertIn("no private daemon is started, since --socket or WEIR_SOCKET names the socket", done.stderr)

    def test_a_daemon_that_does_not_return_is_reported_with_a_remedy(self):
        done = weir("run", "--", "true", run_dir=self.node.run_dir)
        self.assertEqual(done.returncode, 8, done.stderr)
        self.assertIn("start it with 'weir serve', or remove", done.stderr)
        os.remove(os.path.join(self.node.run_dir, "serving"))
        self.assertIn("started a private one", weir("run", "--", "true", run_dir=self.node.run_dir).stderr)


class WithoutADaemon(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="weir-e2e-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def test_commands_say_how_to_start_a_daemon(self):
        done = weir("vgpu", "list", run_dir=self.folder)
        self.assertEqual(done.returncode, 8, done.stderr)
        self.assertIn("weir serve", done.stderr)

    def test_a_named_vgpu_needs_a_persistent_daemon(self):
        done = weir("run", "--vgpu", "game", "--", "true", run_dir=self.folder)
        self.assertEqual(done.returncode, 8, done.stderr)
        self.assertIn("the vGPU 'game' needs one that stays", done.stderr)
        self.assertFalse(os.path.exists(os.path.join(self.folder, "control.sock")))

    def test_run_starts_a_private_daemon_that_two_programs_share(self):
        display = e2e.shared_display()
        tenants = e2e.Tenants(display)
        self.addCleanup(tenants.close)
        for name in ("one", "two"):
            tenants.start([e2e.WEIR, "--run-dir", self.folder, "run", "--name", name, "--", *e2e.DRAWS])

        def attached():
            done = weir("--json", "vgpu", "list", run_dir=self.folder)
            return done.returncode == 0 and sum(len(v["processes"]) for v in json.loads(done.stdout)["vgpus"]) == 2

        e2e.wait_for(attached, "both programs are attached to one private daemon")
        tenants.close()
        # It stays for ten seconds; each question is a process.
        e2e.wait_for(lambda: weir("status", run_dir=self.folder).returncode == 8,
                     "the private daemon ended with its tenants", pause=0.25)

    def test_a_daemon_takes_over_from_a_private_one_without_programs(self):
        done = weir("run", "--", "true", run_dir=self.folder)
        self.assertIn("private", done.stderr)
        private = json.loads(weir("--json", "status", run_dir=self.folder).stdout)
        self.assertTrue(private["private"])
        program = subprocess.Popen([e2e.WEIR, "--run-dir", self.folder, "run", "--name", "held", "--", "sleep", "60"],
                                   stderr=subprocess.DEVNULL)
        self.addCleanup(program.kill)
        e2e.wait_for(lambda: weir("vgpu", "show", "held", run_dir=self.folder).returncode == 0, "the program has its vGPU")
        serve = ["serve", "--state-dir", os.path.join(self.folder, "state of the node")]
        refused = weir(*serve, run_dir=self.folder)
        self.assertEqual(refused.returncode, 5, refused.stderr)
        self.assertIn(f"private daemon (process {private['pid']})", refused.stderr)
        self.assertIn(f"weir --run-dir {self.folder} stop", refused.stderr)
        program.kill()
        program.wait()
        e2e.wait_for(lambda: json.loads(weir("--json", "status", run_dir=self.folder).stdout)["vgpus"] == 0,
                     "its vGPU has gone")
        daemon = subprocess.Popen([e2e.WEIR, "--run-dir", self.folder, *serve], stderr=subprocess.PIPE, text=True)
        self.addCleanup(daemon.stderr.close)
        self.addCleanup(daemon.wait)
        self.addCleanup(daemon.terminate)
        self.assertIn("took over from the private daemon", daemon.stderr.readline())
        self.assertIn("serving", daemon.stderr.readline())
        self.assertFalse(json.loads(weir("--json", "status", run_dir=self.folder).stdout)["private"])


if __name__ == "__main__":
    e2e.main()
