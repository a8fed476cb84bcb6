# SPDX-License-Identifier: Apache-2.0
"""A tenant repeatedly kills its executors. What each has used is read from the kernel just before it ends."""
import time

import hostile
from hostile import CPUS, TENANT, e2e, executors_of

CAP = 0.05
SECONDS = 15
WITHIN = 0.02  # of the device
KILLED_AFTER = 0.2  # seconds of the device
TIMEOUT = 0.5  # seconds of a kernel that never ends; the last kernel exceeds the cap until it is paid for


class Charges(hostile.Hostile):
    def check(self, vgpu, used, charged, span, within, what):
        """`used`: seconds of the driver's workers over the span; `charged`: the charge at its beginning."""
        share = used / CPUS / span
        books = (self.node.gpu_ns()[vgpu] - charged) / 1e9 / span
        print(f"{what} in {span:.1f} s: used {share:.4f} of the device, charged {books:.4f}, cap {CAP}")
        self.assertLess(share, CAP + within)
        # A process that dies is charged its whole reservation, so the charge exceeds the use.
        self.assertGreater(books, share - WITHIN, "nothing was used without a charge")
        self.daemon_is_well()


class Killed(Charges):
    def live_executor(self, vgpu):
        for pid in executors_of(self.node, vgpu):
            if hostile.driver_seconds(pid):
                return pid
        return 0

    def test_a_tenant_that_kills_its_executor_in_a_loop_uses_no_more_than_its_cap(self):
        self.node.create("looping", cap=CAP, owner_uid=TENANT.pw_uid)
        killer = self.attack(TENANT, "kill")
        # None of its kernels ends before it is killed, so no charge depends on a kernel's end.
        command = [hostile.LOOP, "600", "65536", "2147483647", "1"]
        program, running, kills, used, last = None, 0, 0, 0.0, 0.0
        charged, start = self.node.gpu_ns()["looping"], time.monotonic()
        while time.monotonic() - start < SECONDS:
            if program is None or program.poll() is not None:
                program = self.start(command, "looping", user=TENANT)
            if not running:
                running, last = self.live_executor("looping"), 0.0
                time.sleep(0.01)
                continue
            seen = hostile.driver_seconds(running)
            if seen is not None:
                last = seen
            if seen is None or last > KILLED_AFTER * CPUS:
                if seen is not None:
                    killer.order(str(running))
                    self.assertEqual(killer.says(), "killed")
                    kills += 1
                used += last
                running = 0
            time.sleep(0.01)
        if running:
            used += hostile.driver_seconds(running) or last
        span = time.monotonic() - start
        self.check("looping", used, charged, span, WITHIN, f"{kills} kills")
        self.assertGreaterEqual(kills, 2)


class Endless(Charges):
    serve_arguments = ("--kernel-timeout", f"{TIMEOUT * 1e3:.0f}ms")

    def test_a_tenant_whose_kernels_never_end_uses_no_more_than_its_cap(self):
        self.node.create("endless", cap=CAP, owner_uid=TENANT.pw_uid)
        self.node.create("victim")
        victim = self.start([hostile.LOOP, "600", "65536", "200", "4"], "victim")
        self.wait_busy("victim")
        command = [hostile.LOOP, "600", "65536", "2147483647", "1"]
        program = self.start(command, "endless", user=TENANT)
        seen = {}
        charged, start = self.node.gpu_ns()["endless"], time.monotonic()
        while time.monotonic() - start < SECONDS:
            if program.poll() is not None:
                program = self.start(command, "endless", user=TENANT)
            for pid in executors_of(self.node, "endless"):
                seconds = hostile.driver_seconds(pid)
                if seconds is not None:
                    seen[pid] = seconds
            time.sleep(0.01)
        used = sum(seen.values())
        self.check("endless", used, charged, time.monotonic() - start, WITHIN + TIMEOUT / SECONDS,
                   f"{len(seen)} executors")
        self.assertGreaterEqual(len(seen), 2)
        self.assertIn("has not ended for 500 ms", self.node.log_text())
        self.assertIsNone(victim.poll(), "others compute on")
        self.wait_busy("victim")


if __name__ == "__main__":
    hostile.main()
