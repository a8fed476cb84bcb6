# SPDX-License-Identifier: Apache-2.0
"""Elastic memory with programs whose needs add up to more than the device has; each checks its own bytes. Meanwhile
limits are changed, and programs and daemons are killed. The device is emulated, so its contents are compared with
its ground truth, and the duration of a turn does not depend on the host's load."""
import os
import signal
import subprocess
import unittest

import emulated
import weir_e2e as e2e

SCENES = os.path.join(e2e.BUILD, "bin/opencl_scenes")
MIB = 1 << 20
SLOT = 64 * MIB

# Results are computed, because the programs check them. A launch on a buffer takes 21 ms of device time.
DEVICE = emulated.CARD + ('[[kernel]]\nname = "churn"\nper_item = "5 ns"\n'
                          '[[kernel]]\nname = "begin"\nper_item = "1 ns"\n')


def scenes(seconds, low, high, count=6, first=0):
    return [SCENES, str(seconds), str(low), str(high), str(count), "1", str(first), "4"]


class ElasticMemory(unittest.TestCase):
    def setUp(self):
        self.node = emulated.EmulatedNode(DEVICE, "--quiet").start()
        self.addCleanup(self.node.close)
        self.processes = []
        self.addCleanup(e2e.end_all, self.processes)

    def elastic(self, slots, **params):
        status, body = self.node.call("PUT", "/v1/devices/emulated0/memory",
                                      {"size_bytes": slots * SLOT, "params": params})
        self.assertEqual(status, 200, body)

    def start(self, vgpu, command):
        environment = {**os.environ, "OCL_ICD_VENDORS": os.path.join(e2e.BUILD, "lib/weir/icd"),
                       "WEIR_OPENCL": os.path.join(self.node.run_dir, "opencl", vgpu + ".sock")}
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.processes.append(process)
        return process

    def right(self, process, seconds=180):
        out, err = process.communicate(timeout=seconds)
        self.assertEqual((process.returncode, "wrong 0" in out), (0, True), out + err + self.node.log_text())

    def memory(self, vgpu):
        return self.node.vgpu(vgpu)["memory"]

    def set(self, vgpu, least, most):
        status, body = self.node.call("PATCH", f"/v1/vgpus/{vgpu}", {"memory_min_bytes": least, "memory_max_bytes": most})
        self.assertEqual(status, 200, body)

    def kinds(self):
        return {event["kind"] for event in self.node.get("/v1/events")["events"]}

    def busy(self, vgpu, slots):
        e2e.wait_for(lambda: self.memory(vgpu)["resident_slots"] >= slots, f"{vgpu} has {slots} slots")

    def on_device(self):
        return sum(v["memory"]["resident_slots"] for v in self.node.get("/v1/vgpus")["vgpus"])

    def taken(self):
        """The used bytes of the device's memory, by its ground truth."""
        return self.node.truth()["devices"][0]["memory_used_bytes"]

    def test_needs_of_twice_the_device_are_met_by_turns_and_every_byte_is_right(self):
        self.elastic(6)
        names = ["a", "b", "c"]
        for name in names:
            self.node.create(name, memory_min_bytes=SLOT, memory_max_bytes=5 * SLOT)
        programs = [self.start(name, scenes(5, 64, 256, first=4 * i)) for i, name in enumerate(names)]
        most = taken = 0
        while any(program.poll() is None for program in programs):
            most, taken = max(most, self.on_device()), max(taken, self.taken())
            try:
                programs[0].wait(0.05)
            except subprocess.TimeoutExpired:
                pass
            if programs[0].poll() is not None:
                break
        for program in programs:
            self.right(program)
        print(f"most at once: {most} slots by the books, {taken / SLOT:.2f} by the device")
        self.assertLessEqual(most, 6)
        self.assertLessEqual(taken, 6 * SLOT)
        self.assertIn("grown", self.kinds())
        self.assertGreater(self.node.get("/v1/devices")["devices"][0]["memory"]["switches"], 0)

    def test_a_lone_program_with_less_memory_than_it_needs_is_right(self):
        self.elastic(8)
        self.node.create("small", memory_min_bytes=SLOT, memory_max_bytes=2 * SLOT)
        # It may create more than it may hold, as long as each command fits.
        program = self.start("small", scenes(3, 192, 256))
        e2e.wait_for(lambda: self.memory("small")["made_bytes"] >= 192 * MIB, "it has made its buffers")
        self.right(program)

    def test_bounds_of_a_running_program_change_and_return(self):
        self.elastic(8)
        self.node.create("a", memory_min_bytes=SLOT, memory_max_bytes=4 * SLOT)
        program = self.start("a", scenes(600, 192, 256))
        self.busy("a", 3)
        self.set("a", SLOT, SLOT)
        e2e.wait_for(lambda: self.memory("a")["held_slots"] == 1 and self.memory("a")["resident_slots"] <= 1,
                     "it keeps to one slot")
        self.assertIsNone(program.poll())
        self.set("a", SLOT, 4 * SLOT)
        self.busy("a", 3)
        program.terminate()
        self.right(program)

    def test_a_command_that_needs_more_than_its_vgpu_may_have_is_refused_with_the_reason(self):
        self.elastic(8)
        self.node.create("a", memory_min_bytes=0, memory_max_bytes=SLOT)
        loop = [os.path.join(e2e.BUILD, "bin/opencl_loop"), "0.2", str(48 << 20), "1"]  # one buffer of 192 MiB
        program = self.start("a", loop)
        _, err = program.communicate(timeout=e2e.PATIENCE)
        self.assertEqual(program.returncode, 2, err)
        self.assertIn("error -61", err)  # CL_INVALID_BUFFER_SIZE: its device appears no larger

    def test_slots_of_a_killed_program_go_to_the_others(self):
        self.elastic(5)
        for name in ("a", "b"):
            self.node.create(name, memory_min_bytes=SLOT, memory_max_bytes=5 * SLOT)
        loser, other = self.start("a", scenes(600, 192, 256)), self.start("b", scenes(600, 192, 256))
        self.busy("a", 3)
        loser.send_signal(signal.SIGKILL)
        self.busy("b", 3)
        other.terminate()
        self.right(other)
        e2e.wait_for(lambda: self.memory("a")["resident_slots"] == 0, "nothing of it is on the device")

    def test_a_stopped_executor_loses_its_slots(self):
        self.elastic(5, answer_ms=10_000)  # an executor beside other work answers in less
        for name in ("a", "b"):
            self.node.create(name, memory_min_bytes=SLOT, memory_max_bytes=5 * SLOT)
        loser = self.start("a", scenes(600, 192, 256))
        self.busy("a", 3)
        executor = next(process["pid"] for process in self.node.vgpu("a")["processes"])
        os.kill(executor, signal.SIGSTOP)
        other = self.start("b", scenes(600, 192, 256))
        self.busy("b", 3)
        self.assertIn("executor-ended", self.kinds())
        loser.wait(e2e.PATIENCE)  # its device is lost
        other.terminate()
        self.right(other)

    def test_the_daemons_death_loses_no_byte(self):
        self.elastic(5)
        for name in ("a", "b"):
            self.node.create(name, memory_min_bytes=SLOT, memory_max_bytes=5 * SLOT)
        programs = [self.start(name, scenes(600, 128, 256)) for name in ("a", "b")]
        self.busy("a", 2)
        self.node.kill()
        self.node.start()
        self.assertEqual(self.node.get("/v1/devices")["devices"][0]["memory"]["slots"], 5)
        for name in ("a", "b"):
            self.busy(name, 2)
        for program in programs:
            program.terminate()
            self.right(program)


if __name__ == "__main__":
    unittest.main(verbosity=2)
