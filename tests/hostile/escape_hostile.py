# SPDX-License-Identifier: Apache-2.0
"""Kernels that are native code of their executor (PoCL) and leave the language: system calls and writes anywhere."""
import errno
import os
import platform
import signal
import socket
import subprocess
import unittest

import hostile
from hostile import TENANT, e2e, executors_of

ESCAPE = os.path.join(e2e.BUILD, "bin/opencl_escape")
OPEN, GETUID, KILL, CONNECT, SOCKET, CREAT, WRITE, SHMGET = 2, 102, 62, 42, 41, 85, 1, 29  # numbers of system calls


@unittest.skipUnless(platform.machine() == "x86_64", "the kernel's system calls are those of x86-64")
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

    def test_a_kernel_that_writes_anywhere_fails_its_own_run_only(self):
        for name in ("mine", "other"):
            self.node.create(name, owner_uid=TENANT.pw_uid)
        other = self.start(hostile.at_work(), "other", user=TENANT)
        self.wait_busy("other")
        before = executors_of(self.node, "other")
        program = self.start([ESCAPE, "scribble"], "mine", user=TENANT, stdout=subprocess.PIPE, text=True)
        out, _ = program.communicate(timeout=e2e.PATIENCE)
        self.assertEqual((program.returncode, out), (2, ""), "its run fails")
        self.assertIn(f"signal {signal.SIGSEGV.value}", self.node.log_text())
        self.assertIsNone(other.poll())
        self.assertEqual(executors_of(self.node, "other"), before)
        self.wait_busy("other")
        self.finds_its_device("mine")  # another executor serves the next program
        self.daemon_is_well()


if __name__ == "__main__":
    hostile.main()
