# SPDX-License-Identifier: Apache-2.0
"""Compares the daemon's charge of each tenant with ground truth: on cards that run commands to their end, that take
turns, or that run commands side by side, with programs that always have work and one that is idle most of the time."""
import os
import signal
import time

import emulated
import weir_e2e as e2e
from opencl_tenants import OpenClTenants, executors_of, loop

CARDS = ("fifo", "time-slice", "concurrent")


def cards(more=""):
    return "".join(
        f'[[device]]\nname = "{arbitration}"\nmemory = "2 GiB"\narbitration = "{arbitration}"\nunits = 16\n'
        + ('slice = "2 ms"\nswitch_cost = "20 us"\n' if arbitration == "time-slice" else "")
        for arbitration in CARDS) + more


class Accounts(emulated.WithEmulatedNode):
    def check_charges(self, pids, seconds=15):
        """`pids`: by vGPU, its device and the process that uses it. Compares everything that each has used from its
        start until the programs are stopped. While a program runs, the charge lags behind the truth, because the
        account is read ten times a second. A program that is stopped between its reservation and its command has a
        frame too much; it runs on then, and is stopped again, six times in all. A wrong charge stays wrong."""
        for wait in (seconds, 1, 1, 1, 1, 1):
            time.sleep(wait)
            wrong = self.wrong_charges(pids)
            if not wrong:
                break
            self.signal_programs(signal.SIGCONT)
        self.assertEqual(wrong, {})

    def signal_programs(self, number):
        for program in self.tenants.processes:
            os.killpg(program.pid, number)

    def wrong_charges(self, pids):
        """Stops the programs. The charges that differ from the truth by more than a thousandth, as multiples of it."""
        self.signal_programs(signal.SIGSTOP)

        def figures():
            truth = [self.node.used_ns(device) for device in range(len(CARDS))]
            return {v: truth[device][pid] for v, (device, pid) in pids.items()}, self.node.gpu_ns()

        def still():
            before = figures()
            time.sleep(1)
            return figures() == before and before
        truth, books = e2e.wait_for(still, "nothing is used or charged any more")
        wrong = {}
        for vgpu, (device, _) in pids.items():
            print(f"{CARDS[device]}, {vgpu}: {truth[vgpu] / 1e9:.3f} s used, {books[vgpu] / 1e9:.3f} s charged: "
                  f"{books[vgpu] / truth[vgpu] - 1:+.2%}")
            if abs(books[vgpu] / truth[vgpu] - 1) > 0.001:
                wrong[vgpu] = books[vgpu] / truth[vgpu]
        return wrong


class OpenGlAccounts(Accounts):
    description = cards(emulated.FRAMES)

    def test_charges_are_ground_truth_under_each_arbitration(self):
        programs = {}
        for device in range(len(CARDS)):
            self.node.policy("none", f"emulated{device}")
            for name, command, settings in (("always", e2e.PHONG, {}), ("short", e2e.BUMP, {}), ("rare", e2e.TEXTURE, {"cap": 0.1})):
                vgpu = f"{name}{device}"
                self.node.create(vgpu, device=f"emulated{device}", **settings)
                programs[vgpu] = (device, self.start(command, vgpu))
        for vgpu in programs:
            self.wait_frames(vgpu)
        self.check_charges({v: (device, program.pid) for v, (device, program) in programs.items()})


class OpenClAccounts(Accounts, OpenClTenants):
    # A launch takes 3 us of the device for each item, and no time of the host's processors.
    description = cards('[[kernel]]\nname = "churn"\nper_item = "3 us"\nunits = 6\ncomputed = false\n')

    def test_charges_are_ground_truth_under_each_arbitration(self):
        vgpus = {}
        for device in range(len(CARDS)):
            self.node.policy("none", f"emulated{device}")
            for name, items, settings in (("always", 4096, {}), ("short", 512, {}), ("rare", 2048, {"cap": 0.1})):
                vgpu = f"{name}{device}"
                self.node.create(vgpu, device=f"emulated{device}", **settings)
                self.start(loop(600, items=items, ahead=4), vgpu)
                vgpus[vgpu] = device
        for vgpu in vgpus:
            self.wait_busy(vgpu)
        self.check_charges({v: (device, executors_of(self.node, v)[0]) for v, device in vgpus.items()})


if __name__ == "__main__":
    e2e.main()
