# SPDX-License-Identifier: Apache-2.0
"""Older and newer protocol versions in the Hello of each protocol, as old and new programs would send them."""
import os
import socket
import struct

import hostile
from hostile import e2e

import emulated


def text(value):
    return struct.pack("<I", len(value)) + value


def attach_hello(version=1, major=1, minor=0):
    return b"WAT1" + struct.pack("<HHHHH", version, 1, major, minor, 1) + b"\x03old"


def message(op, body):
    """With the header that OpenCL's and the network's messages have: size, operation."""
    return struct.pack("<II", 8 + len(body), op) + body


def opencl_hello(version):
    return message(1, b"WOC1" + struct.pack("<H", version) + text(b"old") + b"\0")


def network_hello(version, vgpu=b"victim"):
    body = message(1, b"WNT1" + struct.pack("<H", version) + text(vgpu) + text(b"old"))
    return struct.pack("<IHHQ", len(body), 1, 0, 0) + body


def emulator_hello(version):
    return struct.pack("<H", 1) + b"WEM1" + struct.pack("<H", version) + b"\x03old"


def port_hello(version):
    hello = struct.pack("<QQHHI", 1, 0, version, 1, 1 << 11)
    return b"WPF1" + struct.pack("<HHII", 1, 0, 0, len(hello)) + hello


class Versions(hostile.Hostile):
    needs_second_user = False

    def make_node(self):
        node = emulated.EmulatedNode(emulated.CARD, "--device", "embedded", "--listen-plain", "127.0.0.1:0")
        self.guest = os.path.join(node.folder, "guest.sock")
        node.arguments += ("--guest", self.guest + "=victim")
        return node

    def answer(self, place, said, kind="packet", seconds=100):
        attacker = self.attack(None, "hello", place, kind, said.hex(), seconds)
        answer = attacker.says()
        attacker.close()
        return answer if answer in ("closed", "silence", "refused") else bytes.fromhex(answer)

    def network_answer(self, port, said):
        with socket.create_connection(("127.0.0.1", port), timeout=e2e.PATIENCE) as there:
            there.sendall(said)
            try:
                return there.recv(4096) or "closed"
            except OSError:
                return "closed"

    def test_a_hello_of_an_older_or_newer_version_is_answered_or_refused_with_a_reason(self):
        self.node.create("victim", device="embedded")
        self.finds_its_device("victim")
        run = self.node.run_dir
        gate = os.path.join(run, "vgpu/victim.sock")
        opencl = os.path.join(run, "opencl/victim.sock")
        emulator = os.path.join(run, "emulator-0.sock")

        # The gate: another layout is refused with both numbers, a later minor version is the same layout.
        for major in (0, 2, 65535):
            self.assertIn(f"gate layout {major}, this daemon 1".encode(), self.answer(gate, attach_hello(major=major)))
        for version in (0, 2, 65535):
            self.assertIn(f"version {version}, this side speaks 1".encode(), self.answer(gate, attach_hello(version=version)))
        for minor in (0, 5, 65535):
            self.assertEqual(self.answer(gate, attach_hello(minor=minor))[6:8], b"\2\0", "a Welcome")

        # OpenCL: both sides use the smaller of the two versions; 0 is not a version.
        for version in (1, 2, 65535):
            welcome = self.answer(opencl, opencl_hello(version))
            self.assertEqual(welcome[8:14], b"WOC1\1\0", version)
        self.assertIn(b"this is not a Hello", self.answer(opencl, opencl_hello(0)))

        # The emulator's drivers.
        self.assertEqual(self.answer(emulator, emulator_hello(1))[:2], b"\2\0", "a Welcome")
        for version in (0, 2, 65535):
            self.assertIn(self.answer(emulator, emulator_hello(version))[:2], (b"\3\0", "cl"), "a Refusal, or the end")

        # The network.
        def port():
            try:
                with open(os.path.join(run, "portal-plain.port")) as file:
                    return int(file.read())
            except (FileNotFoundError, ValueError):
                return 0

        portal = e2e.wait_for(port, "the portal listens")
        for version in (1, 2, 3, 65535):
            welcome = self.network_answer(portal, network_hello(version))
            self.assertEqual(welcome[24:28], b"WNT1", version)
            self.assertIn(struct.unpack_from("<H", welcome, 28)[0], (1, 2))
        self.assertEqual(self.network_answer(portal, network_hello(0)), "closed")

        # A virtual machine's port.
        e2e.wait_for(lambda: os.path.exists(self.guest), "the guest's portal listens")
        for version in (0, 1, 2, 65535):
            self.answer(self.guest, port_hello(version), "stream", seconds=5)  # some of them have no answer

        self.daemon_is_well()
        self.assertNotIn("has ended", self.node.log_text())
        self.finds_its_device("victim")


if __name__ == "__main__":
    hostile.main()
