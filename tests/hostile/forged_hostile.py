# SPDX-License-Identifier: Apache-2.0
"""A process that is not an executor forges memory statistics."""
import mmap
import os
import socket
import struct
import time

import hostile
from hostile import e2e

# Places in a process' region (src/proto/gate_layout.h).
WORK_ITEMS, MEMORY_BYTES, MEMORY = 104, 112, 384
U64 = struct.pack("<Q", (1 << 64) - 1)


def attach_as_executor(path):
    """Attaches as an OpenCL executor would, and returns the connection and its process region, mapped."""
    there = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    there.connect(path)
    there.send(b"WAT1" + struct.pack("<HHHHH", 1, 1, 1, 5, 4) + b"\x04fake")
    welcome, descriptors, _, _ = socket.recv_fds(there, 512, 3)
    if welcome[6:8] != b"\2\0" or len(descriptors) != 3:
        raise AssertionError(f"no Welcome: {welcome!r}")
    region = mmap.mmap(descriptors[1], os.fstat(descriptors[1]).st_size)
    for fd in descriptors:
        os.close(fd)
    return there, region


class Forged(hostile.Hostile):
    needs_second_user = False

    def memory_of(self, vgpu):
        memory = self.node.vgpu(vgpu)["memory"]
        return self.node.vgpu(vgpu)["use"] | {key: memory[key] for key in ("need_bytes", "in_use_bytes", "made_bytes", "resident_slots", "evictions", "waits")}

    def test_forged_memory_statistics_of_a_non_executor_change_no_figure(self):
        status, body = self.node.call("PUT", "/v1/devices/embedded/memory", {"size_bytes": 1 << 30})
        self.assertEqual(status, 200, body)
        self.node.create("liar", memory_min_bytes=64 << 20, memory_max_bytes=512 << 20)
        self.node.create("victim", memory_min_bytes=64 << 20, memory_max_bytes=512 << 20)
        # No executor runs: the threads of an honest one are late on a busy host, which is pressure, too.
        before = {name: self.memory_of(name) for name in ("liar", "victim")}
        device = self.node.get("/v1/devices/embedded/memory")
        liars = [attach_as_executor(os.path.join(self.node.run_dir, "vgpu/liar.sock")) for _ in range(4)]
        for there, region in liars:
            self.addCleanup(there.close)
            region[WORK_ITEMS:WORK_ITEMS + 16] = U64 * 2
            region[MEMORY:MEMORY + 128] = U64 * 16  # all statistics, as if threads were late by 2^64 ns
        # The daemon reads these statistics many times a second.
        end = time.monotonic() + 3
        while time.monotonic() < end:
            self.assertEqual({name: self.memory_of(name) for name in ("liar", "victim")}, before)
            now = self.node.get("/v1/devices/embedded/memory")
            self.assertEqual(now["pressure"], device["pressure"])
            self.assertEqual(now["owners"], device["owners"])
            time.sleep(0.1)
        self.daemon_is_well()
        code, out, err = self.run_to_end(hostile.at_work(1), "victim")
        self.assertEqual((code, "wrong 0" in out), (0, True), err)


if __name__ == "__main__":
    hostile.main()
