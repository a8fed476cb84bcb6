# SPDX-License-Identifier: Apache-2.0
"""CUDA programs as tenants, on the emulated driver: caps and shares by ground truth, with kernels of three lengths, graphs,
several streams and several processes. The device is emulated, so its speed does not depend on the host's load."""
import os
import subprocess
import sys
import time
import unittest

import emulated
import weir_e2e as e2e
from emulated_cuda_e2e import PROGRAM

LOOP = os.path.join(e2e.BUILD, "bin/cuda_loop")
IMAGE = os.path.join(e2e.BUILD, "lib/test/cuda_image.so")
KERNELS = "".join(f'[[kernel]]\nname = "{name}"\nfixed = "{cost}"\n'
                  for name, cost in (("short_tick", "200 us"), ("tick", "5 ms"), ("long_tick", "100 ms")))


# One stream captures, while another one, which does not wait for it, works.
CAPTURE = PROGRAM + """
stream, other = made(cuda.cuStreamCreate, 1), made(cuda.cuStreamCreate, 1)
right(cuda.cuStreamBeginCapture_v2(stream, 0), "cuStreamBeginCapture_v2")
for _ in range(40):
    right(launch("tick", other), "a launch beside the capture")
    right(launch("tick", stream), "a captured launch")
graph = c_void_p()
right(cuda.cuStreamEndCapture(stream, byref(graph)), "cuStreamEndCapture")
right(cuda.cuStreamSynchronize(other), "cuStreamSynchronize")
right(launch("tick", other), "a launch after the capture")
print("captured")
"""


class Cuda(emulated.WithEmulatedNode):
    prompt_if_permitted = True
    description = emulated.CARD + emulated.LONG_FRAMES + KERNELS

    def run_in(self, vgpu, kernel, mode="plain", ahead=8, seconds=600):
        os.environ["CUDA_LOOP_IMAGE"] = IMAGE
        return self.tenants.start([e2e.WEIR, "--run-dir", self.node.run_dir, "run", "--vgpu", vgpu, "--", LOOP, str(seconds),
                                   kernel, str(ahead), mode], {})

    def wait_busy(self, *vgpus):
        for vgpu in vgpus:
            e2e.wait_for(lambda name=vgpu: self.node.vgpu(name)["totals"]["gpu_ns"] > 0, f"{vgpu} computes")

    def shares_settle(self, programs, wanted, delta, seconds=8):
        """Of the device time that these programs use, each has its wanted part."""
        def check(use):
            shares = {name: one / sum(use.values()) for name, one in use.items()}
            print({name: f"{share:.4f}" for name, share in shares.items()}, f"of {sum(use.values()):.4f}")
            for name, share in wanted.items():
                self.assertAlmostEqual(shares[name], share, delta=delta, msg=name)

        self.settled(programs, seconds, check)

    def test_a_program_computes_the_same_and_is_measured(self):
        done = subprocess.run([e2e.WEIR, "--run-dir", self.node.run_dir, "run", "--name", "a", "--", LOOP, "1", "tick", "4"],
                              capture_output=True, text=True, timeout=e2e.PATIENCE,
                              env={**os.environ, "CUDA_LOOP_IMAGE": IMAGE})
        self.assertEqual((done.returncode, "wrong 0" in done.stdout), (0, True), done.stdout + done.stderr)
        self.assertIn("(emulated)", done.stdout)

    def test_a_capture_is_not_disturbed_by_work_of_another_stream(self):
        # While a stream captures in the global mode, the driver ends the capture at a question about any event.
        self.node.create("a")
        done = subprocess.run([e2e.WEIR, "--run-dir", self.node.run_dir, "run", "--vgpu", "a", "--", sys.executable, "-c", CAPTURE],
                              capture_output=True, text=True, timeout=e2e.PATIENCE,
                              env={**os.environ, "CUDA_LOOP_IMAGE": IMAGE})
        self.assertEqual((done.returncode, done.stdout), (0, "captured\n"), done.stderr)
        self.assertGreater(self.node.vgpu("a")["totals"]["gpu_ns"], 20 * 5_000_000, "the other stream's work is measured")

    def test_caps_hold(self):
        self.node.policy("cap")
        caps = {"graph": 0.25, "streams": 0.1, "getproc": 0.3, "ptsz": 0.2}
        kernels = {"graph": "short_tick", "streams": "short_tick", "getproc": "tick", "ptsz": "tick"}
        programs = {}
        for mode, cap in caps.items():
            self.node.create(mode, cap=cap)
            programs[mode] = self.run_in(mode, kernels[mode], mode)
        self.wait_busy(*caps)
        time.sleep(2)  # start-up is over

        def check(use):
            print({name: f"{one:.4f}" for name, one in use.items()})
            for name, cap in caps.items():
                self.assertAlmostEqual(use[name], cap, delta=0.02, msg=name)

        self.settled(programs, 8, check)

    def test_a_cap_holds_for_long_kernels_and_for_several_processes(self):
        self.node.policy("cap")
        self.node.create("long", cap=0.3)
        self.node.create("many", cap=0.3)
        programs = {"long": self.run_in("long", "long_tick", ahead=2),
                    "many": [self.run_in("many", "tick") for _ in range(4)]}
        self.wait_busy("long", "many")
        time.sleep(2)

        def check(use):
            print({name: f"{one:.4f}" for name, one in use.items()})
            for name in programs:
                self.assertAlmostEqual(use[name], 0.3, delta=0.03, msg=name)

        self.settled(programs, 10, check)

    def test_shares_follow_weights(self):
        self.node.policy("proportional-share")
        self.node.create("heavy", weight=75)
        self.node.create("light", weight=25)
        programs = {"heavy": self.run_in("heavy", "tick"), "light": self.run_in("light", "short_tick")}
        self.wait_busy(*programs)
        time.sleep(1)
        self.shares_settle(programs, {"heavy": 0.75, "light": 0.25}, 0.02)

    def test_long_kernels_and_short_ones_share_fairly(self):
        self.node.policy("proportional-share")
        self.node.create("long")
        self.node.create("short")
        programs = {"long": self.run_in("long", "long_tick"), "short": self.run_in("short", "tick")}
        self.wait_busy(*programs)
        time.sleep(1)
        self.shares_settle(programs, {"long": 0.5, "short": 0.5}, 0.02, 10)

    def test_beside_an_opengl_program(self):
        self.node.policy("proportional-share")
        self.node.create("game")
        self.node.create("compute")
        programs = {"game": self.start(e2e.PHONG, "game"), "compute": self.run_in("compute", "tick")}
        self.wait_frames("game")
        self.wait_busy("compute")
        time.sleep(1)
        self.shares_settle(programs, {"game": 0.5, "compute": 0.5}, 0.03, 10)

    def test_a_program_that_is_killed_leaves_nothing(self):
        self.node.policy("cap")
        self.node.create("a", cap=0.5)
        for _ in range(5):
            program = self.run_in("a", "tick")
            e2e.wait_for(lambda: self.node.vgpu("a")["processes"], "the program is attached")
            self.tenants.stop(program)
            e2e.wait_for(lambda: not self.node.vgpu("a")["processes"], "the program is gone")
        done = subprocess.run([e2e.WEIR, "--run-dir", self.node.run_dir, "run", "--vgpu", "a", "--", LOOP, "0.5", "tick"],
                              capture_output=True, text=True, timeout=e2e.PATIENCE,
                              env={**os.environ, "CUDA_LOOP_IMAGE": IMAGE})
        self.assertEqual((done.returncode, "wrong 0" in done.stdout), (0, True), done.stdout + done.stderr)

if __name__ == "__main__":
    unittest.main()
