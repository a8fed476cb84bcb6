# SPDX-License-Identifier: Apache-2.0
"""Kernels that are native code of their executor (PoCL) and leave the language: system calls and writes anywhere."""
import errno
import os
import platform
import random
import signal
import socket
import subprocess
import time
import unittest

import hostile
from hostile import STRANGER, TENANT, e2e, executors_of

ESCAPE = os.path.join(e2e.BUILD, "bin/opencl_escape")
OPEN, GETUID, KILL, CONNECT, SOCKET, CREAT, WRITE, SHMGET = 2, 102, 62, 42, 41, 85, 1, 29  # numbers of system calls

SHORT = [hostile.LOOP, "0.2", "65536", "200", "4"]
PROCESSES_MAX = 4096  # of an executor's user
# Memory that an executor shares with the daemon, with its clients, and with none.
OF_THE_GATE = ("weir-vgpu", "weir-process")
OF_CLIENTS = ("weir-opencl-rings", "weir-opencl-arena")
OF_ITS_OWN = ("heap", "stack", "data of libraries", "other memory")
RANGE_MAX = 4 << 20  # of a larger range of memory, the first and the last so many bytes are written

on_x86_64 = unittest.skipUnless(platform.machine() == "x86_64", "the kernel's system calls are those of x86-64")


def writable_ranges(pid):
    """The ranges of its memory that a process may write to, as (address, size), by kind."""
    found = {}
    with open(f"/proc/{pid}/maps") as lines:
        for line in lines:
            addresses, rights, _, _, _, *name = line.split(maxsplit=5)
            if rights[1] != "w":
                continue
            start, end = (int(address, 16) for address in addresses.split("-"))
            name = name[0].strip() if name else ""
            kind = {"": "other memory", "[heap]": "heap", "[stack]": "stack"}.get(name, "data of libraries")
            kind = next((each for each in OF_THE_GATE + OF_CLIENTS if name.startswith(f"/memfd:{each}")), kind)
            ranges = [(start, end - start)]
            if end - start > 2 * RANGE_MAX:
                ranges = [(start, RANGE_MAX), (end - RANGE_MAX, RANGE_MAX)]
            found.setdefault(kind, []).extend(ranges)
    return found


@on_x86_64
class Escape(hostile.Hostile):
    def abstract_socket(self):
        """The name of an abstract Unix socket that every process of this namespace may connect to."""
        name = f"weir-escape-{os.getpid()}"
        listener = socket.socket(socket.AF_UNIX)
        self.addCleanup(listener.close)
        listener.bind("\0" + name)
        listener.listen(8)
        with socket.socket(socket.AF_UNIX) as client:
            client.connect("\0" + name)
        return name

    def test_a_kernel_that_makes_system_calls_reaches_nothing_of_others(self):
        self.node.create("mine", owner_uid=TENANT.pw_uid)
        self.node.create("other", owner_uid=TENANT.pw_uid)
        self.start(hostile.at_work(), "other", user=TENANT)
        self.wait_busy("other")
        home = os.path.join(self.node.run_dir, "homes")
        owners_file = os.path.join(self.node.folder, "owners")
        with open(owners_file, "w") as file:
            file.write("secret")
        os.chown(owners_file, TENANT.pw_uid, TENANT.pw_gid)
        os.chmod(owners_file, 0o600)
        open_file = os.path.join(self.node.folder, "open-to-all")
        with open(open_file, "w") as file:
            file.write("of a user who shares with the users here")
        os.chmod(open_file, 0o644)
        landing = f"/tmp/weir-escape-{os.getpid()}"
        self.addCleanup(lambda: os.path.exists(landing) and os.unlink(landing))
        abstract = self.abstract_socket()
        calls = {
            f"{GETUID}": None,
            f"{CREAT} {home}/mine/kept 384": None,
            f"{OPEN} /etc/shadow 0": -errno.EACCES,
            f"{OPEN} {owners_file} 0": -errno.EACCES,
            f"{OPEN} {home}/other/kept 0": -errno.EACCES,
            f"{OPEN} {self.node.state_dir}/node.json 0": -errno.EACCES,
            f"{KILL} {self.node.process.pid} 0": -errno.EPERM,
            f"{KILL} {executors_of(self.node, 'other')[0]} 0": -errno.EPERM,
            f"{SOCKET} {socket.AF_INET} {socket.SOCK_STREAM} 0": -errno.EPERM,
            f"{SHMGET} 0 4096 384": -errno.EPERM,
            f"{SOCKET} {socket.AF_UNIX} {socket.SOCK_STREAM} 0": None,
        }
        connect = f"{CONNECT} last %{socket.AF_UNIX.value}%0%0{abstract} {3 + len(abstract)}"
        if not hostile.why_no_namespaces():
            calls[connect] = -errno.ECONNREFUSED
        elif hostile.landlock_version() >= 6:
            calls[connect] = -errno.EPERM
        if hostile.landlock_version() >= 1:
            calls[f"{CREAT} {landing} 384"] = -errno.EACCES
            calls[f"{OPEN} {open_file} 0"] = -errno.EACCES
            calls[f"{OPEN} /dev/tty 0"] = -errno.EACCES
        program = self.start([ESCAPE, *calls], "mine", user=TENANT, stdout=subprocess.PIPE, text=True)
        out, _ = program.communicate(timeout=e2e.PATIENCE)
        self.assertEqual(program.returncode, 0)
        got = dict(zip(calls, map(int, out.split())))
        self.assertEqual(len(got), len(calls), out)
        self.assertGreaterEqual(got.pop(f"{GETUID}"), hostile.FIRST_OWN, "the kernel's code ran in the executor")
        self.assertGreaterEqual(got.pop(f"{CREAT} {home}/mine/kept 384"), 0, "its own folder")
        self.assertGreaterEqual(got.pop(f"{SOCKET} {socket.AF_UNIX} {socket.SOCK_STREAM} 0"), 0, "drivers use Unix sockets")
        self.assertEqual(got, {call: result for call, result in calls.items() if result is not None})
        self.assertFalse(os.path.exists(landing))
        self.daemon_is_well()

    def test_what_a_kernel_writes_to_standard_error_is_logged_as_its_vgpus(self):
        self.node.create("mine", owner_uid=TENANT.pw_uid)
        text = "weir:all-is-well\nweir:\x1b[2J\n"
        program = self.start([ESCAPE, f"{WRITE} 2 {text} {len(text)}"], "mine", user=TENANT, stdout=subprocess.PIPE, text=True)
        out, _ = program.communicate(timeout=e2e.PATIENCE)
        self.assertEqual((program.returncode, out), (0, f"{len(text)}\n"), "the kernel wrote it")
        said = "weir: the executor of 'mine' says: weir:"
        e2e.wait_for(lambda: f"{said}all-is-well\n{said}?[2J\n" in self.node.log_text(), "the log has both lines")
        self.assertNotIn("\nweir:all", self.node.log_text())
        self.daemon_is_well()

    def test_a_kernel_that_takes_the_machines_memory_ends_its_own_executor_only(self):
        if hostile.why_no_groups():
            self.skipTest(hostile.why_no_groups())
        self.node.kill()
        self.node.arguments = (*self.node.arguments, "--executor-memory", "1GiB")
        self.node.start()
        for name in ("mine", "other"):
            self.node.create(name, owner_uid=TENANT.pw_uid)
        other = self.start(hostile.at_work(), "other", user=TENANT)
        self.wait_busy("other")
        before = executors_of(self.node, "other")
        for mib, status in ((64, 0), (2048, 2)):
            program = self.start([ESCAPE, "hoard", str(mib)], "mine", user=TENANT, stdout=subprocess.PIPE, text=True)
            out, _ = program.communicate(timeout=e2e.PATIENCE)
            self.assertEqual((program.returncode, out == ""), (status, status != 0), f"{mib} MiB: {out}")
        e2e.wait_for(lambda: "signal 9: the kernel ended it for want of memory" in self.node.log_text(),
                     "the log says why it ended")
        self.assertIsNone(other.poll())
        self.assertEqual(executors_of(self.node, "other"), before)
        self.wait_busy("other")
        self.finds_its_device("mine")  # another executor serves the next program
        self.daemon_is_well()

    def processes_of(self, vgpu):
        """The pids of the vGPU's executors, and of what they have made that has started no other program."""
        found, attach = [], os.path.join(self.node.run_dir, "vgpu", vgpu + ".sock")
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline") as line:
                    if attach in line.read().split("\0"):
                        found.append(int(pid))
            except OSError:
                continue
        return found

    def end_processes_of(self, vgpu):
        for pid in self.processes_of(vgpu):
            hostile.kill_if_there(pid)

    def computes(self, vgpu, user):
        program = self.start(SHORT, vgpu, user=user, stdout=subprocess.PIPE, text=True)
        out, _ = program.communicate(timeout=e2e.PATIENCE)
        self.assertEqual((program.returncode, "wrong 0" in out), (0, True), f"{vgpu}: {out}")

    def test_a_kernel_that_makes_processes_without_end_takes_no_place_of_others(self):
        if hostile.why_no_groups():
            self.skipTest(hostile.why_no_groups())
        for name, user in (("mine", TENANT), ("other", STRANGER), ("later", STRANGER)):
            self.node.create(name, owner_uid=user.pw_uid)
        other = self.start([hostile.LOOP, "600", "65536", "200", "4"], "other", user=STRANGER)
        self.wait_busy("other")
        before = executors_of(self.node, "other")
        self.addCleanup(self.end_processes_of, "mine")
        program = self.start([ESCAPE, "swarm", str(PROCESSES_MAX + 900)], "mine", user=TENANT, stdout=subprocess.PIPE,
                             text=True)
        out, _ = program.communicate(timeout=e2e.PATIENCE)
        self.assertEqual(program.returncode, 0)
        made, error = map(int, out.split())
        print(f"a kernel has made {made} processes, and got errno {error}")
        self.assertEqual(error, errno.EAGAIN)
        self.assertLess(made, PROCESSES_MAX)
        self.assertGreater(made, PROCESSES_MAX // 2, "nothing else has kept it from more")
        self.assertGreaterEqual(len(self.processes_of("mine")), made, "they still run")
        self.computes("later", STRANGER)  # its executor starts beside them
        self.assertIsNone(other.poll())
        self.assertEqual(executors_of(self.node, "other"), before)
        self.wait_busy("other")
        self.daemon_is_well()
        status, body = self.node.call("DELETE", "/v1/vgpus/mine?force=true")
        self.assertEqual(status, 200, body)
        e2e.wait_for(lambda: not self.processes_of("mine"), "they end with their vGPU")
        self.node.create("mine", owner_uid=TENANT.pw_uid)
        self.computes("mine", TENANT)

    def test_a_kernel_that_writes_anywhere_fails_its_own_run_only(self):
        for name in ("mine", "other"):
            self.node.create(name, owner_uid=TENANT.pw_uid)
        other = self.start(hostile.at_work(), "other", user=TENANT)
        self.wait_busy("other")
        before = executors_of(self.node, "other")
        program = self.start([ESCAPE, "scribble", "8", "8", "0"], "mine", user=TENANT, stdout=subprocess.PIPE, text=True)
        out, _ = program.communicate(timeout=e2e.PATIENCE)
        self.assertEqual((program.returncode, out), (2, ""), "its run fails")
        e2e.wait_for(lambda: f"signal {signal.SIGSEGV.value}" in self.node.log_text(), "the end is logged")
        self.assertIsNone(other.poll())
        self.assertEqual(executors_of(self.node, "other"), before)
        self.wait_busy("other")
        self.finds_its_device("mine")  # another executor serves the next program
        self.daemon_is_well()


@on_x86_64
class Mapped(hostile.Hostile):
    """Kernels that write into memory that their executor has mapped. A program of another user's vGPU computes beside
    them, checks each result at its end, and may see no error."""

    def setUp(self):
        super().setUp()
        self.node.create("other", owner_uid=STRANGER.pw_uid)
        loop = [hostile.LOOP, "6000", "65536", "200", "4"]
        self.other = self.start(loop, "other", user=STRANGER, stdout=subprocess.PIPE, text=True)
        self.wait_busy("other")
        self.others_executors = executors_of(self.node, "other")
        self.began, self.charged = time.monotonic(), self.node.gpu_ns()["other"]

    def scribble(self, kind, value):
        """A new vGPU's kernels fill the memory of this kind, while the executor serves another client, too."""
        self.node.create("mine", owner_uid=TENANT.pw_uid)
        client = self.start([hostile.LOOP, "600", "65536", "200", "4", "5"], "mine", user=TENANT)
        executor = e2e.wait_for(lambda: executors_of(self.node, "mine"), "its executor runs")[0]
        e2e.wait_for(lambda: {*OF_THE_GATE, *OF_CLIENTS} <= writable_ranges(executor).keys(), "it serves the client")
        ranges = writable_ranges(executor)[kind]
        random.shuffle(ranges)
        words = [str(word) for address, size in ranges for word in (address, size, value)]
        program = self.start([ESCAPE, "scribble", *words], "mine", user=TENANT, stdout=subprocess.PIPE, text=True)
        try:
            out, _ = program.communicate(timeout=60)
        except subprocess.TimeoutExpired:  # its own tenant may fail in any way
            program.kill()
            out, _ = program.communicate()
        client.kill()
        client.wait()
        print(f"{kind}, {value}: {len(out.split())} of {len(ranges)} ranges written, exit status {program.returncode}")

    def others_are_well(self):
        self.assertIsNone(self.other.poll())
        self.assertEqual(executors_of(self.node, "other"), self.others_executors)
        self.wait_busy("other")
        self.daemon_is_well()

    def other_ends_right(self):
        span, charged = time.monotonic() - self.began, (self.node.gpu_ns()["other"] - self.charged) / 1e9
        self.assertLess(charged, 1.5 * span + 1, "others are charged for none of it")
        self.other.terminate()
        out, _ = self.other.communicate(timeout=e2e.PATIENCE)
        self.assertEqual((self.other.returncode, "wrong 0" in out), (0, True), out)

    def computes_again(self, what):
        """Until a new run of the tenant ends right: clients may wait until a damaged executor has ended."""
        deadline, out = time.monotonic() + e2e.PATIENCE, ""
        while time.monotonic() < deadline:
            program = self.start(SHORT, "mine", user=TENANT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            try:
                out, _ = program.communicate(timeout=60)
            except subprocess.TimeoutExpired:
                program.kill()
                out, _ = program.communicate()
            if program.returncode == 0:
                return self.assertIn("wrong 0", out)
            time.sleep(0.5)
        return self.fail(f"{what}: no new run of 'mine' ends right: {out}")

    def delete(self):
        status, body = self.node.call("DELETE", "/v1/vgpus/mine?force=true")
        self.assertEqual(status, 200, body)

    def test_a_kernel_that_writes_into_mapped_memory_harms_no_other_tenant(self):
        cases = [(kind, value) for kind in OF_CLIENTS for value in ("0", "-1", "noise")]
        for kind, value in cases + [(kind, "noise") for kind in OF_ITS_OWN]:
            self.scribble(kind, value)
            self.others_are_well()
            self.computes_again(f"{kind}, {value}")
            self.delete()
        self.other_ends_right()

    def test_a_tenant_whose_kernel_wrote_into_its_gate_computes_again_and_is_charged(self):
        for kind, value in [(kind, value) for kind in OF_THE_GATE for value in ("0", "-1", "noise")]:
            self.scribble(kind, value)
            self.computes_again(f"{kind}, {value}")
            charged = self.node.vgpu("mine")["totals"]["gpu_ns"]
            self.computes_again(f"{kind}, {value}")
            self.assertGreater(self.node.vgpu("mine")["totals"]["gpu_ns"], charged, f"{kind}, {value}: it is charged")
            self.others_are_well()
            self.delete()
        self.other_ends_right()


if __name__ == "__main__":
    hostile.main()
