# SPDX-License-Identifier: Apache-2.0
"""OpenCL from a real virtual machine: a user-mode Linux, which is a kernel of its own with its own processes, has the
host's files to read and one serial line to the host, and nothing else. Its programs compute on the host's device."""
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

import weir_e2e as e2e
from distant import SCENES

KERNEL = shutil.which("linux.uml") or shutil.which("linux")
REGISTERS = os.path.join(e2e.BUILD, "lib/uml_registers.so")
# /run is the guest's own; everything else is the host's, read-only.
INIT = """#!/bin/sh
PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/run
export PATH HOME
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t tmpfs run /run
[ -c /dev/ttyS0 ] || mount -t devtmpfs dev /dev
exec </dev/null
echo "guest: $(uname -sr)"
run() {{ {weir} run --run-dir /run/weir --node /dev/ttyS0 -- "$@"; }}
{script}
echo "guest: done"
exec python3 -c 'import ctypes; ctypes.CDLL(None).sync(); ctypes.CDLL(None).reboot(0x4321fedc)'
"""


def few_reads(seconds):
    """One buffer of 16 MiB that is read and compared at the end: this kernel's serial line carries some 1 MiB/s."""
    return " ".join([SCENES, str(seconds), "16", "16", "1", "8", "0", "1000"])


class Guest:
    """A virtual machine that runs a script and switches itself off. Its serial line is this socket."""

    def __init__(self, folder, line, script, memory="512M"):
        self.init = os.path.join(folder, "init")
        with open(self.init, "w") as file:
            file.write(INIT.format(weir=e2e.WEIR, script=script))
        os.chmod(self.init, 0o755)
        self.process = subprocess.Popen(
            [KERNEL, f"mem={memory}", "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro", f"init={self.init}",
             "con0=null,fd:1", "con=null", f"ssl0=fd:{line.fileno()}", "ssl=null", "quiet"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
            pass_fds=[line.fileno()], start_new_session=True, env={**os.environ, "LD_PRELOAD": REGISTERS})

    def said(self, seconds=180):
        return self.process.communicate(timeout=seconds)[0]

    def kill(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()


class VirtualMachine(unittest.TestCase):
    def setUp(self):
        self.here = tempfile.mkdtemp(prefix="weir-e2e-")
        self.addCleanup(shutil.rmtree, self.here, ignore_errors=True)
        self.node = e2e.Node()
        self.addCleanup(self.node.close)
        self.at = os.path.join(self.node.folder, "vm1.sock")
        self.node.arguments = ("--guest", f"{self.at}=vm1")
        self.node.start()
        self.node.create("vm1")

    def boot(self, script):
        line = socket.socket(socket.AF_UNIX)
        self.addCleanup(line.close)
        e2e.wait_for(lambda: line.connect_ex(self.at) == 0, 20, "the portal listens")
        guest = Guest(self.here, line, script)
        line.close()
        self.addCleanup(guest.kill)
        return guest

    def test_programs_of_a_guest_compute_on_the_hosts_device(self):
        command = few_reads(2)
        said = self.boot(f"""
run clinfo -l; echo "clinfo: $?"
run {command}; echo "scenes: $?"
run {command} >/run/a & run {command} >/run/b; wait; cat /run/a /run/b; echo "both: $?"
""").said()
        for word in ("Platform #0: Weir", "clinfo: 0", "scenes: 0", "both: 0", "guest: done"):
            self.assertIn(word, said, self.node.log_text())
        self.assertEqual(said.count("wrong 0"), 3, said)
        self.assertGreater(self.node.vgpu("vm1")["totals"]["gpu_ns"], 0, "they passed the host's gate")
        e2e.wait_for(lambda: self.node.log_text().count("has left 'vm1'") >= 4, 20, "they have left")

    def test_one_that_is_switched_off_in_the_middle_leaves_nothing_and_the_next_one_is_served(self):
        first = self.boot(f"run {few_reads(60)}")
        e2e.wait_for(lambda: self.node.vgpu("vm1")["totals"]["gpu_ns"] > 0, 90, "it computes")
        first.kill()
        e2e.wait_for(lambda: "has left 'vm1'" in self.node.log_text(), 20, "the host has noticed")
        said = self.boot(f"run {few_reads(1)}").said()
        self.assertIn("wrong 0", said, self.node.log_text())


if __name__ == "__main__":
    if KERNEL is None:
        sys.exit("linux.uml is missing; scripts/install-deps --long brings it")
    unittest.main(verbosity=2)
