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
DEVICES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../devices")

# A device with time slices of 2 ms between processes, like vendors' drivers. Nothing is rendered: a frame takes time of
# the device only, not of the host's processors.
CARD = '[[device]]\nname = "Card"\nmemory = "2 GiB"\narbitration = "time-slice"\nslice = "2 ms"\nswitch_cost = "20 us"\n'
# For tests of shares: frames that are long compared with the time that a busy host needs to schedule a program.
LONG_FRAMES = '[[program]]\nname = "glmark2-es2"\nframe = "30 ms"\ndrawn = false\n[[program]]\nname = "*"\nframe = "40 ms"\ndrawn = false\n'
FRAMES = '[[program]]\nname = "glmark2-es2"\nframe = "3 ms"\ndrawn = false\n[[program]]\nname = "*"\nframe = "4 ms"\ndrawn = false\n'


def path_of(device):
    """Of the description that `emulated:FILE` names: a file, or the name of one in devices/."""
    name = device.removeprefix("emulated:")
    return os.path.abspath(name) if os.path.exists(name) else os.path.join(DEVICES, name + ".toml")


def truth_at(socket):
    """The ground truth of an emulator: for each device its busy time, and its use by each process."""
    said = subprocess.run([EMULATOR, "stats", "--socket", socket, "--json"], capture_output=True, text=True,
                          timeout=e2e.PATIENCE)
    if said.returncode != 0:
        raise AssertionError(f"weir-emulated-gpu stats: {said.stderr}")
    return json.loads(said.stdout)


def used_ns_in(truth, device=0):
    """The compute engine's time that each process has used, by pid."""
    used = {}
    for client in truth["devices"][device]["clients"]:
        used[client["pid"]] = used.get(client["pid"], 0) + client["busy_ns"]["compute"]
    return used


def settle(read, seconds, check, times=6):
    """What `read` gives, once `check` accepts it: see WithEmulatedNode.settled."""
    for left in reversed(range(times)):
        time.sleep(seconds)
        value = read()
        try:
            check(value)
            return value
        except AssertionError as error:
            if left == 0:
                raise
            print(f"not yet after {seconds * (times - left)} s: {str(error).splitlines()[-1]}")


def run_promptly(wanted):
    """What is started next, the daemon and the programs, does not wait for other work of the host. For tests whose programs take
    little of the processors. False: not permitted."""
    try:
        os.sched_setscheduler(0, os.SCHED_RR if wanted else os.SCHED_OTHER, os.sched_param(5 if wanted else 0))
    except PermissionError:
        return False
    return True


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
    # Shares and rates are decided by the device and the daemon. A program that the host does not run for 50 ms has less than
    # its share, which says nothing about them.
    prompt_if_permitted = False

    def setUp(self):
        self.prompt = self.prompt_if_permitted and run_promptly(True)
        if self.prompt:
            self.addCleanup(run_promptly, False)
        super().setUp()

    def make_node(self):
        return EmulatedNode(self.description, *self.serve_arguments)

    def measure_truth(self, programs, seconds, device=0):
        """The fraction of the device that each program uses over the next `seconds`. `programs`: name to process."""
        return self.settled(programs, seconds, lambda use: None, device=device)

    def settled(self, programs, seconds, check, device=0, afresh=False):
        """The fraction of the device that each program has used since this call, once `check` accepts it. It is read after
        `seconds`, and while `check` fails again after as long, six times in all. A pause of the host moves a few launches
        from one program to another once, and counts for less the longer the time is. A wrong share stays wrong.
        `afresh`: each time counts by itself. For checks that all of the device is used: what the host's pauses leave idle
        does not come back, so a later time can't make up for it.
        `programs`: name to process, pid, or several of them."""
        pids = {name: [getattr(one, "pid", one) for one in (program if isinstance(program, list) else [program])]
                for name, program in programs.items()}
        before, start = self.node.used_ns(device), time.monotonic()

        def used():
            nonlocal before, start
            after, now = self.node.used_ns(device), time.monotonic()
            span = now - start
            # The emulator knows no process that has not begun to use it.
            used_by = {name: sum(after.get(pid, 0) - before.get(pid, 0) for pid in mine) for name, mine in pids.items()}
            if afresh:
                before, start = after, now
            return {name: ns / span / 1e9 for name, ns in used_by.items()}

        return settle(used, seconds, check)
