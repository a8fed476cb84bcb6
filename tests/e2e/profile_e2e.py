# SPDX-License-Identifier: Apache-2.0
"""`weir profile` on parts of this machine's processor, with kernels that sleep, that compute and that misbehave; and
runs and simulations that use its measurements. Durations are not asserted, except that a kernel that
sleeps takes no less.
"""
import json
import os
import signal
import subprocess
import tempfile
import unittest

import weir_e2e as e2e
from modules_e2e import FAULTY, MODULES, SERVICE, WithAService

FAILING = ("crash", "overflow", "leave", "loop", "refuse", "mute", "gorge", "output")


class Profiles(WithAService):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="weir-e2e-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.socket = os.path.join(self.folder, "modules.sock")
        service = subprocess.Popen([SERVICE, "--direct", "--sub-devices", "1", "--socket", self.socket, "--store",
                                    os.path.join(self.folder, "store"), "--capacity", "8,10000,1024,8"])
        self.addCleanup(lambda: e2e.end_all([service]))
        e2e.wait_for(self.serves, "a host has its context")
        self.ok("register", "faulty", FAULTY + ".so")

    def profile(self, *arguments):
        return subprocess.run([e2e.WEIR, "profile", "--modules-socket", self.socket, *arguments], capture_output=True, text=True,
                              timeout=e2e.PATIENCE)

    def profiled(self, *arguments):
        done = self.profile("--json", *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.ask("GET", "/v1/runs")[1]["runs"], [], "all are forgotten")
        return json.loads(done.stdout), done.stderr

    def cannot(self, status, words, *arguments):
        done = self.profile(*arguments)
        self.assertEqual((done.returncode, words in done.stderr), (status, True), done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertEqual(self.ask("GET", "/v1/runs")[1]["runs"], [], "all are forgotten")

    def test_measurements_are_learned_and_used_by_placement_and_simulation(self):
        self.ok("register", "sort", os.path.join(MODULES, "sorting_network.so"))
        file = os.path.join(self.folder, "lab.profile")
        # Long beside the time until a busy host has started a run again, in which the other kernel of a pair is alone.
        naps, sort = ["faulty/nap 800", "faulty/nap 1200"], "sort/sorting-network n=262144"
        report, said = self.profiled(*naps, sort, "--rounds", "2", "--output", file)
        kernels, pairs = report["kernels"], report["pairs"]
        self.assertEqual([f"{one['module']}/{one['kernel']} {one['arguments']}" for one in kernels],
                         [*naps, sort])
        self.assertEqual([(one["first"], one["second"]) for one in pairs], [(0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)])
        self.assertEqual(said.count(" alone: "), 3, said)
        self.assertEqual(said.count(" times alone"), 6, said)
        # No sleeping kernel wakes early, and a pair has no other company.
        self.assertGreaterEqual(kernels[0]["need"]["alone_s"], 0.8)
        self.assertGreaterEqual(pairs[1]["first_s"], 0.8)
        self.assertGreaterEqual(pairs[1]["second_s"], 1.2)
        for pair in pairs:
            print(f"{pair['first']} beside {pair['second']}: {pair['first_beside']:.3f}, {pair['second_beside']:.3f}")
            self.assertLessEqual(pair["first_beside"], 1.1)
            self.assertGreaterEqual(pair["first_beside"], 0.5)
        # Each pair consists of runs beside one another whose times alone are known: the node's placement has learned
        # from them.
        self.assertGreater(self.ask("GET", "/v1/devices")[1]["interference"]["observations"], 20)

        with open(file) as written:
            self.assertEqual(json.load(written)["kernels"], kernels)
        shown = self.profile("--read", file)
        self.assertIn("BESIDE 3", shown.stdout)
        self.assertIn("weights: ", shown.stdout)
        scenario = os.path.join(self.folder, "lab.toml")
        with open(scenario, "w") as out:
            out.write(self.profile("--read", file, "--scenario").stdout)
        played = subprocess.run([e2e.WEIR, "sim", "run", scenario], capture_output=True, text=True, timeout=e2e.PATIENCE)
        self.assertEqual(played.returncode, 0, played.stdout + played.stderr)
        self.assertIn("interference-aware", played.stdout)

        before = self.ask("GET", "/v1/devices")[1]["interference"]["observations"]
        self.ok("run", "faulty", "nap", "--args", "800", "--profile", file)
        self.assertGreater(self.ask("GET", "/v1/devices")[1]["interference"]["observations"], before)
        self.refused(3, "it has arguments '800', '1200'", "run", "faulty", "nap", "--args", "31", "--profile", file)
        self.refused(3, "nothing of that kernel", "run", "faulty", "count", "--profile", file)
        self.refused(3, "without input", "run", "sort", "sorting-network", "--args", "n=16384", "--input", file,
                     "--profile", file)
        self.ok("register", "faulty", os.path.join(MODULES, "sorting_network.so"))
        self.refused(10, "differs from the measured one", "run", "faulty", "nap", "--args", "800", "--profile", file)

    def test_loads_are_counted_launch_by_launch(self):
        for module in ("sorting_network", "binomial_options"):
            self.ok("register", module, os.path.join(MODULES, module + ".so"))

        def run(name, **body):
            self.assertEqual(self.ask("PUT", f"/v1/runs/{name}", body)[0], 202)
            over = self.wait_over(name)
            self.assertEqual(over["state"], "done", over)
            return over

        sort = {"module": "sorting_network", "kernel": "sorting-network", "arguments": "n=16384"}
        measured = run("a", **sort, measure=True)["measured"]
        # One launch for each of the network's stages, each with all 8,192 pairs, on a device with 1,024 threads.
        self.assertEqual(measured["launches"], 14 * 15 // 2)
        self.assertGreater(measured["device_ns"], 0)
        self.assertTrue(0 < measured["threads"] <= 1024 and 0 < measured["blocks"] <= 8, measured)
        self.assertGreater(measured["traffic"], 0)
        self.assertEqual(measured["local_memory"], 0)
        binomial = run("b", module="binomial_options", kernel="binomial-options", arguments="n=64 steps=128", measure=True)
        self.assertTrue(0 < binomial["measured"]["local_memory"] <= 8, binomial)
        self.assertNotIn("measured", run("c", **sort))
        self.assertNotIn("measured", run("d", module="faulty", kernel="nap", measure=True), "it launches nothing")
        self.assertEqual(self.ask("PUT", "/v1/runs/e", {**sort, "measure": 1})[0], 400)
        for name in "abcd":
            self.ask("DELETE", f"/v1/runs/{name}")
        report, _ = self.profiled("sorting_network/sorting-network n=16384", "faulty/nap 20", "--rounds", "1")
        self.assertEqual([one["loads"] for one in report["kernels"]], ["measured", "declared"])
        report, _ = self.profiled("sorting_network/sorting-network n=16384", "--rounds", "1", "--declared")
        self.assertEqual([one["loads"] for one in report["kernels"]], ["declared"])
        self.assertEqual(report["kernels"][0]["need"]["threads"], 0)

    def test_refuses_what_it_cannot_measure_with_a_reason(self):
        self.cannot(2, "is not MODULE/KERNEL", "nap")
        self.cannot(2, "name kernels, or give --all, or --read FILE")
        self.cannot(2, "is named twice", "faulty/nap 1", "faulty/nap 1")
        self.cannot(3, "no kernel 'none/nap' is registered; known: faulty/crash,", "none/nap")
        self.cannot(3, "no kernel 'faulty/none' is registered", "faulty/none")
        self.cannot(3, "no device 'gpu9' here; known: device0", "faulty/nap", "--device", "gpu9")
        self.cannot(70, "'faulty/refuse' alone: it is not in the mood", "faulty/refuse")
        self.cannot(70, "'faulty/crash' alone: its module crashed (signal 11)", "faulty/crash")
        self.cannot(11, "longer than its 0.3 s", "faulty/loop", "--seconds-max", "300ms")
        # Longer than a busy host needs to start it and to look at it.
        status, _ = self.ask("PUT", "/v1/runs/other", {"module": "faulty", "kernel": "nap", "arguments": "600000",
                                                       "device": "device0"})
        self.assertEqual(status, 202)

        def other_runs():
            other = self.ask("GET", "/v1/runs/other")[1]
            self.assertNotIn(other["state"], ("done", "failed"), other)
            # A device is missing while the host of a module that crashed is started again.
            devices = self.ask("GET", "/v1/devices")[1]["devices"]
            return {one["name"]: one["running"] for one in devices}.get("device0") == 1
        e2e.wait_for(other_runs, "another client's runs")
        done = self.profile("faulty/nap 1", "--device", "device0")
        self.assertEqual((done.returncode, "other runs are on device0 now" in done.stderr), (5, True), done.stderr)
        self.ask("DELETE", "/v1/runs/other")
        for text, code, words in (('{"weir_profile": 1, "dev', 2, "is incomplete"), ("{}", 2, "is not a profile"),
                                  ('{"weir_profile": 9}', 10, "version 9, and this Weir reads version 1")):
            file = os.path.join(self.folder, "none.profile")
            with open(file, "w") as out:
                out.write(text)
            self.cannot(code, words, "--read", file)
            self.refused(code, words, "run", "faulty", "nap", "--profile", file)
        self.cannot(3, "", "--read", "/nowhere")
        self.socket = os.path.join(self.folder, "none.sock")
        self.assertEqual(self.profile("faulty/nap").returncode, 8)

    def test_of_all_kernels_those_that_fail_are_left_out(self):
        # One of them never ends. The others end at once, but on a busy host that may take seconds.
        report, _ = self.profiled("--all", "--rounds", "1", "--seconds-max", "8s")
        self.assertEqual([one["kernel"] for one in report["kernels"]], ["nap", "leak", "count"])
        for kernel in FAILING:
            self.assertTrue(any(f"'faulty/{kernel}' alone: " in words for words in report["left_out"]), kernel)

    def test_an_interruption_removes_its_runs(self):
        with subprocess.Popen([e2e.WEIR, "profile", "--modules-socket", self.socket, "faulty/nap 20000"],
                              stderr=subprocess.PIPE, text=True) as profile:
            e2e.wait_for(lambda: self.ask("GET", "/v1/runs")[1]["runs"], "its first run")
            profile.send_signal(signal.SIGINT)
            self.assertIn("interrupted", profile.communicate(timeout=e2e.PATIENCE)[1])
            self.assertEqual(profile.returncode, 130)
        self.assertEqual(self.ask("GET", "/v1/runs")[1]["runs"], [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
