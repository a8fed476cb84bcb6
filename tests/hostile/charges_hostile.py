# SPDX-License-Identifier: Apache-2.0
"""A tenant repeatedly kills its executors. The device is emulated: its ground truth says what was used of it. With
`long`, over a minute."""
import os
import struct
import sys
import time

import hostile
from hostile import TENANT, e2e, executors_of

import emulated

CAP = 0.05
LONG = "long" in sys.argv[1:]
SECONDS = 60 if LONG else 15  # at least
GIVE_UP = 120
ENDS_MIN = 2
WITHIN = 0.02  # of the device
KILLED_AFTER = 0.2  # seconds of the device
TIMEOUT = 3  # seconds of a kernel; long beside what a busy host takes to tell that a short one has ended
NS_PER_ITEM = 8_000_000
ENDLESS = 1000  # seconds
# Nothing is computed: launches take no time of the host's processors.
CARD = emulated.CARD + f'[[kernel]]\nname = "churn"\nper_item = "{NS_PER_ITEM} ns"\ncomputed = false\n'


def whole_launches(seconds, ahead=1):
    """Launches that take so long of the device and cannot be cut."""
    return [hostile.LOOP, "600", str(round(seconds * 1e9 / NS_PER_ITEM)), "1", str(ahead), "0", "0", "1"]


class Charges(hostile.Hostile):
    def make_node(self):
        return emulated.EmulatedNode(CARD, *self.serve_arguments)

    def used(self, without=()):
        """Seconds that the device has been busy, without those of some processes."""
        truth = self.node.truth()
        mine = emulated.used_ns_in(truth)
        return (truth["devices"][0]["busy_ns"]["compute"] - sum(mine.get(pid, 0) for pid in without)) / 1e9

    def check(self, vgpu, used, charged, span, cap, what, unpaid=0.0):
        """`used`: seconds of the device over the span; `charged`: the books at its beginning; `unpaid`: of `used`, what
        the last kernel had."""
        share = used / span
        books = (self.node.gpu_ns()[vgpu] - charged) / 1e9 / span
        print(f"{what} in {span:.1f} s: used {share:.4f} of the device, charged {books:.4f}, cap {cap}")
        self.assertLess(share - unpaid / span, cap + WITHIN)
        # A process that dies is charged its whole reservation, so the charge exceeds the use.
        self.assertGreater(books, share - WITHIN, "nothing was used without a charge")
        self.daemon_is_well()

    def go_on(self, start, ends):
        """Until enough executors have ended; a busy host needs more time for that."""
        span = time.monotonic() - start
        self.assertLess(span, GIVE_UP, f"only {ends} executors have ended")
        return span < SECONDS or ends < ENDS_MIN


class Killed(Charges):
    def test_a_tenant_whose_executor_is_killed_in_a_loop_uses_no_more_than_its_cap(self):
        self.node.create("looping", cap=CAP, owner_uid=TENANT.pw_uid)
        killer = self.attack(None, "kill")  # as a kernel that crashes: a tenant may not signal its executor
        # No kernel ends before it is killed, so no charge depends on a kernel's end. Each would end soon after, so an
        # attacker that a busy host delays gets no more of the device.
        command = whole_launches(KILLED_AFTER * 1.25)
        program, kills = None, 0
        charged, start, begun = self.node.gpu_ns()["looping"], time.monotonic(), self.used()
        while self.go_on(start, kills):
            if program is None or program.poll() is not None:
                program = self.start(command, "looping", user=TENANT)
            used = self.node.used_ns()
            for pid in executors_of(self.node, "looping"):
                if used.get(pid, 0) > KILLED_AFTER * 1e9:
                    killer.order(str(pid))
                    self.assertEqual(killer.says(), "killed")
                    kills += 1
                    e2e.wait_for(lambda: pid not in self.node.used_ns(), "it has left the device")
            time.sleep(0.02)
        span = time.monotonic() - start
        self.check("looping", self.used() - begun, charged, span, CAP, f"{kills} kills")


class Overwritten(Charges):
    def test_an_owner_that_overwrites_its_vgpus_region_lifts_no_cap_of_its_executor(self):
        self.node.create("greedy", cap=CAP, owner_uid=TENANT.pw_uid)
        self.start(whole_launches(0.008, ahead=4), "greedy", user=TENANT)
        self.wait_busy("greedy")
        hello = b"WAT1" + struct.pack("<HHHHH", 1, 1, 1, 1, 4) + b"\x04fake"
        attacker = self.attack(TENANT, "region", os.path.join(self.node.run_dir, "vgpu/greedy.sock"), hello.hex())
        self.assertEqual(attacker.says(), "begun")
        time.sleep(1)  # what it had before counts for the cap, too
        charged, start, begun = self.node.gpu_ns()["greedy"], time.monotonic(), self.used()
        while self.go_on(start, ENDS_MIN):
            time.sleep(0.1)
        span = time.monotonic() - start
        self.check("greedy", self.used() - begun, charged, span, CAP, "overwritten without end")
        self.assertGreater(self.node.vgpu("greedy")["totals"]["samples_bad"], 0, "users are shown that it happens")
        attacker.order("end")
        self.assertGreater(int(attacker.says()), 1000)


class Endless(Charges):
    serve_arguments = ("--kernel-timeout", f"{TIMEOUT}s")
    cap = 0.2  # so that a kernel is paid for soon

    def test_a_tenant_whose_kernels_never_end_uses_no_more_than_its_cap(self):
        self.node.create("endless", cap=self.cap, owner_uid=TENANT.pw_uid)
        self.node.create("victim")
        victim = self.start(whole_launches(0.008, ahead=4), "victim")
        self.wait_busy("victim")
        others = executors_of(self.node, "victim")
        command = whole_launches(ENDLESS)
        program = self.start(command, "endless", user=TENANT)
        seen = {}  # by executor: what it has used
        charged, start, begun = self.node.gpu_ns()["endless"], time.monotonic(), self.used(without=others)
        while self.go_on(start, self.node.log_text().count(f"has not ended for {TIMEOUT * 1000} ms")):
            if program.poll() is not None:
                program = self.start(command, "endless", user=TENANT)
            now = self.node.used_ns()
            seen.update({pid: now[pid] / 1e9 for pid in executors_of(self.node, "endless") if pid in now})
            time.sleep(0.02)
        span = time.monotonic() - start
        self.check("endless", self.used(without=others) - begun, charged, span, self.cap, f"{len(seen)} executors",
                   unpaid=max(seen.values()))
        self.assertGreaterEqual(len(seen), ENDS_MIN)
        self.assertIsNone(victim.poll(), "others compute on")
        self.assertEqual(executors_of(self.node, "victim"), others)
        self.wait_busy("victim")


if __name__ == "__main__":
    if LONG:
        sys.argv.remove("long")
    hostile.main()
