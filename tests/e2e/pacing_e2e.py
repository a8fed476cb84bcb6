# SPDX-License-Identifier: Apache-2.0
"""Real programs of every kind keep to their frames per second and to their cap, on an emulated GPU, whose speed does
not depend on the host's load."""
import json
import os
import signal
import subprocess
import tempfile
import time

import emulated
import weir_e2e as e2e
from programs_e2e import WINDOWS, Programs

GAME = "/usr/games/chromium-bsu"


class Pacing(Programs):
    RENDERER = "Card (emulated)"
    METER = "timer-query"

    @classmethod
    def setUpClass(cls):
        if emulated.run_promptly(True):
            cls.addClassCleanup(emulated.run_promptly, False)
        super().setUpClass()

    @classmethod
    def make_node(cls):
        return emulated.EmulatedNode(emulated.CARD + emulated.FRAMES)

    def check_pacing(self, windows=1, promised=20):
        """Checks that each window keeps to its frames per second."""
        before = self.node.get("/v1/devices")["devices"][0]["policy"]
        self.node.policy("sla-aware")
        self.addCleanup(self.node.policy, before)
        self.assertEqual(self.node.call("PATCH", f"/v1/vgpus/{self.vgpu}", {"fps": promised})[0], 200)
        time.sleep(1)  # the effects of the change are over
        first, start = self.totals()["frames"], time.monotonic()

        def rate():
            return (self.totals()["frames"] - first) / (time.monotonic() - start) / windows

        def check(fps):
            print(f"{self.vgpu}: {fps:.2f} frames/s")
            self.assertAlmostEqual(fps / promised, 1, delta=0.05)

        emulated.settle(rate, 3, check)

    def test_glxgears(self):
        program = self.start_one(["glxgears"])
        self.check_pacing()
        program.terminate()
        self.assertEqual(program.wait(e2e.PATIENCE), -signal.SIGTERM)
        self.wait_gone()

    def test_a_game_on_sdl2(self):
        if not os.path.exists(GAME):
            self.skipTest("chromium-bsu is not installed; scripts/install-deps --test brings it")
        with tempfile.TemporaryDirectory() as home:
            program = self.start_one([GAME, "--window", "--noaudio"],
                                     {"SDL_AUDIODRIVER": "dummy", "ALSOFT_DRIVERS": "null", "HOME": home})
            self.check_pacing()
            self.tenants.stop(program)  # before its home folder is removed

    def test_frames_per_second_of_glmark2(self):
        self.start_one(["glmark2", "-b", "build:duration=600", "-s", "200x200"])
        self.check_pacing()

    def test_frames_per_second_of_glmark2_on_egl(self):
        self.start_one(["glmark2-es2", "-b", "build:duration=600", "-s", "200x200"])
        self.check_pacing()

    def test_frames_per_second_of_es2gears(self):
        self.start_one(["es2gears_x11"])
        self.check_pacing()

    def test_a_single_buffered_program_is_held_to_its_cap(self):
        self.assertEqual(self.node.call("PATCH", f"/v1/vgpus/{self.vgpu}", {"cap": 0.05})[0], 200)
        program = self.launch([WINDOWS, "--single", "--frames", "0"])
        self.check_running()
        time.sleep(0.5)
        first = self.node.truth()

        def share():
            last = self.node.truth()
            before, after = (emulated.used_ns_in(truth)[program.pid] for truth in (first, last))
            return (after - before) / (last["now_ns"] - first["now_ns"])

        def check(use):
            print(f"single-buffered, cap 0.05: {use:.4f}")
            self.assertAlmostEqual(use, 0.05, delta=0.01)

        emulated.settle(share, 2, check)

    # A query belongs to one context. In a program that presents from two contexts a query's result becomes invalid, and
    # the meter changes to the wall clock. Its charges are right all the same, because they come from the device's own
    # account.
    def test_frames_per_second_of_two_windows_in_two_threads(self):
        self.launch([WINDOWS, "--windows", "2", "--threads", "--frames", "0"])
        self.check_running(meter=("timer-query", "wall-clock"))
        self.check_pacing(windows=2)

    def test_frames_per_second_of_two_windows_in_one_thread(self):
        self.launch([WINDOWS, "--windows", "2", "--frames", "0"])
        self.check_running(meter=("timer-query", "wall-clock"))
        self.check_pacing(windows=2)

    def test_frames_per_second_of_a_single_buffered_program(self):
        self.launch([WINDOWS, "--single", "--frames", "0", "--interval-ms", "5"])
        self.check_running()
        self.check_pacing()


class LateStart(emulated.WithEmulatedNode):
    """A program that the host delays needs most of its interval, and then there is nothing to wait for before a frame."""
    prompt_if_permitted = True

    def test_a_late_frame_start_halves_the_time_from_input_to_present(self):
        self.node.create("game", fps=30)
        self.tenants.start(["glxgears"], self.node.environment("game"))
        self.wait_frames("game")
        self.node.policy("sla-aware", frame_start=0)
        emulated.settle(self.recorded, 2, self.keeps_its_rate)
        early_ms = self.recorded()["input_to_present_ms"]["p50"]
        self.node.policy("sla-aware", frame_start=1)

        def is_halved(figures):
            self.keeps_its_rate(figures)
            self.assertLessEqual(figures["input_to_present_ms"]["p50"], early_ms / 2)

        emulated.settle(self.recorded, 2, is_halved)

    def recorded(self):
        done = subprocess.run([e2e.WEIR, "--run-dir", self.node.run_dir, "--json", "record", "game", "--seconds", "5"],
                              capture_output=True, text=True, timeout=e2e.PATIENCE)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    # How many single frames are late is decided by the host's load too; scenarios/late-start.toml has a bound of that.
    def keeps_its_rate(self, figures):
        print(f"{figures['fps_mean']:.3f} frames/s, input to present {figures['input_to_present_ms']['p50']:.2f} ms (emulated)")
        self.assertAlmostEqual(figures["fps_mean"], 30, delta=0.3)


if __name__ == "__main__":
    e2e.main()
