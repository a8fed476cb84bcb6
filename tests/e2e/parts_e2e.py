# SPDX-License-Identifier: Apache-2.0
"""Launches that need more memory than their vGPU may have, with a daemon: they run in parts, or fail where that is off
or impossible. Both outcomes are counted and reported. The program checks every item that it computed.

With "long" as its argument: 3 GiB of buffers on 1 GiB, which takes memory and time.
"""
import json
import os
import subprocess
import sys
import unittest

import weir_e2e as e2e

PARTS = os.path.join(e2e.BUILD, "bin/opencl_parts")
MIB = 1 << 20
SLOT = 64 * MIB


def weir(node, *arguments):
    return subprocess.run([e2e.WEIR, "--run-dir", node.run_dir, *arguments], capture_output=True, text=True,
                          timeout=e2e.PATIENCE)


class OnANode(unittest.TestCase):
    def setUp(self):
        self.node = e2e.Node("--quiet").start()
        self.addCleanup(self.node.close)

    def ok(self, *arguments):
        done = weir(self.node, *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def elastic(self, mebibytes):
        self.ok("memory", "on", "--size", f"{mebibytes}M")

    def run_parts(self, vgpu, *arguments, seconds=e2e.PATIENCE):
        environment = {**os.environ, "OCL_ICD_VENDORS": os.path.join(e2e.BUILD, "lib/weir/icd"),
                       "WEIR_OPENCL": os.path.join(self.node.run_dir, "opencl", vgpu + ".sock")}
        return subprocess.run([PARTS, *arguments], env=environment, capture_output=True, text=True, timeout=seconds)

    def right(self, done):
        self.assertEqual((done.returncode, done.stdout), (0, "wrong 0\n"), done.stderr + self.node.log_text())

    def refused(self, done, *says):
        self.assertEqual(done.returncode, 2, done.stderr + self.node.log_text())
        self.assertIn("the launch: error -4", done.stderr)  # CL_MEM_OBJECT_ALLOCATION_FAILURE
        for text in says:
            self.assertIn(text, done.stderr)

    def memory(self, vgpu):
        return self.node.vgpu(vgpu)["memory"]

    def events(self, kind):
        return [event for event in self.node.get("/v1/events")["events"] if event["kind"] == kind]

    def metric(self, name, vgpu):
        wanted = f'{name}{{vgpu="{vgpu}",device="embedded"}} '
        return next(float(line[len(wanted):]) for line in self.node.get("/metrics").splitlines()
                    if line.startswith(wanted))


class LaunchesInParts(OnANode):
    def setUp(self):
        super().setUp()
        self.elastic(256)

    def test_three_times_the_memory_is_right_counted_and_reported(self):
        self.ok("vgpu", "create", "job", "--memory", "64M")
        self.right(self.run_parts("job", "64"))
        e2e.wait_for(lambda: self.events("parts"), "the event")
        memory = self.memory("job")
        self.assertEqual(memory["launches_in_parts"], 1)
        self.assertGreaterEqual(memory["parts"], 3)
        self.assertEqual(memory["launches_not_cut"], 0)
        self.assertEqual((memory["parts_in_bytes"], memory["parts_out_bytes"]), (128 * MIB, 64 * MIB))
        for name, value in (("launches_in_parts", 1), ("parts", memory["parts"]), ("launches_not_cut", 0),
                            ("parts_copied_in_bytes", 128 * MIB), ("parts_copied_out_bytes", 64 * MIB)):
            self.assertEqual(self.metric(f"weir_vgpu_{name}_total", "job"), value, name)
        event, = self.events("parts")
        self.assertEqual(event["vgpu"], "job")
        self.assertIn(f"1 launch ran in {memory['parts']} parts", event["text"])
        self.assertIn("ran in", self.ok("events", "--vgpu", "job"))
        self.assertIn(f"1 in {memory['parts']} parts (192M copied), 0 not cut", self.ok("vgpu", "show", "job"))

    def test_an_uncuttable_launch_fails_with_the_reason_and_is_reported(self):
        self.ok("vgpu", "create", "job", "--memory", "64M")
        self.refused(self.run_parts("job", "64", "scatter"), "64.0 MiB is its maximum",
                     "it can't run in parts: ")
        e2e.wait_for(lambda: self.events("not-cut"), "the event")
        self.assertEqual(self.memory("job")["launches_not_cut"], 1)
        self.assertEqual(self.events("parts"), [])

    def test_never_is_enforced_and_can_be_changed(self):
        self.ok("vgpu", "create", "job", "--memory", "64M", "--partition", "never")
        self.refused(self.run_parts("job", "64"), "64.0 MiB is its maximum", "--partition never")
        self.assertEqual(self.memory("job")["launches_in_parts"], 0)
        self.node.kill()
        self.node.start()
        shown = json.loads(self.ok("--json", "vgpu", "show", "job"))
        self.assertEqual(shown["settings"]["partition"], "never")
        refused = weir(self.node, "vgpu", "set", "job", "--partition", "often")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("give auto, never or always", refused.stderr)
        self.ok("vgpu", "set", "job", "--partition", "auto")
        # The restarted daemon has started no executor yet; the previous executor accepts no new client.
        self.right(self.run_parts("job", "64"))

    def test_always_cuts_what_fits(self):
        self.ok("vgpu", "create", "job", "--memory", "256M", "--partition", "always")
        self.right(self.run_parts("job", "16"))
        e2e.wait_for(lambda: self.memory("job")["launches_in_parts"] == 4, "all four launches ran in parts")
        e2e.wait_for(lambda: self.events("parts"), "the event")


class ALargeProblem(OnANode):
    def test_three_gib_on_one(self):
        self.elastic(1024)
        self.ok("vgpu", "create", "job", "--memory", "1G")
        self.right(self.run_parts("job", "1024", seconds=900))
        e2e.wait_for(lambda: self.events("parts"), "the event")
        self.assertGreaterEqual(self.memory("job")["parts"], 3)


if __name__ == "__main__":
    large = "long" in sys.argv[1:]
    unittest.main(argv=sys.argv[:1], defaultTest="ALargeProblem" if large else "LaunchesInParts", verbosity=2)
