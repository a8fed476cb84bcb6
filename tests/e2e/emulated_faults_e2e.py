#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Faults of emulated GPUs under real, unmodified programs: what the drivers tell them, and what Weir makes of it. Who
used the device is told; the daemon, other devices and their programs go on."""
import json
import os
import subprocess
import tempfile
import unittest

import emulated
import opencl_tenants
import weir_e2e as e2e
from emulated_opencl_e2e import LOOP, Emulator

TIMING = os.path.join(e2e.BUILD, "bin/weir_gl_timing")
UNKNOWN_CONTEXT_RESET = 0x8255
ITEMS = 1 << 14
# A launch takes 0.16 ms of the device, and is computed: the programs check their results.
CARDS = ('[[device]]\nname = "Faulty"\nmemory = "1 GiB"\n[[device]]\nname = "Good"\nmemory = "1 GiB"\n'
         '[[kernel]]\nname = "churn"\nper_item = "10 ns"\n')
OUT_OF_RESOURCES, NOT_AVAILABLE, NO_MEMORY = "error -5", "error -2", "error -4"


def fault(kind, *more):
    return "\n".join(["[[fault]]", f'kind = "{kind}"', *more]) + "\n"


def loop(seconds):
    """At least 32 launches, however slow the host is. Between two times 32 it rests."""
    return [LOOP, str(seconds), str(ITEMS), "4", "32", "20"]


class Alone(unittest.TestCase):
    """The driver by itself: what it reports is what a real one does."""

    def emulate(self, *faults):
        self.emulator = Emulator(self, CARDS + "".join(faults))

    def run_program(self, *command, device=0):
        return subprocess.run(command, env=self.emulator.environment(WEIR_EMULATED_DEVICE=str(device)),
                              capture_output=True, text=True, timeout=e2e.PATIENCE)

    def right(self, done):
        self.assertEqual((done.returncode, "wrong 0" in done.stdout), (0, True), done.stdout + done.stderr)

    def fails(self, done, what):
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertIn(what, done.stderr)

    def stats(self):
        said = subprocess.run([emulated.EMULATOR, "stats", "--socket", self.emulator.socket], capture_output=True,
                              text=True, timeout=e2e.PATIENCE)
        return said.stdout

    def test_a_lost_device_fails_its_commands_and_has_no_context_for_others(self):
        self.emulate(fault("lost", "after = 20"))
        self.assertIn("fault lost after 20: to come, hit 0\n", self.stats())
        self.fails(self.run_program(*loop(60)), OUT_OF_RESOURCES)
        self.assertIn("fault lost after 20: in effect, hit", self.stats())
        self.fails(self.run_program(*loop(60)), "clCreateContext: " + NOT_AVAILABLE)
        self.assertRegex(self.run_program("clinfo").stdout, r"Device Available +No\n")
        self.assertRegex(self.run_program("clinfo", device=1).stdout, r"Device Available +Yes\n")
        self.right(self.run_program(*loop(0.2), device=1))

    def test_a_program_may_exit_while_its_first_kernel_is_compiled(self):
        """It has enqueued kernels when the device is lost, and exits at the error: by its main thread, and by another
        one. Each run compiles the kernel anew."""
        for thread in ("0", "1") * 3:
            self.emulate(fault("lost", "after = 20"))
            with tempfile.TemporaryDirectory() as cache:
                self.fails(self.run_program("env", "POCL_CACHE_DIR=" + cache, LOOP, "60", str(ITEMS), "4", "20000", "0",
                                            "0", "0", thread), OUT_OF_RESOURCES)

    def test_after_a_reset_another_process_can_use_the_device(self):
        self.emulate(fault("reset", "after = 20"))
        self.fails(self.run_program(*loop(60)), OUT_OF_RESOURCES)
        self.right(self.run_program(*loop(0.2)))

    def test_commands_wait_while_the_device_hangs(self):
        self.emulate(fault("hang", "after = 20", 'for = "1 s"'))
        done = self.run_program(*loop(0.2))
        self.right(done)
        self.assertIn("hang after 20: over", self.stats())

    def test_a_slow_command_takes_its_extra_time(self):
        self.emulate(fault("slow", "after = 5", "count = 2", 'extra = "300 ms"'))
        self.right(self.run_program(*loop(0.2)))
        busy = self.emulator.truth()["busy_ns"]["compute"]
        self.assertEqual(busy % (ITEMS * 10), 600_000_000 % (ITEMS * 10), "whole launches, and twice the extra time")
        self.assertGreater(busy, 600_000_000)

    def test_one_allocation_fails(self):
        self.emulate(fault("no-memory", "after = 0", "count = 1"))
        self.fails(self.run_program(*loop(60)), "clCreateBuffer: " + NO_MEMORY)
        self.right(self.run_program(*loop(0.2)))

    def test_a_malformed_fault_is_refused_with_its_place(self):
        emulator = Emulator(self, CARDS)
        path = emulator.folder + "/bad.toml"
        with open(path, "w") as file:
            file.write(CARDS + '[[fault]]\nkind = "lost"\n')
        done = subprocess.run([emulated.EMULATOR, "check", path], capture_output=True, text=True, timeout=e2e.PATIENCE)
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, rf"{path}:\d+:1: a \[\[fault\]\] needs one of 'after' and 'at'")


class Drawing(unittest.TestCase):
    def timing(self, *faults):
        display = e2e.shared_display()
        emulator = Emulator(self, '[[device]]\nname = "Card"\n' + emulated.FRAMES + "".join(faults))
        libraries = os.path.join(e2e.BUILD, "lib/weir/emulated")
        environment = emulator.environment(
            LD_LIBRARY_PATH=libraries, __GLX_VENDOR_LIBRARY_NAME="weiremulated",
            __EGL_VENDOR_LIBRARY_FILENAMES=os.path.join(libraries, "weiremulated.json"), **display.environment)
        done = subprocess.run([TIMING], env=environment, capture_output=True, text=True, timeout=e2e.PATIENCE)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout), done.stderr

    def test_a_lost_device_holds_up_no_frame_and_tells_whoever_asks(self):
        said, words = self.timing()
        self.assertEqual((said["reset"], "lost" in words), (0, False))
        for kind in ("lost", "reset"):
            said, words = self.timing(fault(kind, "after = 20"))
            self.assertEqual(said["reset"], UNKNOWN_CONTEXT_RESET)
            self.assertIn("the emulated GPU is lost", words)


class UnderWeir(opencl_tenants.OpenClTenants):
    """Two tenants of the device that fails, and one of another device."""
    faults = ""
    arguments = ()

    def make_node(self):
        return emulated.EmulatedNode(CARDS + self.faults, *self.arguments)

    def setUp(self):
        super().setUp()
        for name, device in (("a", 0), ("b", 0), ("other", 1)):
            self.node.create(name, device=f"emulated{device}")
        self.other = self.start(loop(600), "other")
        self.wait_busy("other")

    def start_told(self, name):
        program = self.start(loop(600), name, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(program.stdout.close)
        self.addCleanup(program.stderr.close)
        return program

    def is_told(self, program, what=OUT_OF_RESOURCES):
        out, err = program.communicate(timeout=e2e.PATIENCE)
        self.assertEqual(program.returncode, 2, out + err)
        self.assertIn(what, err)

    def others_go_on(self):
        self.assertIsNone(self.node.process.poll(), self.node.log_text())
        self.assertIsNone(self.other.poll())
        before = self.node.truth()["devices"][1]["busy_ns"]["compute"]

        def computes():
            self.assertIsNone(self.other.poll(), self.node.log_text())
            return self.node.truth()["devices"][1]["busy_ns"]["compute"] > before

        e2e.wait_for(computes, "the other computes")
        self.wait_busy("other")

    def works_again(self, name):
        code, out, err = self.run_to_end(loop(0.5), name)
        self.assertEqual((code, "wrong 0" in out), (0, True), out + err + self.node.log_text())


class Lost(UnderWeir):
    faults = fault("lost", 'at = "1 s"')

    def test_all_tenants_of_a_lost_device_are_told_and_no_others(self):
        for program in [self.start_told(name) for name in ("a", "b")]:
            self.is_told(program)
        self.others_go_on()
        code, out, err = self.run_to_end(loop(60), "a")  # an error, not a hang
        self.assertEqual(code, 2, out + err)
        self.others_go_on()


class Reset(UnderWeir):
    faults = fault("reset", 'at = "1 s"')

    def test_after_a_reset_the_tenants_next_programs_work(self):
        self.is_told(self.start_told("a"))
        self.others_go_on()
        for name in ("a", "b"):
            self.works_again(name)


class Stuck(UnderWeir):
    arguments = ("--kernel-timeout", "20s")  # a kernel is compiled at its first launch: on a busy host more than 4 s
    faults = fault("slow", "after = 40", "count = 1", 'extra = "1000 s"')

    def test_a_stuck_kernel_ends_its_own_executor(self):
        program = self.start_told("a")
        out, err = program.communicate(timeout=e2e.PATIENCE)
        self.assertEqual(program.returncode, 2, out + err)
        self.assertIn("has not ended for 20000 ms", self.node.log_text())
        self.others_go_on()
        self.works_again("a")
        self.works_again("b")


class Mute(UnderWeir):
    faults = fault("no-account", 'at = "1 s"')

    def test_work_is_charged_also_while_the_account_is_not_answered(self):
        self.start(loop(600), "a")
        e2e.wait_for(lambda: self.node.truth()["devices"][0]["faults"][0]["hit"] > 1, "it is asked again")
        self.wait_busy("a")
        self.others_go_on()


if __name__ == "__main__":
    e2e.main()
