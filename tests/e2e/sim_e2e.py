# SPDX-License-Identifier: Apache-2.0
"""The simulator against real programs on an emulated GPU: what they show is recorded, and the model must show the same.

With --long: one minute of eight programs, and bars of 1 % of a rate and half a point of a share. The policies are those under
which a recorded minute repeats to that (docs/replay.md).
"""
import json
import os
import shutil
import subprocess
import sys
import time

import emulated
import weir_e2e as e2e
from traces import Traces


class Replay(Traces):
    prompt_if_permitted = True
    # Frames that are long beside the time until a program of a busy host is given a processor: two of each program's are
    # always queued, so that the device does not wait for the host.
    description = emulated.CARD + ('[[program]]\nname = "glmark2-es2"\nframe = "15 ms"\ndrawn = false\n'
                                   '[[program]]\nname = "*"\nframe = "40 ms"\ndrawn = false\n')
    PROGRAMS = {"phong": (e2e.PHONG, 50, 5), "bump": (e2e.BUMP, 30, 6), "texture": (e2e.TEXTURE, 20, 12)}
    SECONDS = 8
    RATE_MOST, SHARE_MOST = 0.05, 0.02
    PACED = ("sla-aware",)

    def replay(self, traces, *arguments):
        done = subprocess.run([e2e.WEIR, "sim", "replay", *traces, "--json", *arguments], capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_the_model_shows_what_was_recorded(self):
        self.run_all()
        emulated.run_promptly(False)
        # The device always has work queued and does not wait for the host.
        self.compare("none")
        # A frame that is delayed to keep a pace is late where the host wakes its program late.
        for policy in self.PACED:
            if self.prompt:
                self.compare(policy)
            else:
                print(f"{policy} is left out: this user may not run programs at real-time priority")

    def compare(self, policy):
        self.node.policy(policy)

        def recorded():
            traces = self.record(self.SECONDS)
            return traces, self.replay(traces, "--device", "emulated:" + self.node.description)["vgpus"]

        # What was queued under the policy before is done after two seconds, and the pace is found. A program that the host
        # does not run for long is recorded again. A wrong model stays wrong.
        traces, _ = emulated.settle(recorded, 2, lambda found: self.check_model(policy, found[1]))
        if policy == "none":
            self.show_that_the_device_matters(traces)

    def check_model(self, policy, vgpus):
        print(policy)
        for vgpu in vgpus:
            real, model = vgpu["second_half"], vgpu["model_of_second_half"]
            print(f"  {vgpu['name']}: {real['fps']:.2f} frames/s, model {model['fps']:.2f} ({(model['fps'] / real['fps'] - 1) * 100:+.2f} %); "
                  f"share {real['share']:.4f}, model {model['share']:.4f}; factor {vgpu['factor']:.2f}")
        for vgpu in vgpus:
            real, model = vgpu["second_half"], vgpu["model_of_second_half"]
            self.assertAlmostEqual(model["fps"] / real["fps"], 1, delta=self.RATE_MOST, msg=f"{policy}, {vgpu['name']}")
            self.assertAlmostEqual(model["share"], real["share"], delta=self.SHARE_MOST, msg=f"{policy}, {vgpu['name']}")

    def show_that_the_device_matters(self, traces):
        """Without its description the device takes whole frames in turn, so that long ones get more of it."""
        vgpus = self.replay(traces)["vgpus"]
        self.assertGreater(max(abs(v["model_of_second_half"]["share"] - v["second_half"]["share"]) for v in vgpus), 2 * self.SHARE_MOST)


class Minute(Replay):
    """Eight programs with frames, weights and rates that differ; the rates need four fifths of the card."""
    FRAMES_MS = (8, 4, 12, 6, 20, 5, 16, 10)
    WEIGHTS = (30, 20, 15, 10, 10, 5, 5, 5)
    FPS = (15, 20, 10, 10, 5, 12, 4, 6)
    description = emulated.CARD + "".join(f'[[program]]\nname = "replayed-{i}"\nframe = "{ms} ms"\ndrawn = false\n'
                                          for i, ms in enumerate(FRAMES_MS)) + '[[program]]\nname = "*"\nframe = "4 ms"\n'
    PROGRAMS = {f"replayed-{i}": None for i in range(len(FRAMES_MS))}
    SECONDS = 60
    RATE_MOST, SHARE_MOST = 0.01, 0.005
    PACED = ("sla-aware", "hybrid")

    def run_all(self):
        for name, weight, fps in zip(self.PROGRAMS, self.WEIGHTS, self.FPS):
            self.node.create(name, weight=weight, fps=fps)
            program = os.path.join(self.node.folder, name)  # the description goes by the name of the program
            os.symlink(shutil.which("glmark2-es2"), program)
            self.start([program, "-b", "texture:duration=3600", "-s", "200x200"], name)
        for name in self.PROGRAMS:
            self.wait_frames(name, more=40, seconds=120)


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] == "--long":
        del sys.argv[1]
        del Replay
    else:
        del Minute
    e2e.main()
