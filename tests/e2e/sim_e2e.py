# SPDX-License-Identifier: Apache-2.0
"""The simulator against the real thing: programs are recorded, and the model says what they showed."""
import json
import os
import subprocess

import weir_e2e as e2e


class Replay(e2e.WithNode):
    PROGRAMS = {"phong": (e2e.PHONG, 50, 30), "bump": (e2e.BUMP, 30, 60), "texture": (e2e.TEXTURE, 20, 60)}

    def record(self, seconds):
        traces = {name: os.path.join(self.node.folder, name + ".wtrace") for name in self.PROGRAMS}
        recorders = [subprocess.Popen([e2e.WEIR, "record", name, "--seconds", str(seconds), "--trace", trace, "--socket", self.node.socket],
                                      stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for name, trace in traces.items()]
        for recorder in recorders:
            _, errors = recorder.communicate(timeout=seconds + 30)
            self.assertEqual(recorder.returncode, 0, errors.decode())
        return list(traces.values())

    def replay(self, traces, *arguments):
        done = subprocess.run([e2e.WEIR, "sim", "replay", *traces, "--json", *arguments], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_the_model_shows_what_was_recorded(self):
        for name, (command, weight, fps) in self.PROGRAMS.items():
            self.node.create(name, weight=weight, fps=fps)
            self.start(command, name)
        for name in self.PROGRAMS:
            self.wait_frames(name)
        for policy in ("proportional-share", "sla-aware"):
            self.node.policy(policy)
            reply = self.replay(self.record(8))
            for vgpu in reply["vgpus"]:
                real, model = vgpu["second_half"], vgpu["model_of_second_half"]
                print(f"{policy}, {vgpu['name']}: {real['fps']:.1f} frames/s, model {model['fps']:.1f}; "
                      f"share {real['share']:.3f}, model {model['share']:.3f}")
                self.assertAlmostEqual(model["fps"] / real["fps"], 1, delta=0.05, msg=f"{policy}, {vgpu['name']}")
                self.assertAlmostEqual(model["share"], real["share"], delta=0.03, msg=f"{policy}, {vgpu['name']}")

    def test_a_plan_says_what_each_way_of_selling_would_earn(self):
        for name, (command, weight, fps) in self.PROGRAMS.items():
            self.node.create(name, weight=weight, fps=fps)
            self.start(command, name)
        for name in self.PROGRAMS:
            self.wait_frames(name)
        self.node.policy("sla-aware")
        traces = [word for trace in self.record(6) for word in ("--trace", trace)]
        arguments = [e2e.WEIR, "plan", *traces, "--fps", "8", "--seconds", "60", "--customers", "6", "--ratios", "1.5,3"]
        done = subprocess.run([*arguments, "--json"], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        plan = json.loads(done.stdout)
        self.assertEqual([trace["name"] for trace in plan["traces"]], list(self.PROGRAMS))
        ways = plan["ways"]
        self.assertEqual([(way["mode"], way.get("ratio")) for way in ways],
                         [("strict", None), ("static", 1.5), ("static", 3), ("adaptive", None)])
        self.assertEqual([way["sold"] for way in ways[:3]], [2, 3, 6])
        self.assertGreaterEqual(ways[3]["sold"], 2)
        for way in ways:
            print(way)
            self.assertAlmostEqual(way["sold_ratio"], way["sold"] / 2)
            self.assertAlmostEqual(way["net"], way["revenue"] - way["penalty"] - 0.4, places=6)
            self.assertTrue(0 <= way["broken"] <= 1 and 0 < way["device_use"] <= 1)
        self.assertEqual(plan["best"], max(ways, key=lambda way: way["net"]))
        again = subprocess.run([*arguments, "--json"], capture_output=True, text=True, timeout=120)
        self.assertEqual(again.stdout, done.stdout, "the same seed, the same plan")
        table = subprocess.run(arguments, capture_output=True, text=True, timeout=120)
        self.assertEqual(table.returncode, 0, table.stderr)
        for text in ("NET/h", "static 1.5", "adaptive", "Best: " + plan["verdict"]):
            self.assertIn(text, table.stdout)

    def test_what_is_no_trace_is_refused(self):
        path = os.path.join(self.node.folder, "junk")
        with open(path, "wb") as file:
            file.write(b"\0" * 100)
        done = subprocess.run([e2e.WEIR, "sim", "replay", path], capture_output=True, text=True)
        self.assertEqual(done.returncode, 9)
        self.assertIn(path, done.stderr)
        done = subprocess.run([e2e.WEIR, "plan", "--trace", path], capture_output=True, text=True)
        self.assertEqual(done.returncode, 9)
        self.assertIn(path, done.stderr)
        done = subprocess.run([e2e.WEIR, "sim", "replay", path + "-absent"], capture_output=True, text=True)
        self.assertNotEqual(done.returncode, 0)


if __name__ == "__main__":
    e2e.main()
