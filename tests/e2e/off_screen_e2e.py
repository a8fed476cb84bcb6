# SPDX-License-Identifier: Apache-2.0
"""Programs that render and present nothing pass the gate at their flushes, waits and readbacks: they keep their cap and
their share. The device is emulated, so its speed does not depend on the host's load, and it is compared with its ground
truth."""
import os
import subprocess
import sys
import time

import emulated
import weir_e2e as e2e

OFF_SCREEN = os.path.join(e2e.BUILD, "bin/weir_off_screen")
GLMARK2 = ["glmark2", "--off-screen", "-b", "build:duration=600", "-s", "200x200"]
CAP = 0.2


def program(name, frame):
    return f'[[program]]\nname = "{name}"\nframe = "{frame}"\ndrawn = false\n'


class OffScreen(emulated.WithEmulatedNode):
    prompt_if_permitted = True
    description = emulated.CARD + program("weir_off_screen", "4 ms") + emulated.FRAMES

    def start_capped(self, command, **settings):
        self.node.create("capped", cap=CAP, **settings)
        started = self.start(command, "capped")
        self.wait_frames("capped")
        time.sleep(1)  # the first batches are over, which the meter checks
        return started

    def keeps_cap(self, started, what):
        def check(use):
            print(f"{what}, cap {CAP}: {use['it']:.4f}")
            self.assertAlmostEqual(use["it"], CAP, delta=0.02)

        self.settled({"it": started}, 3, check)

    def check_cap(self, *arguments):
        self.keeps_cap(self.start_capped([OFF_SCREEN, "--frames", "0", *arguments]), " ".join(arguments))

    def test_readbacks_without_a_surface(self):
        self.check_cap("--on", "egl", "--end", "readback")

    def test_waits_for_the_device_with_a_pbuffer(self):
        self.check_cap("--on", "pbuffer", "--end", "finish")

    def test_flushes_with_a_window_that_shows_nothing(self):
        self.check_cap("--on", "glx", "--end", "flush")

    def test_fences(self):
        self.check_cap("--on", "egl", "--end", "fence")

    def test_fences_of_egl(self):
        self.check_cap("--on", "egl", "--end", "egl-fence")

    def test_textures_that_are_read(self):
        self.check_cap("--on", "glx", "--end", "texture")

    def test_a_compute_shader_and_mapped_buffers(self):
        self.check_cap("--on", "egl", "--work", "compute", "--end", "map")

    def test_a_compute_shader_that_only_flushes(self):
        self.check_cap("--on", "egl", "--work", "compute", "--end", "flush")

    def test_a_program_that_presented_before(self):
        self.check_cap("--on", "glx", "--end", "readback", "--swap-first", "30")

    def test_glmark2_which_never_swaps(self):
        self.keeps_cap(self.start_capped(GLMARK2), "glmark2 --off-screen")

    def test_its_rate_is_one_of_tasks(self):
        self.start_capped([OFF_SCREEN, "--frames", "0"])
        [process] = self.node.vgpu("capped")["processes"]
        self.assertEqual((process["api"], process["presents"]), ("gl", False))
        shown = subprocess.run([e2e.WEIR, "--run-dir", self.node.run_dir, "vgpu", "show", "capped"], check=True,
                               capture_output=True, text=True).stdout
        self.assertIn("gl, off screen", shown)
        self.assertIn("tasks/s", shown)
        self.assertNotIn(" fps", shown)

    def test_a_program_that_presents_is_one_of_frames(self):
        self.node.create("shows")
        self.start(["glmark2", "-b", "build:duration=600", "-s", "200x200"], "shows")
        self.wait_frames("shows")
        [process] = self.node.vgpu("shows")["processes"]
        self.assertTrue(process["presents"])
        totals = self.node.vgpu("shows")["totals"]
        self.assertEqual(totals["frames"], totals["tasks"])


class Tiny(emulated.WithEmulatedNode):
    """Batches of 50 us are shorter than those that pass the gate by themselves."""

    prompt_if_permitted = True
    description = emulated.CARD + program("weir_off_screen", "50 us") + emulated.FRAMES
    start_capped, keeps_cap, check_cap = OffScreen.start_capped, OffScreen.keeps_cap, OffScreen.check_cap

    def test_flushes(self):
        self.check_cap("--on", "egl", "--end", "flush")

    def test_readbacks(self):
        self.check_cap("--on", "egl", "--end", "readback")


class Shares(emulated.WithEmulatedNode):
    prompt_if_permitted = True
    description = emulated.CARD + program("weir_off_screen", "20 ms") + emulated.LONG_FRAMES

    def check_halves(self, *arguments):
        self.node.policy("proportional-share")
        for name in ("shows", "renders"):
            self.node.create(name, weight=50)
        # Three processes each: one waits at the gate also while a busy host gives the others no processor.
        programs = {"shows": [self.start(e2e.PHONG, "shows") for _ in range(3)],
                    "renders": [self.start([OFF_SCREEN, "--frames", "0", *arguments], "renders") for _ in range(3)]}
        for name in programs:
            self.wait_frames(name)
        time.sleep(1)

        def check(use):
            total = sum(use.values())
            print(" ".join(arguments), {name: f"{part / total:.4f}" for name, part in use.items()}, f"device {total:.3f}")
            self.assertAlmostEqual(use["renders"] / total, 0.5, delta=0.02)
            self.assertGreater(total, 0.8)

        self.settled(programs, 8, check, afresh=True)

    def test_readbacks_beside_a_program_that_presents(self):
        self.check_halves("--on", "egl", "--end", "readback")

    def test_flushes_beside_a_program_that_presents(self):
        self.check_halves("--on", "glx", "--end", "flush")


# One of each kind of surface, of end and of rate. With "long" as the argument: all tests.
QUICK = ["OffScreen.test_readbacks_without_a_surface", "OffScreen.test_flushes_with_a_window_that_shows_nothing",
         "OffScreen.test_a_compute_shader_and_mapped_buffers", "OffScreen.test_glmark2_which_never_swaps",
         "OffScreen.test_its_rate_is_one_of_tasks", "Shares.test_readbacks_beside_a_program_that_presents"]

if __name__ == "__main__":
    if sys.argv[1:] == ["long"]:
        del sys.argv[1]
    elif not sys.argv[1:]:
        sys.argv += QUICK
    e2e.main()
