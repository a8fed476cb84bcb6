# SPDX-License-Identifier: Apache-2.0
"""Unmodified OpenCL programs as tenants, on PoCL: results, faults, limits. opencl_shares_e2e.py tests their shares."""
import os
import shutil
import signal
import subprocess
import sys
import time
import unittest

import weir_e2e as e2e
from opencl_tenants import OpenClTenants, at_work, executors_of, loop

XAXPY, PASSED = ["clblast_test_xaxpy"], "36 test(s) passed"


def plain(out):
    return out.replace("\x1b[32m", "").replace("\x1b[0m", "")


class OpenCl(OpenClTenants):
    def finds_weir_without_vendors(self, program, expected):
        """Runs a program without OCL_ICD_VENDORS: the system's loader finds PoCL, as Khronos' loader with OCL_ICD_FILENAMES."""
        done = subprocess.run([e2e.WEIR, "--run-dir", self.node.run_dir, "run", "--vgpu", "a", "--", "env", "-u",
                               "OCL_ICD_VENDORS", *program], capture_output=True, text=True, timeout=120)
        said = plain(done.stdout)
        self.assertEqual((done.returncode, expected in said, done.stderr), (0, True, ""), said)
        self.assertNotIn("Portable Computing Language", said)

    def test_programs_give_the_same_results_as_without_weir(self):
        self.node.create("a")
        code, out, err = self.run_to_end(loop(1), "a")
        self.assertEqual((code, "wrong 0" in out), (0, True), err)
        code, out, err = self.run_to_end(["clinfo", "-l"], "a")
        self.assertEqual(code, 0, err)
        self.assertIn("Platform #0: Weir", out)
        self.assertNotIn("Portable Computing Language", out)
        code, out, err = self.run_to_end(XAXPY, "a", 120)
        self.assertEqual(code, 0, out + err)
        self.assertIn(PASSED, plain(out))
        self.finds_weir_without_vendors(XAXPY, PASSED)  # here, because its kernels are compiled now

    def test_a_loader_that_finds_the_vendors_drivers_anyway_is_replaced(self):
        self.assertIn("Portable Computing Language",
                      subprocess.run(["clinfo", "-l"], capture_output=True, text=True, timeout=e2e.PATIENCE).stdout)
        self.node.create("a")
        self.finds_weir_without_vendors(["clinfo", "-l"], "Platform #0: Weir")
        self.finds_weir_without_vendors(at_work(0.5), "wrong 0")

    def test_a_client_that_is_killed_leaves_nothing(self):
        self.node.create("a")
        program = self.start(loop(600, items=1 << 24, rounds=1), "a")
        self.wait_busy("a")
        pid = executors_of(self.node, "a")[0]
        with open(f"/proc/{pid}/statm") as statm:
            self.assertGreater(int(statm.read().split()[1]) * 4096, 64 << 20)
        self.tenants.stop(program)

        def arena_is_gone():
            try:
                with open(f"/proc/{pid}/maps") as maps:
                    return "weir-opencl-arena" not in maps.read()
            except FileNotFoundError:
                return True

        e2e.wait_for(arena_is_gone, "the arena is gone")

    def test_a_killed_executor_affects_only_its_own_clients(self):
        self.node.create("a")
        self.node.create("b")
        loser = self.start(loop(600, rounds=200), "a", stderr=subprocess.PIPE)
        other = self.start(at_work(), "b")
        for name in ("a", "b"):
            self.wait_busy(name)
        os.kill(executors_of(self.node, "a")[0], signal.SIGKILL)
        self.assertEqual(loser.wait(e2e.PATIENCE), 2)
        self.assertIn(b"error", loser.stderr.read())
        loser.stderr.close()
        self.assertIsNone(other.poll())
        self.wait_busy("b")
        code, out, err = self.run_to_end(at_work(0.5), "a")
        self.assertEqual((code, "wrong 0" in out), (0, True), err)

    def test_an_executor_that_does_not_attach_again_is_ended(self):
        self.node.create("a")
        program = self.start(at_work(), "a", stderr=subprocess.DEVNULL)
        self.wait_busy("a")
        executor = executors_of(self.node, "a")[0]
        attach = os.path.join(self.node.run_dir, "vgpu/a.sock")
        os.rename(attach, attach + ".away")  # it finds no daemon
        fail_opens = self.node.vgpu("a")["totals"]["fail_opens"]
        os.kill(self.node.process.pid, signal.SIGSTOP)
        try:
            time.sleep(3)  # without a heartbeat for a second, the executor gives its gate up
        finally:
            os.kill(self.node.process.pid, signal.SIGCONT)
        e2e.wait_for(lambda: "the executor of 'a' has lost its gate" in self.node.log_text(), "it is ended")
        self.assertGreater(self.node.vgpu("a")["totals"]["fail_opens"], fail_opens, "it computed without a gate")
        self.assertEqual(program.wait(e2e.PATIENCE), 2)
        self.assertFalse(os.path.exists(f"/proc/{executor}"))
        os.rename(attach + ".away", attach)
        code, out, err = self.run_to_end(at_work(0.5), "a")
        self.assertEqual((code, "wrong 0" in out), (0, True), err)

    def test_a_daemon_ends_executors_of_the_former_one_with_their_vgpu(self):
        self.node.create("a")
        program = self.start(at_work(), "a", stderr=subprocess.DEVNULL)
        self.wait_busy("a")
        executor = executors_of(self.node, "a")[0]
        self.node.kill()
        self.node.start()
        e2e.wait_for(lambda: executors_of(self.node, "a") == [executor], "it attaches to the next daemon")
        self.addCleanup(lambda: os.path.exists(f"/proc/{executor}") and os.kill(executor, signal.SIGKILL))
        os.kill(executor, signal.SIGSTOP)  # it does not see that it is detached
        status, body = self.node.call("DELETE", "/v1/vgpus/a?force=true")
        self.assertEqual(status, 200, body)
        os.kill(executor, signal.SIGCONT)
        e2e.wait_for(lambda: not os.path.exists(f"/proc/{executor}"), "it has ended")
        self.assertEqual(program.wait(e2e.PATIENCE), 2)

    def test_the_daemons_death_and_return_do_not_affect_programs(self):
        self.node.create("a")
        program = self.start(at_work(4), "a", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(program.stdout.close)
        self.addCleanup(program.stderr.close)
        self.wait_busy("a")
        self.node.kill()
        time.sleep(0.5)
        self.node.start()
        out, err = program.communicate(timeout=e2e.PATIENCE)
        self.assertEqual((program.returncode, b"wrong 0" in out), (0, True), err)
        code, out, err = self.run_to_end(at_work(0.5), "a")
        self.assertEqual(code, 0, err)

    def test_a_memory_limit_holds(self):
        self.node.create("small", memory_max_bytes=64 << 20)
        code, _, err = self.run_to_end(loop(0.2, items=1 << 25, rounds=1), "small")  # 128 MiB
        self.assertEqual(code, 2, err)
        self.assertIn("clCreateBuffer", err)
        code, _, err = self.run_to_end(loop(0.2, items=1 << 20, rounds=1), "small")
        self.assertEqual(code, 0, err)

    def test_an_event_and_a_metric_say_that_a_program_had_no_memory(self):
        self.node.create("small", memory_max_bytes=64 << 20)
        self.start(loop(600, items=3 << 22, rounds=1, ahead=1, rest_ms=50), "small")  # 48 MiB
        self.wait_busy("small")
        code, _, err = self.run_to_end(loop(0.2, items=3 << 22, rounds=1), "small")
        self.assertEqual(code, 2, err)

        def said():
            events = self.node.get("/v1/events?after=0&limit=1000")["events"]
            return [event["text"] for event in events if (event["kind"], event["vgpu"]) == ("no-memory", "small")]
        e2e.wait_for(said, "an event says so")
        self.assertEqual(said(), ["no memory for 1 allocation or command of its programs; its limit is 64 MiB"])
        self.assertIn('weir_vgpu_memory_refused_total{vgpu="small",device="embedded"} 1\n',
                      self.node.call("GET", "/metrics")[1])

    def test_weir_run_attaches_a_program_to_its_vgpu(self):
        done = subprocess.run([e2e.WEIR, "--run-dir", self.node.run_dir, "run", "--weight", "20", "--", *at_work(0.5)],
                              capture_output=True, text=True, timeout=e2e.PATIENCE)
        self.assertEqual((done.returncode, "wrong 0" in done.stdout), (0, True), done.stderr)

    def test_a_program_whose_executor_cannot_start_gets_the_reason(self):
        node = e2e.Node("--quiet", "--opencl-library", "/nowhere/libOpenCL.so").start()
        self.addCleanup(node.close)
        node.create("a")
        for _ in range(5):
            done = subprocess.run(["clinfo", "-l"], capture_output=True, text=True, timeout=e2e.PATIENCE, env={
                **os.environ, "WEIR_OPENCL": os.path.join(node.run_dir, "opencl", "a.sock"),
                "OCL_ICD_VENDORS": os.path.join(e2e.BUILD, "lib/weir/icd")})
            self.assertNotIn("Weir", done.stdout)
            self.assertIn("the executor ended at once", done.stderr)

    def test_a_program_without_a_daemon_finds_no_device_and_gets_the_reason(self):
        done = subprocess.run(["clinfo", "-l"], env={**os.environ, "WEIR_OPENCL": "/nowhere/a.sock",
                              "OCL_ICD_VENDORS": os.path.join(e2e.BUILD, "lib/weir/icd")},
                              capture_output=True, text=True, timeout=e2e.PATIENCE)
        self.assertNotIn("Weir", done.stdout)
        self.assertIn("/nowhere/a.sock", done.stderr)


if __name__ == "__main__":
    for program in ("clinfo", "clblast_test_xaxpy"):
        if shutil.which(program) is None:
            sys.exit(f"{program} is missing; scripts/install-deps --test brings it")
    unittest.main(verbosity=2)
