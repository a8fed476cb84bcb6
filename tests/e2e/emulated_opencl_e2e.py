#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The emulated OpenCL driver under real, unmodified programs: alone, and as the driver below Weir's executors.

Every assertion is one that a busy host cannot violate: nothing is complete before the model's time, ground truth is what the
device description says, to the nanosecond, and memory has a limit.
"""
import json
import os
import signal
import subprocess
import tempfile
import time
import unittest

import emulated
import opencl_tenants
import weir_e2e as e2e

DRIVER = os.path.join(e2e.BUILD, "lib/weir/emulated/libweir-emulated-opencl.so")
TIMING = os.path.join(e2e.BUILD, "bin/opencl_timing")
LOOP = os.path.join(e2e.BUILD, "bin/opencl_loop")
FORK = os.path.join(e2e.BUILD, "bin/opencl_fork")
SCENES = os.path.join(e2e.BUILD, "bin/opencl_scenes")

MEMORY_MIB = 64
KERNELS = ('[[kernel]]\nname = "add"\nfixed = "5 us"\nper_item = "20 ns"\n'
           '[[kernel]]\nname = "skip*"\nfixed = "1 ms"\ncomputed = false\n'
           '[[kernel]]\nname = "churn"\nper_item = "2.5 ns"\n')
CARDS = ('[[device]]\nname = "One"\nmemory = "%d MiB"\nlink = { in = "1 GB/s", out = "2 GB/s", latency = "10 us" }\n'
         '[[device]]\nname = "Two"\nmemory = "1 GiB"\n' % MEMORY_MIB)
ITEMS = 1 << 16
ADD_NS = 5_000 + 20 * ITEMS
SKIPPED_NS = 1_000_000


def without_emulator(environment=os.environ):
    return {k: v for k, v in environment.items() if not k.startswith(("WEIR_EMULAT", "OCL_ICD"))}


class Emulator:
    """weir-emulated-gpu without a daemon."""

    def __init__(self, test, description):
        folder = tempfile.TemporaryDirectory(prefix="weir-cl-")
        test.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.socket = os.path.join(self.folder, "gpu.sock")
        path = os.path.join(self.folder, "cards.toml")
        with open(path, "w") as file:
            file.write(description)
        self.process = subprocess.Popen([emulated.EMULATOR, "--devices", path, "--socket", self.socket],
                                        stderr=subprocess.DEVNULL)
        test.addCleanup(self.close)
        e2e.wait_for(lambda: emulated.answers(self.socket), "the emulator answers")

    def close(self):
        self.process.kill()
        self.process.wait()

    def environment(self, **more):
        return {**without_emulator(), "WEIR_EMULATOR_SOCKET": self.socket, "OCL_ICD_VENDORS": DRIVER, **more}

    def truth(self, device=0):
        return emulated.truth_at(self.socket)["devices"][device]


class Alone(unittest.TestCase):
    def setUp(self):
        self.emulator = Emulator(self, CARDS + KERNELS)

    def run_program(self, *command, expected=0, **environment):
        done = subprocess.run(command, env=self.emulator.environment(**environment), capture_output=True, text=True,
                              timeout=e2e.PATIENCE)
        self.assertEqual(done.returncode, expected, done.stdout + done.stderr)
        return done

    def test_devices_are_those_of_the_description(self):
        said = self.run_program("clinfo").stdout
        self.assertRegex(said, r"Platform Name +Weir emulated GPUs\n")
        self.assertNotIn("Portable Computing Language", said)
        self.assertRegex(said, r"Device Name +One \(emulated\)\n")
        self.assertRegex(said, r"Device Name +Two \(emulated\)\n")
        self.assertRegex(said, r"Device Type +GPU\n")
        self.assertRegex(said, r"Device PCI bus info \(KHR\) +PCI-E, 0000:02:00.0\n")
        self.assertRegex(said, r"Device UUID +00000000-0000-4000-8000-000000000002\n")
        self.assertRegex(said, r"Global memory size +1073741824 ")
        self.assertRegex(said, r"Unified memory for Host and Device +No\n")

    def test_a_vendor_file_and_the_choice_of_a_device(self):
        vendors = os.path.join(self.emulator.folder, "vendors")
        os.mkdir(vendors)
        with open(os.path.join(vendors, "emulated.icd"), "w") as file:
            file.write(DRIVER + "\n")
        for device in ("1", "0000:02:00.0", "00000000-0000-4000-8000-000000000002"):
            said = self.run_program("clinfo", "-l", OCL_ICD_VENDORS=vendors, WEIR_EMULATED_DEVICE=device).stdout
            self.assertIn("Device #0: Two (emulated)", said)
            self.assertNotIn("One", said)

    def test_a_program_without_an_emulator_finds_no_device_and_gets_the_reason(self):
        done = subprocess.run(["clinfo", "-l"], env={**without_emulator(), "OCL_ICD_VENDORS": DRIVER},
                              capture_output=True, text=True, timeout=e2e.PATIENCE)
        self.assertNotIn("emulated", done.stdout)
        self.assertIn("no emulated GPU: WEIR_EMULATOR_SOCKET", done.stderr)
        done = self.run_program("clinfo", "-l", WEIR_EMULATED_DEVICE="7")
        self.assertIn("the emulator has no device '7'", done.stderr)

    def test_times_results_and_memory_are_the_models(self):
        launches = 20
        said = json.loads(self.run_program(TIMING, str(launches), str(ITEMS)).stdout)
        self.assertEqual(said["wrong"], 0)
        self.assertEqual((said["device"], said["unified"], said["memory"]), ("One (emulated)", 0, MEMORY_MIB << 20))
        self.assertEqual(said["added"], launches + 1, "a kernel that is not computed adds nothing")
        self.assertEqual(said["kernel_min_ns"], ADD_NS)
        self.assertEqual(said["kernel_sum_ns"], launches * ADD_NS)
        self.assertGreaterEqual(said["span_ns"], launches * ADD_NS, "clFinish never returns early")
        size = 4 * ITEMS
        self.assertGreaterEqual(said["read_ns"], size / 2 + size + 20_000, "a blocking read waits for the link")
        self.assertEqual((said["pieces"], said["refusal"]), (1 + MEMORY_MIB // 2, -4))
        truth = self.emulator.truth()
        self.assertEqual(truth["busy_ns"], {"compute": (launches + 1) * ADD_NS + SKIPPED_NS,
                                            "copy-in": 2 * (size + 10_000), "copy-out": 2 * (size // 2 + 10_000)})
        self.assertEqual(truth["memory_used_bytes"], 0)

    def test_two_programs_share_a_device(self):
        command = [LOOP, "1", str(ITEMS), "10", "4"]
        programs = [subprocess.Popen(command, env=self.emulator.environment(WEIR_EMULATED_DEVICE="1"), text=True,
                                     stdout=subprocess.PIPE) for _ in range(2)]
        for program in programs:
            self.assertIn("wrong 0", program.communicate(timeout=e2e.PATIENCE)[0])
            self.assertEqual(program.returncode, 0)
        busy = self.emulator.truth(1)["busy_ns"]["compute"]
        self.assertGreater(busy, 0)
        self.assertEqual(busy % (ITEMS * 5 // 2), 0, "the device was busy for whole launches")

    def test_a_kernel_without_an_entry_costs_what_computing_it_takes(self):
        emulator = Emulator(self, '[[device]]\nmemory = "1 GiB"\n[kernels]\nfactor = 2.0\n')
        done = subprocess.run([LOOP, "0.2", str(ITEMS), "20000", "1"], env=emulator.environment(), capture_output=True,
                              text=True, timeout=e2e.PATIENCE)
        self.assertIn("wrong 0", done.stdout, done.stderr)
        # 65536 items of 20000 dependent steps: no processor takes less than a hundredth of a nanosecond per step.
        self.assertGreater(emulator.truth()["busy_ns"]["compute"], 2 * ITEMS * 20000 * 0.01)

    def test_a_killed_program_gives_everything_back(self):
        program = subprocess.Popen([LOOP, "600", "4194304", "1", "4"], env=self.emulator.environment(),
                                   stdout=subprocess.PIPE, text=True)
        self.addCleanup(program.stdout.close)
        self.addCleanup(program.kill)
        e2e.wait_for(lambda: self.emulator.truth()["busy_ns"]["compute"] > 0, "it computes")
        self.assertEqual(self.emulator.truth()["memory_used_bytes"], 16 << 20)
        program.kill()
        program.wait()
        e2e.wait_for(lambda: self.emulator.truth()["memory_used_bytes"] == 0, "its memory is free")
        self.assertEqual(self.emulator.truth()["clients"], [])

    def test_a_child_without_an_exec_gets_errors_and_its_parent_computes_on(self):
        done = self.run_program(FORK)
        child, parent = done.stdout.splitlines()
        self.assertEqual((child, parent), ("child -5 -5 -5 -5 -5 -5 -5 made 0", "wrong 0"))
        self.assertEqual(done.stderr.count("belongs to the parent"), 1, done.stderr)

    def test_a_child_that_stays_keeps_nothing_of_its_parents(self):
        program = subprocess.Popen([FORK, "stay"], env=self.emulator.environment(), stdout=subprocess.PIPE, text=True,
                                   stderr=subprocess.DEVNULL, start_new_session=True)
        self.addCleanup(program.stdout.close)
        self.addCleanup(os.killpg, program.pid, signal.SIGKILL)
        self.assertRegex(program.stdout.readline(), r"child -5 .* made 0\n")
        self.assertEqual(program.wait(e2e.PATIENCE), 0)
        e2e.wait_for(lambda: self.emulator.truth()["clients"] == [], "its client has left")
        self.assertEqual(self.emulator.truth()["memory_used_bytes"], 0)
        os.killpg(program.pid, 0)  # the child is there

    def test_a_program_survives_its_emulator(self):
        program = subprocess.Popen([LOOP, "3", str(ITEMS), "10", "64"], env=self.emulator.environment(), text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(program.kill)
        e2e.wait_for(lambda: self.emulator.truth()["busy_ns"]["compute"] > 0, "it computes")
        self.emulator.process.send_signal(signal.SIGKILL)
        out, err = program.communicate(timeout=e2e.PATIENCE)
        self.assertEqual((program.returncode, "wrong 0" in out), (0, True), out + err)
        self.assertEqual(err.count("weir: the emulated GPU is"), 1, err)


class UnderWeir(emulated.WithEmulatedNode, opencl_tenants.OpenClTenants):
    description = CARDS + KERNELS + emulated.FRAMES

    def test_an_executor_gives_the_results_and_the_account_is_the_models(self):
        self.node.create("a", device="emulated1")
        self.node.policy("none", "emulated1")
        code, out, err = self.run_to_end([LOOP, "1", str(ITEMS), "10", "4"], "a", 120)
        self.assertEqual((code, "wrong 0" in out), (0, True), out + err)
        truth = self.node.truth()["devices"][1]
        busy = truth["busy_ns"]["compute"]
        self.assertGreater(busy, 0)
        self.assertEqual(busy % (ITEMS * 5 // 2), 0, "the device was busy for whole launches")
        self.assertEqual(self.node.truth()["devices"][0]["busy_ns"]["compute"], 0)
        e2e.wait_for(lambda: abs(self.node.vgpu("a")["totals"]["gpu_ns"] / busy - 1) < 0.01,
                     "the daemon charges what the device was busy")

    def test_events_and_profiling_pass_through(self):
        self.node.create("a", device="emulated0")
        self.node.policy("none", "emulated0")  # launches are not cut into pieces
        code, out, err = self.run_to_end([TIMING, "20", str(ITEMS), "1000000"], "a", 120)
        self.assertEqual(code, 0, out + err)
        said = json.loads(out)
        self.assertEqual((said["wrong"], said["added"]), (0, 21))
        self.assertGreaterEqual(said["kernel_min_ns"], ADD_NS)
        self.assertGreaterEqual(said["span_ns"], 20 * ADD_NS)

    def test_a_program_may_use_all_of_its_memory_limit(self):
        # Unlike PoCL, this device has memory of its own, so that a read is staged in the client's arena.
        self.node.create("a", device="emulated1", memory_max_bytes=64 << 20)
        code, out, err = self.run_to_end([LOOP, "0.2", str(1 << 24), "1", "1"], "a", 120)
        self.assertEqual((code, "wrong 0" in out), (0, True), out + err)
        code, _, err = self.run_to_end([LOOP, "0.2", str((1 << 24) + 1), "1", "1"], "a", 120)
        self.assertEqual(code, 2, "one item more than its limit")
        self.assertIn("clCreateBuffer: error -61", err)  # CL_INVALID_BUFFER_SIZE

    def test_a_device_that_is_full_refuses_a_buffer(self):
        self.node.create("a", device="emulated0")
        self.node.create("b", device="emulated0")
        first = self.start([LOOP, "600", str(1 << 23), "1", "1"], "a")
        self.wait_busy("a")
        code, _, err = self.run_to_end([LOOP, "0.2", str((1 << 23) + 1), "1", "1"], "b", 120)
        self.assertEqual(code, 2, "the executor has no buffer for it: " + err)
        self.tenants.stop(first)
        e2e.wait_for(lambda: self.node.truth()["devices"][0]["memory_used_bytes"] == 0, "its memory is free")
        code, _, err = self.run_to_end([LOOP, "0.2", str((1 << 23) + 1), "1", "1"], "b", 120)
        self.assertEqual(code, 0, err)


class ElasticMemory(emulated.WithEmulatedNode, opencl_tenants.OpenClTenants):
    description = '[[device]]\nname = "Card"\nmemory = "256 MiB"\nlink = { in = "12 GB/s", out = "12 GB/s" }\n' + KERNELS + emulated.FRAMES

    def test_programs_move_their_buffers_to_host_memory_and_back(self):
        done = subprocess.run([e2e.WEIR, "--run-dir", self.node.run_dir, "memory", "on", "--size", "256M"],
                              capture_output=True, text=True, timeout=e2e.PATIENCE)
        self.assertEqual(done.returncode, 0, done.stderr)
        programs = {}
        for name in ("a", "b"):
            self.node.create(name, memory_min_bytes=64 << 20, memory_max_bytes=192 << 20)
            programs[name] = self.start([SCENES, "600", "160", "192", "2", "1"], name, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        for name in programs:
            self.wait_busy(name)

        def moved():
            busy = self.node.truth()["devices"][0]["busy_ns"]
            return min(busy["copy-in"], busy["copy-out"], busy["compute"]) > 0
        e2e.wait_for(moved, "buffers go and come back")
        for program in programs.values():
            program.terminate()  # it checks everything, and ends
        for program in programs.values():
            out, err = program.communicate(timeout=e2e.PATIENCE)
            self.assertEqual((program.returncode, "wrong 0" in out), (0, True), out + err)


if __name__ == "__main__":
    e2e.main()
