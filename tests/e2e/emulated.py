# SPDX-License-Identifier: Apache-2.0
"""A daemon that shares emulated GPUs, for tests that assert a rate, a share or a gain: the device's speed does not
depend on the host's load. The use of each process comes from the emulator's ground truth, not from the daemon's
books."""
import json
import os
import subprocess
import time

import weir_e2e as e2e

EMULATOR = os.path.join(e2e.BUILD, "bin/weir-emulated-gpu")

# A device with time slices of 2 ms between processes, like vendors' drivers. Nothing is rendered: a frame takes time of
# the device only, not of the host's processors.
CARD = '[[device]]\nname = "Card"\nmemory = "2 GiB"\narbitration = "time-slice"\nslice = "2 ms"\nswitch_cost = "20 us"\n'
# For tests of shares: frames that are long compared with the time that a busy host needs to schedule a program.
LONG_FRAMES = '[[program]]\nname = "glmark2-es2"\nframe = "30 ms"\ndrawn = false\n[[program]]\nname = "*"\nframe = "40 ms"\ndrawn = false\n'
FRAMES = '[[program]]\nname = "glmark2-es2"\nframe = "3 ms"\ndrawn = false\n[[program]]\nname = "*"\nframe = "4 ms"\ndrawn = false\n'


def truth_at(socket):
    """The ground truth of an emulator: for each device its busy time, and its use by each process."""
    said = subprocess.run([EMULATOR, "stats", "--socket", socket, "--json"], capture_output=True, text=True, timeout=30)
    if said.returncode != 0:
        raise AssertionError(f"weir-emulated-gpu stats: {said.stderr}")
    return json.loads(said.stdout)


def used_ns_in(truth, device=0):
    """The compute engine's time that each process has used, by pid."""
    used = {}
    for client in truth["devices"][device]["clients"]:
        used[client["pid"]] = used.get(client["pid"], 0) + client["busy_ns"]["compute"]
    return used


class EmulatedNode(e2e.Node):
    """`description`: the devices, in the format of docs/emulated-gpu.md."""

    def __init__(self, description, *arguments):
        super().__init__(*arguments)
        self.description = os.path.join(self.folder, "devices.toml")
        with open(self.description, "w") as file:
            file.write(description)
        self.arguments = ("--device", "emulated:" + self.description, *self.arguments)

    def truth(self):
        return truth_at(os.path.join(self.run_dir, "emulator-0.sock"))

    def used_ns(self, device=0):
        return used_ns_in(self.truth(), device)


class WithEmulatedNode(e2e.WithNode):
    description = CARD + FRAMES

    def make_node(self):
        return EmulatedNode(self.description, *self.serve_arguments)

    def measure_truth(self, programs, seconds, device=0):
        """The fraction of the device that each program used over the next `seconds`. `programs`: name to process."""
        before, start = self.node.used_ns(device), time.monotonic()
        time.sleep(seconds)
        after, span = self.node.used_ns(device), time.monotonic() - start
        return {name: (after[program.pid] - before[program.pid]) / span / 1e9 for name, program in programs.items()}
