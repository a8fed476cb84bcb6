# SPDX-License-Identifier: Apache-2.0
"""Compares the simulator with real programs on an emulated GPU: their frames are recorded, and the model must show the
same."""
import json
import subprocess

import weir_e2e as e2e
from traces import Traces


class Replay(Traces):
    def replay(self, traces, *arguments):
        done = subprocess.run([e2e.WEIR, "sim", "replay", *traces, "--json", *arguments], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_the_model_shows_what_was_recorded(self):
        self.run_all()
        for policy in ("proportional-share", "sla-aware"):
            self.node.policy(policy)
            self.compare(policy)

    def compare(self, policy):
        reply = self.replay(self.record(8))
        for vgpu in reply["vgpus"]:
            real, model = vgpu["second_half"], vgpu["model_of_second_half"]
            print(f"{policy}, {vgpu['name']}: {real['fps']:.1f} frames/s, model {model['fps']:.1f}; "
                  f"share {real['share']:.3f}, model {model['share']:.3f}")
            self.assertAlmostEqual(model["fps"] / real["fps"], 1, delta=0.05, msg=f"{policy}, {vgpu['name']}")
            self.assertAlmostEqual(model["share"], real["share"], delta=0.03, msg=f"{policy}, {vgpu['name']}")


if __name__ == "__main__":
    e2e.main()
