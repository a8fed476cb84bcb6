# SPDX-License-Identifier: Apache-2.0
"""Modules on a node: registered and run by the command line, in a vGPU with a real daemon; and the effect on runs when
modules or hosts misbehave, with the driver alone. The four applications check their own results, and fail if they
are wrong.
"""
import concurrent.futures
import json
import os
import signal
import struct
import subprocess
import tempfile
import time
import unittest

import weir_e2e as e2e

MODULES = os.path.join(e2e.BUILD, "lib/weir/modules")
FAULTY = os.path.join(e2e.BUILD, "lib/test/faulty_module")
SERVICE = os.path.join(e2e.BUILD, "lib/weir/weir-modules")
NAP_MS = 1200  # long beside the time until a busy host has started another program
EXAMPLE = os.path.join(e2e.BUILD, "lib/test/weir_client_example")
APPLICATIONS = [("binomial_options", "binomial-options", "n=64 steps=128"),
                ("black_scholes", "black-scholes", "n=4096"),
                ("eigenvalue", "eigenvalue", "n=128"),
                ("sorting_network", "sorting-network", "n=1024")]


class WithAService(unittest.TestCase):
    socket = None

    def weir(self, *arguments, seconds=e2e.PATIENCE):
        return subprocess.run([e2e.WEIR, "module", arguments[0], "--modules-socket", self.socket, *arguments[1:]],
                              capture_output=True, text=True, timeout=seconds)

    def ok(self, *arguments):
        done = self.weir(*arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def refused(self, status, words, *arguments):
        done = self.weir(*arguments)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        self.assertIn(words, done.stderr)

    def run_of(self, *arguments):
        """The run as JSON, also of a failed run."""
        return json.loads(self.weir("run", "--json", *arguments).stdout)

    def ask(self, method, path, body=None):
        connection = e2e.UnixHttp(self.socket)
        try:
            connection.request(method, path, json.dumps(body) if body is not None else None)
            reply = connection.getresponse()
            return reply.status, json.loads(reply.read())
        finally:
            connection.close()

    def serves(self):
        try:
            return self.ask("GET", "/v1/devices")[1]["devices"]
        except OSError:
            return False

    def wait_over(self, run):
        return e2e.wait_for(lambda: (got := self.ask("GET", f"/v1/runs/{run}?wait_ms=5000")[1])["state"]
                            in ("done", "failed") and got, f"run {run} ends")


class InAVgpu(WithAService):
    def setUp(self):
        self.node = e2e.Node("--quiet", "--modules", "kernels").start()
        self.addCleanup(self.node.close)
        self.socket = os.path.join(self.node.run_dir, "modules.sock")

    def test_the_four_applications_are_right_and_pass_the_gate(self):
        e2e.wait_for(lambda: os.path.exists(self.socket), "the service listens")
        e2e.wait_for(lambda: "no vGPU 'kernels' yet: weir vgpu create kernels" in self.node.log_text(), "it says what it waits for")
        self.assertNotIn("OpenCL", self.node.log_text())
        self.assertIn("no module is registered on this node", self.ok("list"))
        self.node.create("kernels")
        e2e.wait_for(self.serves, "the host found the vGPU")
        for module, kernel, arguments in APPLICATIONS:
            self.assertIn(kernel, self.ok("register", module, os.path.join(MODULES, module + ".so")))
        self.assertEqual(self.ok("list").count("\n"), 5)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            done = list(pool.map(lambda one: self.weir("run", one[0], one[1], "--args", one[2]), APPLICATIONS))
        for run in done:
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertIn("on device0", run.stdout)
        # Charged like any tenant's work: no code of ours measures modules.
        self.assertGreater(self.node.gpu_ns()["kernels"], 0)
        # A run's launches can be counted in a vGPU too: their times come from the gate.
        self.ask("PUT", "/v1/runs/counted", {"module": "sorting_network", "kernel": "sorting-network", "arguments": "n=1024",
                                             "measure": True})
        measured = self.wait_over("counted")["measured"]
        self.assertEqual(measured["launches"], 10 * 11 // 2)
        self.assertGreater(measured["device_ns"], 0)
        keys = [5, 1, 4, 2**32 - 1]
        with tempfile.NamedTemporaryFile() as file:
            file.write(struct.pack("<4I", *keys))
            file.flush()
            self.ok("run", "sorting_network", "sorting-network", "--input", file.name, "--output", file.name)
            with open(file.name, "rb") as written:
                self.assertEqual(list(struct.unpack("<4I", written.read())), sorted(keys))
        self.refused(70, "power of two", "run", "sorting_network", "sorting-network", "--input", e2e.WEIR)
        self.refused(70, "a whole number from", "run", "eigenvalue", "eigenvalue", "--args", "n=-3")
        self.refused(70, "unknown argument 'size=64'", "run", "eigenvalue", "eigenvalue", "--args", "n=64 size=64")
        self.ok("rm", "eigenvalue")
        self.refused(3, "no module is registered as 'eigenvalue'", "run", "eigenvalue", "eigenvalue")


class DamagedState(unittest.TestCase):
    def test_unreadable_saved_modules_are_kept_and_reported_in_the_status(self):
        node = e2e.Node("--modules", "kernels")
        self.addCleanup(node.close)
        os.makedirs(node.state_dir)
        saved = os.path.join(node.state_dir, "modules.json")
        with open(saved, "w") as text:
            text.write('{"modules": [')
        node.start()
        e2e.wait_for(lambda: [h["problem"] for h in node.get("/v1/status")["helpers"] if h["name"] == "service for modules"] != [""],
                     "the service ended")
        self.assertIn(f"mv {saved} {saved}.damaged", node.log_text())
        with open(saved) as text:
            self.assertEqual(text.read(), '{"modules": [')
        status = subprocess.run([e2e.WEIR, "--run-dir", node.run_dir, "status"], capture_output=True, text=True,
                                timeout=e2e.PATIENCE)
        self.assertRegex(status.stdout, "does not run +service for modules")


class OnTheDriver(WithAService):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="weir-e2e-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.socket = os.path.join(self.folder, "modules.sock")
        self.process = None
        self.start()
        self.addCleanup(lambda: e2e.end_all([self.process]))

    def start(self):
        self.process = subprocess.Popen(
            [SERVICE, "--direct", "--socket", self.socket, "--store", os.path.join(self.folder, "store"), "--state",
             os.path.join(self.folder, "modules.json"), "--concurrent", "4"])
        e2e.wait_for(self.serves, "the host has its context")

    def faulty(self):
        self.ok("register", "faulty", FAULTY + ".so")

    def hosts(self):
        children = subprocess.run(["pgrep", "-P", str(self.process.pid), "-f", "module-host"], capture_output=True, text=True)
        return [int(pid) for pid in children.stdout.split()]

    def host_kib(self):
        host, = self.hosts()
        with open(f"/proc/{host}/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("RssAnon"))

    def naps(self, count, ms):
        for i in range(count):
            status, run = self.ask("PUT", f"/v1/runs/nap{i}", {"module": "faulty", "kernel": "nap", "arguments": str(ms)})
            self.assertEqual((status, run["attempt"] <= 1), (202, True))
        return [f"nap{i}" for i in range(count)]

    def test_a_module_host_has_no_capabilities_no_new_privileges_and_a_filter_of_system_calls(self):
        self.faulty()
        self.naps(1, 2000)
        host = e2e.wait_for(self.hosts, "a module host runs")[0]
        with open(f"/proc/{host}/status") as status:
            fields = dict(line.rstrip("\n").split(":\t", 1) for line in status if ":\t" in line)
        self.assertEqual((fields["NoNewPrivs"], fields["Seccomp"]), ("1", "2"))
        for kind in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
            self.assertEqual(int(fields[kind], 16), 0, kind)

    def test_other_files_are_refused_as_modules_with_a_reason(self):
        text = os.path.join(self.folder, "text.so")
        with open(text, "w") as file:
            file.write("int main;")
        self.refused(2, "a module is a shared object", "register", "a", text)
        self.refused(2, "exports no weir_module_v1", "register", "a", os.path.join(e2e.BUILD, "lib/weir/libweir-opencl.so"))
        self.refused(2, "is a program", "register", "a", e2e.WEIR)
        self.refused(2, "opening it failed", "register", "a", FAULTY + "_constructor.so")
        self.refused(10, "requires CUDA", "register", "a", FAULTY + "_cuda.so")
        self.refused(3, "", "register", "a", "/nowhere.so")
        self.refused(2, "name is 1 to 64", "register", "a b", FAULTY + ".so")
        self.assertIn("no module is registered", self.ok("list"))

    def test_a_run_that_fails_says_why_and_harms_no_other(self):
        self.faulty()
        for kernel, words in (("refuse", "not in the mood"), ("mute", "failed with 5"), ("gorge", "not that much memory"),
                              ("output", "output is larger")):
            self.refused(70, words, "run", "faulty", kernel)
        self.refused(3, "no kernel 'none'", "run", "faulty", "none")
        self.refused(3, "no device 'gpu9'", "run", "faulty", "nap", "--device", "gpu9")
        self.refused(7, "the largest device has", "run", "faulty", "nap", "--memory", "9000G")
        self.assertEqual([self.run_of("faulty", "count")["text"] for _ in range(3)], ["1", "2", "3"])
        self.ok("rm", "faulty")
        self.faulty()
        # the data that the module kept was released with it
        self.assertEqual(self.run_of("faulty", "count")["text"], "1")
        before = self.host_kib()
        for _ in range(8):
            self.ok("run", "faulty", "leak")
        self.assertLess(self.host_kib() - before, 64 * 1024)  # of 128 MiB

    def test_a_crash_fails_its_own_run_and_the_others_end_right(self):
        self.faulty()
        for kernel, words in (("crash", "signal 11"), ("overflow", "signal 11"), ("leave", "exit")):
            for nap_ms in (NAP_MS, 4 * NAP_MS, 16 * NAP_MS):
                naps = self.naps(2, nap_ms)
                self.refused(70, words, "run", "faulty", kernel)
                runs = [self.wait_over(nap) for nap in naps]
                for nap, run in zip(naps, runs):
                    self.assertEqual((run["state"], run["text"]), ("done", "rested"))
                    self.assertEqual(self.ask("DELETE", f"/v1/runs/{nap}"), (200, {"removed": nap}))
                if all(run["attempt"] == 2 for run in runs):
                    break  # else they had ended before the crash, as on a busy host
            self.assertEqual([run["attempt"] for run in runs], [2, 2])

    def test_a_run_that_takes_too_long_is_ended_alone(self):
        self.faulty()
        naps = self.naps(2, 700)
        self.refused(11, "longer than its 0.4 s", "run", "faulty", "loop", "--seconds-max", "400ms")
        for nap in naps:
            self.assertEqual(self.wait_over(nap)["state"], "done")

    def test_runs_of_a_killed_host_are_repeated(self):
        self.faulty()
        naps = self.naps(6, NAP_MS)
        e2e.wait_for(lambda: self.ask("GET", "/v1/devices")[1]["devices"][0]["running"] == 4, "four run")
        os.kill(self.hosts()[0], signal.SIGKILL)
        for nap in naps:
            run = self.wait_over(nap)
            self.assertEqual(run["state"], "done", run)
            self.assertTrue(run["output"])

    def test_the_same_id_is_the_same_run(self):
        self.faulty()
        body = {"module": "faulty", "kernel": "nap", "arguments": "1"}
        for _ in range(2):
            self.assertEqual(self.ask("PUT", "/v1/runs/one", body)[0], 202)
        self.assertEqual(self.wait_over("one")["attempt"], 1)
        self.assertEqual(self.ask("PUT", "/v1/runs/one", {**body, "arguments": "2"})[0], 409)
        self.assertEqual(self.ask("PUT", "/v1/runs/two", {**body, "color": "red"})[0], 400)
        self.assertEqual(self.ask("GET", "/v1/runs/nobody")[0], 404)
        # Modules stay registered when the service is restarted; clients submit their runs again.
        self.process.kill()
        self.process.wait()
        self.start()
        self.assertEqual(self.ask("GET", "/v1/runs/one")[0], 404)
        self.assertIn("rested", self.ok("run", "faulty", "nap", "--args", "1", "--id", "one"))

    def example(self, *arguments, where=None, **environment):
        return subprocess.run([EXAMPLE, where or self.socket, *arguments], capture_output=True, text=True,
                              timeout=e2e.PATIENCE,
                              env={**os.environ, **environment})

    def test_a_c_program_runs_kernels_by_the_client_library(self):
        done = self.example("mine", FAULTY + ".so", "nap", "50", "6")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("kernel nap of mine\n", done.stdout)
        self.assertEqual(done.stdout.count("rested on device0, attempt 1"), 6, done.stdout)
        self.assertEqual(self.ask("GET", "/v1/runs")[1]["runs"], [], "all are forgotten")
        # A failed run and a failed call give a reason, and the numbers of `weir`'s exit codes.
        for arguments, code, words in (
                (("mine", FAULTY + ".so", "refuse", "", "1"), 70, "not in the mood"),
                (("mine", FAULTY + ".so", "none", "", "1"), 3, "no kernel 'none'"),
                (("mine", FAULTY + "_cuda.so", "nap", "", "1"), 10, "requires CUDA"),
                (("a b", FAULTY + ".so", "nap", "", "1"), 2, "name is 1 to 64")):
            done = self.example(*arguments)
            self.assertEqual((done.returncode, words in done.stderr), (code, True), done.stderr)
        done = self.example("mine", FAULTY + ".so", "nap", "", "1", where="nowhere")
        self.assertEqual((done.returncode, "HOST:PORT" in done.stderr), (2, True), done.stderr)
        # A restarted service has lost the run, and gets it once more.
        with subprocess.Popen([EXAMPLE, self.socket, "mine", FAULTY + ".so", "nap", "1500", "1"], stdout=subprocess.PIPE,
                              text=True) as waits:
            e2e.wait_for(lambda: self.ask("GET", "/v1/runs")[1]["runs"], "its run is here")
            self.process.kill()
            self.process.wait()
            self.start()
            self.assertIn("rested on device0", waits.communicate(timeout=e2e.PATIENCE)[0])
            self.assertEqual(waits.returncode, 0)

    def test_wrong_usage(self):
        for arguments, words in ((["--socket", "/x"], "--direct"), (["--direct", "--concurrent", "0"], "--concurrent"),
                                 (["--direct", "--capacity", "1,2"], "--capacity"),
                                 (["--direct", "--placement", "chess"], "chess"), (["--direct", "x"], "unexpected argument 'x'"),
                                 (["--direct", "--chess"], "unknown option '--chess'")):
            done = subprocess.run([SERVICE, *arguments], capture_output=True, text=True, timeout=e2e.PATIENCE)
            self.assertIn(done.returncode, (2, 3), done.stderr)
            self.assertIn(words, done.stderr)
        done = subprocess.run([e2e.WEIR, "module", "list", "--manager", "nowhere"], capture_output=True, text=True,
                              timeout=e2e.PATIENCE)
        self.assertEqual((done.returncode, "HOST:PORT" in done.stderr), (2, True), done.stderr)
        self.refused(2, "excludes", "list", "--manager", "a:1")


if __name__ == "__main__":
    unittest.main(verbosity=2)
