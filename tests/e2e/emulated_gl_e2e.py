#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The emulated GL driver under real, unmodified programs; the model is in the program's process (model_gl_port.cc).

Every assertion is one that a busy host cannot violate: nothing is faster than the model allows, the device's clock is
exact, and the ground truth adds up.
"""
import json
import os
import re
import subprocess
import tempfile
import unittest

from weir_e2e import BUILD, Display, Node, Tenants, main, wait_for

LIBRARIES = os.path.join(BUILD, "lib/test/model")
TIMING = os.path.join(BUILD, "bin/weir_gl_timing")
WINDOWS = os.path.join(BUILD, "bin/weir_windows")
FRAME_NS = 4_000_000
REFRESH = 60
UNDER_WAY = 3  # frames that a program can be ahead of the device: two when a swap returns, and one to draw


class WithDriver(unittest.TestCase):
    def setUp(self):
        self.display = Display()
        self.addCleanup(self.display.close)
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
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)
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
        # 60 frames of 0.1 ms at 60 Hz would take a second; a busy host may be slow, so the model's own time is compared.
        said = self.timing("--frames", "60", "--interval", "16", frame_ns=100_000, vblank_mode="0")
        self.assertLess(said["swap_seconds"], (60 - UNDER_WAY - 1) * 16 / REFRESH)

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
            # Those that were under way when the program ended are not complete.
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
    """Weir's GL shim takes the driver for a GPU: it charges timestamps, and they are the ground truth."""

    def test_charges_are_the_models(self):
        # The shim's first frames hold the timestamps against the time that glFinish takes. A host that wakes the program late by
        # as much as a frame takes would make it reject them, so that frames are long here.
        frame_ns = 100_000_000
        node = Node().start()
        self.addCleanup(node.close)
        node.create("emulated")
        tenants = Tenants(self.display)
        self.addCleanup(tenants.close)
        tenants.start(["glmark2", "-b", "build:duration=600", "-s", "320x240"],
                      {**self.environment(frame_ns), **node.environment("emulated")})
        wait_for(lambda: node.vgpu("emulated")["totals"]["frames"] > 30, 60, "frames")
        process = node.vgpu("emulated")["processes"][0]
        self.assertEqual(process["renderer"], "Model (emulated)")
        self.assertEqual(process["meter"], "timer-query")
        totals = node.vgpu("emulated")["totals"]
        # Frames whose timestamps are not read yet are not charged: eight at most, and the one that is being drawn.
        self.assertLessEqual(totals["gpu_ns"], (totals["frames"] + 1) * frame_ns)
        self.assertGreaterEqual(totals["gpu_ns"], (totals["frames"] - 10) * frame_ns)


if __name__ == "__main__":
    main()
