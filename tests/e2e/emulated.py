# SPDX-License-Identifier: Apache-2.0
"""A daemon that shares emulated GPUs, for tests that assert a rate, a share or a gain: the device's speed does not
depend on the host's load. The use of each process comes from the emulator's ground truth, not from the daemon's
books."""
import json
import os
import socket
import struct
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


# Messages of src/proto/emulator_messages.h: a packet each, which begins with its kind. A Welcome comes before the Accounts.
HELLO, ASK_ACCOUNTS = struct.pack("<H4sHB", 1, b"WEM1", 1, 5) + b"truth", struct.pack("<H", 10)
REFUSAL, ACCOUNTS = 3, 11
PACKET_BYTES_MAX = 64 << 10


def truth_at(path):
    """The ground truth of the emulator at a socket: for each device its busy time, and its use by each process. It is what
    `weir-emulated-gpu stats --json` prints, without a process for each question: some tests ask many times a second."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as there:
            there.connect(path)
            there.settimeout(e2e.PATIENCE)
            there.send(HELLO)
            there.send(ASK_ACCOUNTS)
            while True:
                packet = there.recv(PACKET_BYTES_MAX)
                if not packet:
                    raise AssertionError(f"the emulator at {path} has gone")
                kind, length = struct.unpack_from("<HI", packet)
                text = packet[6:6 + length].decode()
                if kind == ACCOUNTS:
                    return json.loads(text)
                if kind == REFUSAL:
                    raise AssertionError(f"the emulator at {path}: {text}")
    except OSError as error:
        raise AssertionError(f"the emulator at {path}: {error}") from error


def answers(path):
    """Whether an emulator answers at a socket."""
    try:
        return bool(truth_at(path))
    except AssertionError:
        return False


def used_ns_in(truth, device=0):
    """The compute engine's time that each process has used, by pid."""
    used = {}
    for client in truth["devices"][device]["clients"]:
        used[client["pid"]] = used.get(client["pid"], 0) + client["busy_ns"]["compute"]
    return used


def settle(read, seconds, check):
    """What `read` gives, once `check` accepts it: see WithEmulatedNode.settled."""
    began = time.monotonic()
    while True:
        time.sleep(seconds)
        value = read()
        try:
            check(value)
            return value
        except AssertionError as error:
            so_far = time.monotonic() - began
            if so_far > e2e.PATIENCE:
                raise
            print(f"not yet after {so_far:.0f} s: {str(error).splitlines()[-1]}")


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
        e2e.wait_for(lambda: os.path.exists(os.path.join(self.run_dir, "emulator-0.sock")), "the emulator listens")
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

    def settled(self, programs, seconds, check, device=0, afresh=False):
        """The fraction of the device that each program has used since this call, once `check` accepts it. It is read after
        `seconds`, and while `check` fails again after as long, for e2e.PATIENCE. A pause of the host moves a few launches
        from one program to another once, and counts for less the longer the time is. A wrong share stays wrong.
        The time is the emulator's, of the moment in which it counts.
        `afresh`: each time counts by itself. For checks that all of the device is used: what the host's pauses leave idle
        does not come back, so a later time can't make up for it.
        `programs`: name to process, pid, or several of them."""
        pids = {name: [getattr(one, "pid", one) for one in (program if isinstance(program, list) else [program])]
                for name, program in programs.items()}
        first = self.node.truth()

        def used():
            nonlocal first
            last = self.node.truth()
            before, after, span_ns = used_ns_in(first, device), used_ns_in(last, device), last["now_ns"] - first["now_ns"]
            if afresh:
                first = last
            # The emulator knows no process that has not begun to use it.
            return {name: sum(after.get(pid, 0) - before.get(pid, 0) for pid in mine) / span_ns for name, mine in pids.items()}

        return settle(used, seconds, check)
