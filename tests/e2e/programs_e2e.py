# SPDX-License-Identifier: Apache-2.0
"""Real programs of every kind, one after the other: each is attached, metered and counted in all its windows and
processes, and ends as it does without Weir. pacing_e2e.py tests that each keeps to its rate."""
import os
import subprocess
import time
import unittest

import weir_e2e as e2e

WINDOWS = os.path.join(e2e.BUILD, "bin/weir_windows")
MANGOHUD = "/usr/lib/x86_64-linux-gnu/mangohud"

class Programs(e2e.WithNode):
    RENDERER = "llvmpipe"
    # the CPU time of llvmpipe's workers; a program whose drawing never reaches a worker may have another meter
    METER = "worker-cpu-time"

    @classmethod
    def make_node(cls):
        return e2e.Node()

    @classmethod
    def setUpClass(cls):
        # One daemon and one X server for all tests, because starting them takes longer than most tests.
        cls.node = cls.make_node().start()
        cls.addClassCleanup(cls.node.close)
        cls.display = e2e.shared_display()

    def setUp(self):
        self.tenants = e2e.Tenants(self.display)
        self.addCleanup(self.tenants.close)
        self.vgpu = self._testMethodName[len("test_"):][:40].replace("_", "-")
        self.node.create(self.vgpu)

    def environment(self, more=None):
        return {**os.environ, **self.display.environment, **self.node.environment(self.vgpu), **(more or {})}

    def launch(self, command, more=None):
        return self.tenants.start(command, {**self.node.environment(self.vgpu), **(more or {})})

    def run_to_end(self, command, more=None, seconds=e2e.PATIENCE):
        return subprocess.run(command, capture_output=True, text=True, timeout=seconds, env=self.environment(more))

    def without_weir(self, command, more=None):
        return subprocess.run(command, capture_output=True, text=True, timeout=e2e.PATIENCE,
                              env={**os.environ, **self.display.environment, **(more or {})})

    def totals(self):
        return self.node.vgpu(self.vgpu)["totals"]

    def processes(self):
        return self.node.vgpu(self.vgpu)["processes"]

    def wait_gone(self):
        e2e.wait_for(lambda: not self.processes(), "nothing of it is attached")

    def check_running(self, programs=1, meter=None, seconds=e2e.PATIENCE):
        """Waits for frames from the expected number of processes, with the expected meter; returns the processes."""
        try:
            self.wait_frames(self.vgpu, 10, seconds)
        except AssertionError as late:
            states = [(p.args, p.poll()) for p in self.tenants.processes]
            raise AssertionError(f"{late}; {states}; {self.node.get('/v1/vgpus')}; {self.node.log_text()[-500:]}") from late
        def described():  # a process reports its renderer when its first frame is measured
            there = self.processes()
            return there if len(there) == programs and all(process["renderer"] for process in there) else None
        processes = e2e.wait_for(described, f"{programs} attached processes that say what they draw with")
        for process in processes:
            self.assertIn(self.RENDERER, process["renderer"], process)
            self.assertIn(process["meter"], meter or (self.METER,), process)
        totals = self.totals()
        self.assertGreater(totals["gpu_ns"], 0)
        self.assertEqual((totals["records_bad"], totals["samples_bad"], totals["fail_opens"]), (0, 0, 0))
        return processes

    def start_one(self, command, more=None):
        """Starts a program that is one process, and waits for its frames."""
        program = self.launch(command, more)
        self.assertEqual([p["pid"] for p in self.check_running()], [program.pid])
        return program


class Packaged(Programs):
    def test_glmark2_on_glx_ends_normally(self):
        done = self.run_to_end(["glmark2", "-b", "build:duration=1", "-s", "200x200"])
        self.assertEqual((done.returncode, "glmark2 Score" in done.stdout, done.stderr.count("\n")), (0, True, 1))
        self.assertGreater(self.totals()["frames"], 10)

    def test_glmark2_on_egl_ends_normally(self):
        done = self.run_to_end(["glmark2-es2", "-b", "build:duration=1", "-s", "200x200"])
        self.assertEqual((done.returncode, "glmark2 Score" in done.stdout, done.stderr.count("\n")), (0, True, 1))
        self.assertGreater(self.totals()["frames"], 10)


class Windows(Programs):
    FRAMES = 60

    def check_all_frames(self, windows, *arguments):
        command = [WINDOWS, "--windows", str(windows), "--frames", str(self.FRAMES), *arguments]
        plain, done = self.without_weir(command), self.run_to_end(command)
        self.assertEqual(plain.returncode, 0, plain.stderr)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (plain.returncode, plain.stdout, plain.stderr))
        shown = int(done.stdout.split()[1])
        self.assertEqual(shown, windows * self.FRAMES)
        self.wait_gone()
        return shown

    def test_one_window(self):
        self.assertEqual(self.totals()["frames"], 0)
        shown = self.check_all_frames(1)
        self.assertEqual(self.totals()["frames"], shown)

    def test_two_windows_in_one_thread(self):
        shown = self.check_all_frames(2)
        self.assertEqual(self.totals()["frames"], shown)

    def test_two_windows_in_two_threads(self):
        shown = self.check_all_frames(2, "--threads")
        self.assertEqual(self.totals()["frames"], shown)

    def test_single_buffered(self):
        shown = self.check_all_frames(1, "--single", "--interval-ms", "5")
        self.assertEqual(self.totals()["frames"], shown)

    def test_two_single_buffered_windows(self):
        shown = self.check_all_frames(2, "--single", "--interval-ms", "5")
        self.assertEqual(self.totals()["frames"], shown)

class Starts(Programs):
    def test_a_launcher(self):
        program = self.launch(["sh", "-c", "env WEIR_E2E=1 nice -n 1 glxgears; exit 0"])
        self.assertNotEqual([p["pid"] for p in self.check_running()], [program.pid])

    def test_a_launcher_that_becomes_the_program(self):
        program = self.launch(["sh", "-c", f"exec env {WINDOWS} --frames 0"])
        self.assertEqual([p["pid"] for p in self.check_running()], [program.pid])

    def test_a_program_and_its_child(self):
        self.launch(["sh", "-c", f"{WINDOWS} --frames 0 & exec {WINDOWS} --frames 0"])
        self.check_running(programs=2)

    def test_weir_run(self):
        program = self.tenants.start([e2e.WEIR, "--run-dir", self.node.run_dir, "run", "--vgpu", self.vgpu, "--",
                                      "sh", "-c", f"{WINDOWS} --frames 0; exit 5"])
        self.check_running()
        subprocess.run(["kill", "-TERM", *[str(p["pid"]) for p in self.processes()]], check=True)
        self.assertEqual(program.wait(e2e.PATIENCE), 5)
        self.wait_gone()


class Ends(Programs):
    def check(self, term, status):
        for preloaded in (False, True):
            program = self.tenants.start([WINDOWS, "--frames", "0", "--term", term],
                                         self.node.environment(self.vgpu) if preloaded else None,
                                         stdout=subprocess.PIPE, text=True)
            if preloaded:
                self.check_running()
            else:
                e2e.wait_for(lambda p=program: e2e.worker_seconds(p.pid) > 0, "it draws")
            program.terminate()
            out, _ = program.communicate(timeout=e2e.PATIENCE)
            self.assertEqual((program.returncode, "frames" in out), (status, status == 0), f"preloaded: {preloaded}")
        self.wait_gone()

    def test_by_a_handler_that_lets_it_end(self):
        self.check("clean", 0)

    def test_by_a_handler_that_exits(self):
        self.check("_exit", 9)

    def test_while_it_waits_at_the_gate(self):
        program = self.launch([WINDOWS, "--frames", "0", "--term", "_exit"])
        self.check_running()
        self.assertEqual(self.node.call("POST", f"/v1/vgpus/{self.vgpu}/pause")[0], 200)
        e2e.wait_for(lambda: self.node.vgpu(self.vgpu)["window"]["frames"] == 0, "it waits")
        program.terminate()
        self.assertEqual(program.wait(e2e.PATIENCE), 9)
        self.wait_gone()


@unittest.skipUnless(os.path.exists(os.path.join(MANGOHUD, "libMangoHud_dlsym.so")),
                     "MangoHud is not installed; scripts/install-deps --test brings it")
class BesideMangoHud(Programs):
    """Another library that hooks the same names. It finds the driver's functions past all other libraries, so the shim
    catches presents only if it precedes that library; after it, the program still works."""

    LIMIT = 40

    def run_beside(self, preload, command):
        more = {"MANGOHUD": "1", "MANGOHUD_CONFIG": f"fps_limit={self.LIMIT},no_display"}
        start = time.monotonic()
        done = self.run_to_end(command, {**more, "LD_PRELOAD": ":".join(preload)})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.wait_gone()
        frames = self.totals()["frames"]
        print(f"{self.vgpu}: {frames} frames in {time.monotonic() - start:.1f} s")
        return frames

    def theirs(self, *names):
        return [os.path.join(MANGOHUD, f"lib{name}.so") for name in names]

    def test_a_linked_program(self):
        self.assertEqual(self.run_beside([e2e.PRELOAD, *self.theirs("MangoHud")], [WINDOWS, "--frames", "40"]), 40)

    def test_a_linked_program_with_us_last(self):
        self.run_beside([*self.theirs("MangoHud"), e2e.PRELOAD], [WINDOWS, "--frames", "40"])

    def test_its_launcher_around_ours(self):
        environment = {k: v for k, v in self.environment().items() if k not in ("LD_PRELOAD", "WEIR_ATTACH")}
        done = subprocess.run(["mangohud", e2e.WEIR, "--run-dir", self.node.run_dir, "run", "--vgpu", self.vgpu, "--",
                               WINDOWS, "--frames", "40"], capture_output=True, text=True, timeout=e2e.PATIENCE,
                              env={**environment, "MANGOHUD_CONFIG": "no_display"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.wait_gone()
        self.assertEqual(self.totals()["frames"], 40)

    GLMARK2 = ["glmark2", "-b", "build:duration=1", "-s", "200x200"]

    def test_a_program_that_uses_dlsym(self):
        frames = self.run_beside([e2e.PRELOAD, *self.theirs("MangoHud_dlsym", "MangoHud")], self.GLMARK2)
        self.assertGreater(frames, 10)
        self.assertLess(frames, 5 * self.LIMIT, "MangoHud's own limit holds too")

    def test_a_program_that_uses_dlsym_with_us_last(self):
        self.run_beside([*self.theirs("MangoHud_dlsym", "MangoHud"), e2e.PRELOAD], self.GLMARK2)


if __name__ == "__main__":
    e2e.main()
