# SPDX-License-Identifier: Apache-2.0
"""OpenCL through a virtual machine's port, without a virtual machine. The guest's port is a terminal, which a thread of
this test connects to the host as a hypervisor would; or it is a file that both sides map, like a guest's shared
memory. guest_e2e.py tests a real guest."""
import os
import select
import signal
import socket
import subprocess
import termios
import threading
import unittest

import weir_e2e as e2e
from distant import Distant, scenes
from opencl_tenants import loop


class Cable:
    """A guest's port, and the connection from it to a socket or to the host's end of another terminal."""

    def __init__(self, to=None):
        self.guest, slave = os.openpty()
        self.slave = slave  # stays open, because otherwise the port would seem gone whenever no process has it open
        self.port = os.ttyname(slave)
        self.to = to
        self.host = None
        self.wake = os.pipe()
        self.ended = False
        self.thread = threading.Thread(target=self.carry)
        self.thread.start()

    def plug(self):
        def connected():
            try:
                self.host = socket.socket(socket.AF_UNIX)
                self.host.connect(self.to)
                return True
            except OSError:
                self.host.close()
                self.host = None
        e2e.wait_for(connected, "the host's end is there")
        os.write(self.wake[1], b"x")

    def plug_terminal(self, master):
        self.host = os.fdopen(master, "r+b", buffering=0)
        os.write(self.wake[1], b"x")

    def unplug(self):
        if isinstance(self.host, socket.socket):
            self.host.shutdown(socket.SHUT_RDWR)

    def carry(self):
        while not self.ended:
            host = self.host
            ends = [self.wake[0]] + ([self.guest, host.fileno()] if host else [])
            for ready in select.select(ends, [], [])[0]:
                try:
                    data = os.read(ready, 65536)
                except OSError:
                    data = b""
                if ready == self.wake[0]:
                    continue
                if not data:
                    host.close()
                    self.host = None
                    break
                to = self.guest if ready != self.guest else host.fileno()
                while data:
                    try:
                        data = data[os.write(to, data):]
                    except OSError:
                        data = b""

    def close(self):
        self.ended = True
        os.write(self.wake[1], b"x")
        self.unplug()
        while self.thread.is_alive():  # the thread may be writing to a port that no process reads
            termios.tcflush(self.slave, termios.TCIOFLUSH)
            self.thread.join(0.05)
        for fd in (self.guest, self.slave, *self.wake):
            os.close(fd)
        if self.host:
            self.host.close()


class Port(Distant):
    def make_node(self):
        """Two guests: the hypervisor connects one to a socket, and the other's port is a terminal."""
        self.hosts_end, tty_of_host = os.openpty()
        self.addCleanup(os.close, tty_of_host)
        node = e2e.Node()
        self.at = os.path.join(node.folder, "vm1.sock")
        node.arguments = ("--guest", f"{self.at}=vm1", "--guest-at", f"{os.ttyname(tty_of_host)}=vm2")
        return node

    def setUp(self):
        super().setUp()
        self.cable, self.line = Cable(self.at), Cable()
        self.addCleanup(self.cable.close)
        self.addCleanup(self.line.close)
        self.addCleanup(self.end_programs)
        self.cable.plug()
        self.line.plug_terminal(self.hosts_end)

    def end_programs(self):
        """Before their ports are closed: a relay opens its port again, and the next terminal of that name may be another
        test's."""
        e2e.end_all(self.processes)
        self.await_end(self.helper("weir-relay"))

    def run_by(self, port, command, *more):
        process = subprocess.Popen(
            [e2e.WEIR, "run", "--run-dir", os.path.join(self.here, "run"), "--node", port, *more, "--", *command],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.processes.append(process)
        return process

    def refused(self, process, *words):
        code, out, err = self.ended(process)
        self.assertNotEqual(code, 0, out + err)
        for word in words:
            self.assertIn(word, err)

    def test_unmodified_programs_use_the_hosts_device_several_at_once(self):
        self.node.create("vm1")
        self.node.create("vm2")
        code, out, err = self.ended(self.run_by(self.cable.port, ["clinfo", "-l"]))
        self.assertEqual((code, "Platform #0: Weir" in out), (0, True), out + err)
        for program in [self.run_by(port, scenes(1)) for port in (self.cable.port, self.cable.port, self.line.port)]:
            self.right(program)
        for vgpu in ("vm1", "vm2"):
            self.assertGreater(self.node.vgpu(vgpu)["totals"]["gpu_ns"], 0, "it passed the host's gate")

    def test_refusals_have_a_reason(self):
        self.refused(self.run_by(self.cable.port, ["clinfo", "-l"]), "no vGPU 'vm1'")
        self.node.create("vm1")
        self.refused(self.run_by(self.cable.port, ["clinfo", "-l"], "--plain", "--vgpu", "vm2"),
                     "the host assigns this machine's vGPU")
        self.refused(self.run_by("/dev/virtio-ports/none.0", ["clinfo", "-l"]), "/dev/virtio-ports/none.0", "No such file")
        self.refused(self.run_by(self.here, ["clinfo", "-l"]), "neither a character device nor a socket")
        self.cable.unplug()
        e2e.wait_for(lambda: not self.helper("weir-port"), "the one that knew the host has ended")
        self.refused(self.run_by(self.cable.port, ["clinfo", "-l"]), "no answer from the host's end")

    def test_a_cut_connection_ends_its_programs_and_the_next_ones_work(self):
        self.node.create("vm1")

        def kill(name):
            pids = self.helper(name)
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
            self.await_end(pids)

        def replug():
            self.cable.unplug()
            e2e.wait_for(lambda: self.cable.host is None, "the cable is out")
            self.cable.plug()

        # The hypervisor restarts; the guest restarts; a person logs in on the line; the host's portal ends.
        for harm in (replug, lambda: kill("weir-port"), lambda: os.write(self.cable.slave, b"login: \r\n" * 50),
                     lambda: (kill("weir-portal"), e2e.wait_for(lambda: self.cable.host is None, "cut"),
                              self.cable.plug())):
            program = self.run_by(self.cable.port, loop(60, rounds=200))
            self.assertEqual(program.stdout.readline(), "ready\n")  # work of the previous program may still be computed
            self.busy("vm1", self.node.vgpu("vm1")["totals"]["gpu_ns"])
            harm()
            code, out, err = self.ended(program)
            self.assertNotEqual(code, 0, out + err)
            code, out, err = self.ended(self.run_by(self.cable.port, ["clinfo", "-l"]))
            self.assertEqual((code, "Platform #0: Weir" in out), (0, True), f"{out}{err}{self.node.log_text()[-2000:]}")
        e2e.wait_for(lambda: not self.helper("weir-port"), "no process has the port open")

    def test_the_daemons_death_does_not_affect_a_guests_program(self):
        self.node.create("vm1")
        program = self.run_by(self.cable.port, scenes())
        self.busy("vm1")
        portals = self.helper("weir-portal")
        self.node.kill()
        self.assertIsNone(program.poll())
        self.node.start()
        self.goes_on("vm1")
        self.over(program)
        e2e.wait_for(lambda: self.cable.host is None, "the old portal has gone with its last program")
        self.await_end(portals)
        self.cable.plug()
        # A program that starts before the guest's end has noticed gets the error that its device is gone.
        e2e.wait_for(lambda: self.ended(self.run_by(self.cable.port, ["clinfo", "-l"]))[0] == 0, "the new one serves")


class Memory(Distant):
    def make_node(self):
        """A guest with shared memory."""
        node = e2e.Node()
        self.memory = os.path.join(node.folder, "vm1.mem")
        node.arguments = ("--guest-memory", f"{self.memory}=vm1,size=1M")
        return node

    def setUp(self):
        super().setUp()
        e2e.wait_for(self.is_set_up, "the portal has made the memory")
        self.node.create("vm1")

    def is_set_up(self):
        try:
            with open(self.memory, "rb") as file:
                return file.read(4) == b"WPM1"
        except FileNotFoundError:
            return False

    def run_by(self, memory, command):
        process = subprocess.Popen(
            [e2e.WEIR, "run", "--run-dir", os.path.join(self.here, "run"), "--node", memory, "--", *command],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.processes.append(process)
        return process

    def test_unmodified_programs_use_the_hosts_device_several_at_once(self):
        info = os.stat(self.memory)
        self.assertEqual((info.st_mode & 0o777, info.st_size), (0o600, 1 << 20))
        for program in [self.run_by(self.memory, scenes(1)) for _ in range(2)]:
            self.right(program)
        self.assertGreater(self.node.vgpu("vm1")["totals"]["gpu_ns"], 0, "it passed the host's gate")

    def test_refusals_have_a_reason(self):
        other = os.path.join(self.here, "other")
        for content, words in ((b"", "too few"), (b"x" * 100000, "is not a guest's shared memory"),
                               (bytes(100000), "'weir serve --guest-memory FILE=VGPU' is needed")):
            with open(other, "wb") as file:
                file.write(content)
            code, out, err = self.ended(self.run_by(other, ["clinfo", "-l"]))
            self.assertNotEqual(code, 0, out + err)
            self.assertIn(words, err)

    def test_a_cut_connection_ends_its_programs_and_the_next_ones_work(self):
        def kill(name):
            for pid in self.helper(name):
                os.kill(pid, signal.SIGKILL)

        def rubbish():
            with open(self.memory, "r+b", buffering=0) as file:
                file.seek(64)
                file.write(os.urandom(200000))

        # The guest's end is killed, and the host's; the guest overwrites the positions of both sides and both rings.
        for harm in (lambda: kill("weir-port"), lambda: kill("weir-portal"), rubbish):
            program = self.run_by(self.memory, loop(60, rounds=200))
            self.assertEqual(program.stdout.readline(), "ready\n")
            self.busy("vm1", self.node.vgpu("vm1")["totals"]["gpu_ns"])
            harm()
            code, out, err = self.ended(program)
            self.assertNotEqual(code, 0, out + err)
            e2e.wait_for(lambda: self.ended(self.run_by(self.memory, ["clinfo", "-l"]))[0] == 0, "the next one")
        e2e.wait_for(lambda: not self.helper("weir-port"), "no process has the memory")

    def test_the_daemons_death_does_not_affect_a_guests_program(self):
        program = self.run_by(self.memory, scenes())
        self.busy("vm1")
        self.node.kill()
        self.assertIsNone(program.poll())
        self.node.start()
        self.goes_on("vm1")
        self.over(program)
        e2e.wait_for(lambda: self.ended(self.run_by(self.memory, ["clinfo", "-l"]))[0] == 0, "the new one serves")


if __name__ == "__main__":
    unittest.main(verbosity=2)
