# SPDX-License-Identifier: Apache-2.0
"""The main job: unmodified programs share one device by weight. The device is emulated, so its speed does not depend on
the host's load. Shares are compared with its ground truth, and so are the daemon's books."""
import time

import emulated
import weir_e2e as e2e


class Shares(emulated.WithEmulatedNode):
    prompt_if_permitted = True
    description = emulated.CARD + emulated.LONG_FRAMES

    def three(self, policy):
        """Two processes of each vGPU: one waits at the gate also while a busy host gives the other no processor."""
        self.node.policy(policy)
        started = {}
        for name, weight, command in (("a", 50, e2e.PHONG), ("b", 30, e2e.BUMP), ("c", 20, e2e.TEXTURE)):
            self.node.create(name, weight=weight)
            started[name] = [self.start(command, name) for _ in range(2)]
        for name in started:
            e2e.wait_for(lambda name=name: len(self.node.vgpu(name)["processes"]) == 2, "both are attached")
            self.wait_frames(name)
        time.sleep(1)  # start-up is over; the rest is measured over a time span anyway
        return started

    def stop(self, processes):
        for process in processes:
            self.tenants.stop(process)

    def test_proportional_share_keeps_weights_and_passes_idle_time_on(self):
        programs = self.three("proportional-share")

        books_before = self.node.gpu_ns()

        def weights_hold(use):
            books, total = self.node.gpu_ns(), sum(use.values())
            booked = {n: books[n] - books_before[n] for n in use}
            print({n: f"{u / total:.4f} (books {booked[n] / sum(booked.values()):.4f})" for n, u in use.items()}, f"device {total:.3f}")
            for name, share in (("a", 0.5), ("b", 0.3), ("c", 0.2)):
                self.assertAlmostEqual(use[name] / total, share, delta=0.01, msg=name)
                self.assertAlmostEqual(booked[name] / sum(booked.values()), share, delta=0.01, msg=f"{name}, by the books")

        use = self.settled(programs, 10, weights_hold)
        self.stop(programs.pop("a"))
        time.sleep(1)

        def free_time_is_used(after):
            print({n: f"{use[n]:.3f} -> {u:.3f}" for n, u in after.items()}, f"device {sum(after.values()):.3f}")
            self.assertAlmostEqual(after["b"] / sum(after.values()), 0.6, delta=0.02)
            self.assertGreater(after["b"], use["b"] * 1.2)
            self.assertGreater(after["c"], use["c"] * 1.2)

        self.settled(programs, 5, free_time_is_used)

    def test_reserve_caps_each_at_its_share(self):
        programs = self.three("reserve")

        def shares_are_limits(use):
            print({n: f"{u:.4f}" for n, u in use.items()})
            for name, share in (("a", 0.5), ("b", 0.3), ("c", 0.2)):
                self.assertLessEqual(use[name], share + 0.01, msg=name)

        self.settled(programs, 7, shares_are_limits)
        self.stop(programs.pop("a"))
        time.sleep(0.5)

        def free_time_stays_free(use):
            print({n: f"{u:.4f}" for n, u in use.items()})
            for name, share in (("b", 0.3), ("c", 0.2)):
                self.assertLessEqual(use[name], share + 0.01, msg=name)
                self.assertGreater(use[name], share * 0.5, msg=name)  # a busy host may take some

        self.settled(programs, 7, free_time_stays_free)

    def test_four_processes_of_a_tenant_get_no_more_than_one(self):
        for name in ("one", "four"):
            self.node.create(name, weight=50)
        one = [self.start(e2e.PHONG, "one")]
        four = [self.start(e2e.PHONG, "four") for _ in range(4)]
        e2e.wait_for(lambda: len(self.node.vgpu("four")["processes"]) == 4, "four processes are attached")
        for name in ("one", "four"):
            self.wait_frames(name, 20)
        programs = {f"p{i}": p for i, p in enumerate(one + four)}

        def four_get_no_more_than_one(use):
            mine, theirs = use["p0"], sum(use[f"p{i}"] for i in range(1, 5))
            print(f"one {mine:.3f}, four {theirs:.3f}")
            self.assertLessEqual(theirs / (mine + theirs), 0.51)

        self.settled(programs, 10, four_get_no_more_than_one)


class Caps(emulated.WithEmulatedNode):
    prompt_if_permitted = True

    def test_a_cap_holds_for_a_vgpu_alone_and_can_be_changed_while_it_runs(self):
        self.node.policy("none")
        self.node.create("capped", cap=0.2)
        # Several programs, so that one of them waits at the gate even while a busy host does not schedule the others.
        programs = {f"p{i}": self.start(e2e.PHONG, "capped") for i in range(4)}
        e2e.wait_for(lambda: len(self.node.vgpu("capped")["processes"]) == 4, "four processes are attached")
        self.wait_frames("capped")

        def cap_holds(cap):
            def check(use):
                print(f"cap {cap}: {sum(use.values()):.4f}")
                self.assertAlmostEqual(sum(use.values()), cap, delta=0.01)

            self.settled(programs, 5, check)

        cap_holds(0.2)
        self.assertEqual(self.node.call("PATCH", "/v1/vgpus/capped", {"cap": 0.1})[0], 200)
        time.sleep(0.3)
        cap_holds(0.1)


FIFO_CARD = """[[device]]
name = "Card"
memory = "2 GiB"
arbitration = "fifo"
"""


class Blanks(emulated.WithEmulatedNode):
    prompt_if_permitted = True

    def presents_block(self, vgpu):
        """Whether the agent is sure that the presents wait for the blank. It finds out in 30 frames without a pause of the
        host, and is sure after 64 more. Until then the presents count as use, and others get less."""
        frames = f"/v1/vgpus/{vgpu}/frames"
        end = self.node.get(f"{frames}?after={2**63 - 1}&limit=0")["next"]
        last = self.node.get(f"{frames}?after={max(end - 80, 0)}")
        column = last["columns"].index("present_follows")
        return len(last["frames"]) >= 80 and all(frame[column] for frame in last["frames"])


class PresentsThatBlock(Blanks):
    """glxgears draws 2 ms a frame and waits for the vertical blank of 60 Hz in its present: it uses 0.12 of the device. A
    device that does not preempt, and a program that takes all that it can get."""
    description = FIFO_CARD + """[[program]]
name = "glxgears"
frame = "2 ms"
drawn = false
[[program]]
name = "*"
frame = "5 ms"
drawn = false
"""
    USED = 60 * 0.002

    def test_a_program_that_waits_for_the_blank_leaves_the_rest_of_the_device_to_others(self):
        self.node.create("blank", weight=50)
        self.node.create("greedy", weight=50)
        programs = {"blank": self.tenants.start(["glxgears"], {**self.node.environment("blank"), "vblank_mode": "1"}),
                    "greedy": self.start(e2e.PHONG, "greedy")}
        for name in programs:
            self.wait_frames(name)
        for weight in (20, 50, 80):
            self.assertEqual(self.node.call("PATCH", "/v1/vgpus/blank", {"weight": weight})[0], 200)
            e2e.wait_for(lambda: self.presents_block("blank"), "its agent is sure that presents block")

            def greedy_gets_the_rest(use):
                print(f"weight {weight}:", {n: f"{u:.4f}" for n, u in use.items()})
                self.assertAlmostEqual(use["blank"], self.USED, delta=0.01)
                self.assertAlmostEqual(use["greedy"], 1 - self.USED, delta=0.02)

            self.settled(programs, 4, greedy_gets_the_rest, afresh=True)


class AlmostTooLate(Blanks):
    """glxgears at 60 Hz and a greedy program, both with frames of 6 ms. glxgears misses its blank where two frames of the
    greedy program are queued before its own."""
    description = FIFO_CARD + """[[program]]
name = "*"
frame = "6 ms"
drawn = false
"""
    USED = 60 * 0.006

    def test_a_program_that_almost_misses_its_blank_keeps_its_rate_and_the_device_is_used(self):
        programs = {}
        for policy in ("round-robin", "proportional-share"):
            self.node.policy(policy)
            for weight in (70, 50):
                for name, mine in (("blank", weight), ("greedy", 100 - weight)):
                    self.node.create(f"{name}-{policy}-{weight}", weight=mine)
                blank, greedy = f"blank-{policy}-{weight}", f"greedy-{policy}-{weight}"
                programs = {"blank": self.tenants.start(["glxgears"], {**self.node.environment(blank), "vblank_mode": "1"}),
                            "greedy": self.start(e2e.PHONG, greedy)}
                self.wait_frames(greedy)
                e2e.wait_for(lambda: self.presents_block(blank), "its agent is sure that presents block")

                def greedy_gets_the_rest(use):
                    print(f"{policy}, weight {weight}:", {n: f"{u:.4f}" for n, u in use.items()})
                    self.assertAlmostEqual(use["blank"], self.USED, delta=0.02)
                    self.assertAlmostEqual(use["greedy"], 1 - self.USED, delta=0.03)

                self.settled(programs, 4, greedy_gets_the_rest, afresh=True)
                for program in programs.values():
                    self.tenants.stop(program)


if __name__ == "__main__":
    e2e.main()
