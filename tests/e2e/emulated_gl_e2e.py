#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The emulated GL driver under real, unmodified programs: with the model in the program's process (model_gl_port.cc), and with
weir-emulated-gpu, which several programs share.

Every assertion is one that a busy host cannot violate: nothing is faster than the model allows, the device's clock is
exact, and the ground truth adds up.
"""
import json
import os
import re
import subprocess
import tempfile
import time
import unittest

import emulated
from weir_e2e import BUILD, PATIENCE, Node, Tenants, main, shared_display, wait_for

LIBRARIES = os.path.join(BUILD, "lib/test/model")
TIMING = os.path.join(BUILD, "bin/weir_gl_timing")
WINDOWS = os.path.join(BUILD, "bin/weir_windows")
FRAME_NS = 4_000_000
REFRESH = 60
UNDER_WAY = 3  # the frames that a program can be ahead of the device: two when a swap returns, and one that is drawn


class WithDriver(unittest.TestCase):
    def setUp(self):
        self.display = shared_display()
        self.folder = tempfile.TemporaryDirectory(prefix="weir-gl-")
        self.addCleanup(self.folder.cleanup)
        self.truth_path = os.path.join(self.folder.name, "truth")

    def environment(self, frame_ns=FRAME_NS, **more):
        cost = {"WEIR_MODEL_FRAME_US": str(frame_ns // 1000)} if frame_ns else {}
        return {"LD_LIBRARY_PATH": LIBRARIES, "__GLX_VENDOR_LIBRARY_NAME": "weiremulated",
                "__EGL_VENDOR_LIBRARY_FILENAMES": os.path.join(LIBRARIES, "weiremulated.json"),
                "WEIR_MODEL_TRUTH": self.truth_path, **cost, **more}

    def run_program(self, command, environment, **display):
        done = subprocess.run(command, env={**os.environ, **self.display.environment, **display, **environment},
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=PATIENCE)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def timing(self, *arguments, vblank_mode="0", **environment):
        return json.loads(self.run_program([TIMING, *arguments], self.environment(**environment), vblank_mode=vblank_mode))

    def truth(self):
        with open(self.truth_path) as truth:
            return [int(n) for n in truth.read().split()]


class Time(WithDriver):
    def check_times(self, said):
        self.assertEqual(said["renderer"], "Model (emulated)")
        self.assertGreaterEqual(said["fence_min"], FRAME_NS, "a fence never signals early")
        self.assertGreaterEqual(said["finish_min"], FRAME_NS, "glFinish never returns early")
        self.assertEqual(said["unsignaled_after_wait"], 0)
        self.assertEqual(said["elapsed"], [FRAME_NS, FRAME_NS], "GL_TIME_ELAPSED of a device that is not shared")
        self.assertEqual(said["span"], [FRAME_NS, FRAME_NS], "GL_TIMESTAMP")
        self.assertGreaterEqual(said["swap_seconds"], said["frames"] * FRAME_NS / 1e9, "frames/s never exceed the model's")

    def test_times_are_the_models(self):
        self.check_times(self.timing())

    def test_times_are_the_models_when_nothing_is_drawn(self):
        self.check_times(self.timing(WEIR_MODEL_DRAWN="0"))

    def test_a_program_with_a_swap_interval_never_exceeds_the_refresh(self):
        for interval in (1, 2):
            said = self.timing("--frames", "30", "--interval", str(interval), vblank_mode="1")
            self.assertGreaterEqual(said["swap_seconds"], (30 - UNDER_WAY - 1) * interval / REFRESH)

    def test_the_variable_for_no_interval_is_honoured(self):
        # With an interval of sixteen blanks the frames would take longer than the program is waited for.
        frames = int((PATIENCE + 10) * REFRESH / 16) + UNDER_WAY + 1
        said = self.timing("--frames", str(frames), "--interval", "16", frame_ns=100_000, vblank_mode="0")
        self.assertEqual(said["frames"], frames)

    def test_a_measured_cost_has_measured_times(self):
        said = self.timing(frame_ns=0)
        self.assertGreater(said["elapsed"][0], 0)
        self.assertGreater(said["span"][0], 0)


class GroundTruth(WithDriver):
    def test_busy_time_is_the_frames_times_their_cost(self):
        for threads in ((), ("--threads",)):
            said = self.run_program([WINDOWS, "--windows", "2", "--frames", "25", *threads], self.environment())
            self.assertEqual(said.split()[-1], "50")
            commands, busy_ns = self.truth()
            # Frames that were in flight at the program's end are not complete.
            self.assertLessEqual(commands, 50)
            self.assertGreaterEqual(commands, 50 - 2 * UNDER_WAY)
            self.assertGreaterEqual(busy_ns, commands * FRAME_NS)
            self.assertLess(busy_ns, (commands + 1) * FRAME_NS)

    def test_glmark2_draws_at_most_what_the_model_allows(self):
        for program in ("glmark2", "glmark2-es2"):
            said = self.run_program([program, "-b", "build:duration=2", "-s", "320x240"],
                                    self.environment(WEIR_MODEL_DRAWN="0"))
            self.assertIn("Model (emulated)", said)
            fps = int(re.search(r"FPS: (\d+)", said).group(1))
            self.assertGreater(fps, 0)
            self.assertLessEqual(fps, 1e9 / FRAME_NS + UNDER_WAY)


class Shim(WithDriver):
    """Weir's GL shim treats the driver as a GPU: it charges timestamps, which are the ground truth."""

    def test_charges_are_the_models(self):
        # The shim compares the timestamps of its first frames with the duration of glFinish. If the host delayed the
        # program by seven frames, the shim would reject the timestamps; therefore frames are long here. Beside other
        # work of the host the first frames were charged too much once, so the time after the first pause is compared.
        # The program runs promptly: beside five other tests one of its pauses was charged with nine frames, too.
        if emulated.run_promptly(True):
            self.addCleanup(emulated.run_promptly, False)
        frame_ns = 100_000_000
        node = Node().start()
        self.addCleanup(node.close)
        node.create("emulated")
        tenants = Tenants(self.display)
        self.addCleanup(tenants.close)
        program = tenants.start(["glmark2", "-b", "build:duration=600", "-s", "320x240"],
                                {**self.environment(frame_ns), **node.environment("emulated")})

        def at(frames):
            """The totals when the program is held at a frame after this one."""
            wait_for(lambda: node.vgpu("emulated")["totals"]["frames"] > frames, "frames")
            # The daemon counts frames a little later than it charges them. A program that is killed is also charged for
            # the time since its last report (docs/accounting.md), so it is held at its next frame instead.
            self.assertEqual(node.call("POST", "/v1/vgpus/emulated/pause")[0], 200)
            seen = []

            def nothing_changes():
                totals = node.vgpu("emulated")["totals"]
                seen.append((totals["frames"], totals["gpu_ns"]))
                time.sleep(0.5)
                return len(seen) > 1 and seen[-1] == seen[-2]

            wait_for(nothing_changes, "its frames have ended")
            return node.vgpu("emulated")["totals"]

        first = at(10)
        process = node.vgpu("emulated")["processes"][0]
        self.assertEqual(process["renderer"], "Model (emulated)")
        self.assertEqual(process["meter"], "timer-query")
        self.assertEqual(node.call("POST", "/v1/vgpus/emulated/resume")[0], 200)
        last = at(first["frames"] + 40)
        tenants.stop(program)
        frames = last["frames"] - first["frames"]
        charged = (last["gpu_ns"] - first["gpu_ns"]) / frame_ns
        # At each pause, the timestamps of at most eight frames, and of the one that is being drawn, are not read yet.
        self.assertLessEqual(abs(charged - frames), 9, f"{charged} frames charged, {frames} drawn")


EMULATOR = os.path.join(BUILD, "bin/weir-emulated-gpu")
DRIVERS = os.path.join(BUILD, "lib/weir/emulated")


class WithEmulator(unittest.TestCase):
    def setUp(self):
        self.display = shared_display()
        self.folder = tempfile.TemporaryDirectory(prefix="weir-emulator-")
        self.addCleanup(self.folder.cleanup)
        self.socket = os.path.join(self.folder.name, "gpu.sock")
        self.processes = []
        self.addCleanup(self.end_all)

    def end_all(self):
        for process in self.processes:
            process.kill()
            process.communicate()

    def start(self, command, environment=None):
        process = subprocess.Popen(command, env={**os.environ, **(environment or {})}, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        self.processes.append(process)
        return process

    def emulate(self, text):
        path = os.path.join(self.folder.name, "devices.toml")
        with open(path, "w") as file:
            file.write(text + f'\n[[program]]\nname = "*"\nframe = "{FRAME_NS // 1000} us"\ndrawn = false\n')
        emulator = self.start([EMULATOR, "--devices", path, "--socket", self.socket])
        # The socket exists a moment before it accepts connections.
        asks = [EMULATOR, "stats", "--socket", self.socket, "--json"]
        wait_for(lambda: subprocess.run(asks, capture_output=True, timeout=PATIENCE).returncode == 0,
                 "the emulator answers")
        return emulator

    def environment(self, device=0):
        return {**self.display.environment, "LD_LIBRARY_PATH": DRIVERS, "__GLX_VENDOR_LIBRARY_NAME": "weiremulated",
                "__EGL_VENDOR_LIBRARY_FILENAMES": os.path.join(DRIVERS, "weiremulated.json"), "vblank_mode": "0",
                "WEIR_EMULATOR_SOCKET": self.socket, "WEIR_EMULATED_DEVICE": str(device)}

    def accounts(self):
        said = subprocess.run([EMULATOR, "stats", "--socket", self.socket, "--json"], capture_output=True, text=True,
                              timeout=PATIENCE)
        self.assertEqual(said.returncode, 0, said.stderr)
        accounts = json.loads(said.stdout)
        self.assertTrue(accounts["emulated"])
        return accounts

    def ended(self, process):
        out, err = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 0, err)
        return out, err


class Emulator(WithEmulator):
    def test_two_programs_share_a_card(self):
        self.emulate('[[device]]\nname = "Card"\narbitration = "fifo"')
        began = time.monotonic()
        programs = [self.start([TIMING, "--frames", "40"], self.environment()) for _ in range(2)]
        said = [json.loads(self.ended(program)[0]) for program in programs]
        took_ns = (time.monotonic() - began) * 1e9
        for one in said:
            self.assertEqual(one["renderer"], "Card (emulated)")
            self.assertGreaterEqual(one["fence_min"], FRAME_NS, "a fence never signals early")
            self.assertGreaterEqual(one["finish_min"], FRAME_NS, "glFinish never returns early")
            self.assertEqual(one["elapsed"], [FRAME_NS, FRAME_NS], "first come first served: no turns of others inside")
        busy_ns = self.accounts()["devices"][0]["busy_ns"]["compute"]
        self.assertGreaterEqual(busy_ns, 2 * 40 * FRAME_NS)
        self.assertLessEqual(busy_ns, took_ns, "one engine is busy for no longer than time has passed")

    def test_programs_on_two_cards_do_not_wait_for_each_other(self):
        self.emulate('[[device]]\ncount = 2')
        programs = [self.start([WINDOWS, "--windows", "1", "--frames", "50"], self.environment(card)) for card in (0, 1)]
        for program in programs:
            self.ended(program)
        for device in self.accounts()["devices"]:
            self.assertGreaterEqual(device["busy_ns"]["compute"], (50 - UNDER_WAY) * FRAME_NS)

    def test_a_killed_program_gives_back_the_card(self):
        self.emulate("[[device]]")
        glmark2 = self.start(["glmark2", "-b", "build:duration=600", "-s", "320x240"], self.environment())
        wait_for(lambda: self.accounts()["devices"][0]["clients"], "glmark2 draws")
        account = self.accounts()["devices"][0]["clients"][0]
        self.assertEqual((account["pid"], account["program"]), (glmark2.pid, "glmark2"))
        glmark2.kill()
        wait_for(lambda: not self.accounts()["devices"][0]["clients"], "it has left")
        self.ended(self.start([WINDOWS, "--windows", "1", "--frames", "10"], self.environment()))

    def test_a_program_continues_after_the_emulators_end(self):
        emulator = self.emulate("[[device]]")
        program = self.start([WINDOWS, "--windows", "1", "--frames", "2000"], self.environment())
        wait_for(lambda: self.accounts()["devices"][0]["clients"], "it draws")
        emulator.kill()
        _, err = self.ended(program)
        self.assertEqual(err.count("the emulated GPU is gone"), 1, err)

    def test_a_malformed_description_is_refused_with_its_place(self):
        path = os.path.join(self.folder.name, "bad.toml")
        with open(path, "w") as file:
            file.write('[[device]]\nmemory = "8 GB"\n')
        said = subprocess.run([EMULATOR, "--devices", path, "--socket", self.socket], capture_output=True, text=True,
                              timeout=PATIENCE)
        self.assertEqual(said.returncode, 2)
        self.assertIn(f"{path}:2:10: 'memory' is not a size such as \"8 GiB\"", said.stderr)
        said = subprocess.run([EMULATOR, "check", "nothing"], capture_output=True, text=True, timeout=PATIENCE)
        self.assertNotEqual(said.returncode, 0)
        self.assertIn("no device description 'nothing'", said.stderr)

    def test_ready_descriptions_are_good(self):
        for name, count in (("one-small-card", 1), ("one-card-of-18-slots", 1), ("four-cards", 4), ("four-concurrent-cards", 4),
                            ("two-unlike-cards", 2)):
            said = subprocess.run([EMULATOR, "check", name], capture_output=True, text=True, timeout=PATIENCE)
            self.assertEqual((said.returncode, len(said.stdout.splitlines())), (0, count), said.stderr)


if __name__ == "__main__":
    main()
