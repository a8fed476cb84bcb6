# SPDX-License-Identifier: Apache-2.0
"""Memory of CUDA programs as tenants, on the emulated driver: the limit of a vGPU, by their own answers, the daemon's and
the emulator's."""
import os
import select
import subprocess
import unittest

import emulated
import vulkan_e2e
import weir_e2e as e2e
from emulated_cuda_memory_e2e import KINDS, MEMORY


class Memory(emulated.WithEmulatedNode):
    """What CUDA programs hold of the card's memory, by their own answers, the daemon's and the emulator's."""
    CARD_MIB, LIMIT_MIB, BLOCK_MIB = 2048, 64, 4
    BLOCKS = LIMIT_MIB // BLOCK_MIB

    def program(self, vgpu, block_mib=BLOCK_MIB, before=()):
        program = self.tenants.start([e2e.WEIR, "--run-dir", self.node.run_dir, "run", "--vgpu", vgpu, "--", *before, MEMORY,
                                      str(block_mib)], {}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(program.stdout.close)
        self.addCleanup(program.stdin.close)
        return program

    def ask(self, program, line):
        program.stdin.write(line + "\n")
        program.stdin.flush()
        answer = program.stdout.readline()
        self.assertTrue(answer, "\n".join([f"{line}: the program has ended", *self.tenants.report()]))
        return answer.strip()

    def number(self, program, line):
        return int(self.ask(program, line))

    def limited(self, name="a", mib=LIMIT_MIB):
        self.node.create(name, memory_max_bytes=mib << 20)
        return self.program(name)

    def card_mib(self):
        return self.node.truth()["devices"][0]["memory_used_bytes"] >> 20

    def shown(self, vgpu):
        return self.node.vgpu(vgpu)["use"]["program_memory_bytes"] >> 20

    def test_each_kind_of_allocation_gets_exactly_the_limit_and_freeing_makes_room(self):
        self.node.create("a", memory_max_bytes=self.LIMIT_MIB << 20)
        for kind, size in KINDS.items():
            with self.subTest(kind):
                self.tenants.close()  # what another kind has left
                e2e.wait_for(lambda: self.shown("a") == 0, "it has ended")
                program = self.program("a")
                blocks = int(self.BLOCKS / size)
                for _ in range(2):
                    self.assertEqual(self.number(program, f"fill {kind}"), blocks)
                    self.assertEqual(self.card_mib(), int(blocks * size * self.BLOCK_MIB))
                    self.assertEqual(self.shown("a"), int(blocks * size * self.BLOCK_MIB))
                    self.assertEqual(self.ask(program, "free"), "0")
                    self.assertEqual((self.card_mib(), self.shown("a")), (0, 0))

    def test_kinds_share_one_limit(self):
        program = self.limited()
        for kind in list(KINDS)[:self.BLOCKS]:
            if kind != "mipmap":
                self.assertEqual(self.number(program, f"take {kind}"), 0, kind)
        left = self.BLOCKS - len(KINDS) + 1
        self.assertEqual(self.number(program, "fill plain"), left)
        for kind in KINDS:
            self.assertEqual(self.number(program, f"take {kind}"), 2, kind)

    def test_a_context_that_ends_gives_back_what_it_held(self):
        program = self.limited()
        for kind in ("plain", "pitch", "managed", "array", "array3d"):
            with self.subTest(kind):
                self.assertEqual(self.ask(program, "new"), "0")
                self.assertEqual(self.number(program, f"fill {kind}"), self.BLOCKS)
                self.assertEqual(self.ask(program, "destroy"), "0")
                self.assertEqual((self.card_mib(), self.shown("a")), (0, 0))
                self.assertEqual(self.number(program, f"fill {kind}"), self.BLOCKS)
                self.assertEqual(self.ask(program, "release"), "0")
                self.assertEqual((self.card_mib(), self.shown("a")), (0, 0))
        self.assertEqual(self.number(program, "fill plain"), self.BLOCKS)
        self.assertEqual(self.ask(program, "reset"), "0")
        self.assertEqual((self.card_mib(), self.shown("a")), (0, 0))

    def test_memory_of_pools_lasts_until_it_is_freed(self):
        program = self.limited()
        for kind in ("async", "pool"):
            for end in ("reset", "release"):
                with self.subTest(f"{kind}, {end}"):
                    self.assertEqual(self.number(program, f"fill {kind}"), self.BLOCKS)
                    self.assertEqual(self.ask(program, end), "0")
                    self.assertEqual((self.card_mib(), self.shown("a")), (self.LIMIT_MIB, self.LIMIT_MIB))
                    self.assertEqual(self.number(program, "take plain"), 2)
                    self.assertEqual(self.ask(program, "free"), "0")
                    self.assertEqual((self.card_mib(), self.shown("a")), (0, 0))

    def test_a_context_ends_with_its_last_user(self):
        program = self.limited()
        self.assertEqual([self.ask(program, line) for line in ("new", "fill plain", "attach", "detach", "take plain", "detach")],
                         ["0", str(self.BLOCKS), "0", "0", "2", "0"])
        self.assertEqual((self.card_mib(), self.shown("a")), (0, 0))

    def test_memory_of_a_green_context_is_its_primary_contexts(self):
        program = self.limited()
        self.assertEqual(self.ask(program, "green"), "0")
        self.assertEqual(self.number(program, "fill plain"), self.BLOCKS)
        self.assertEqual(self.ask(program, "end-green"), "0")
        self.assertEqual((self.card_mib(), self.shown("a")), (self.LIMIT_MIB, self.LIMIT_MIB))
        self.assertEqual([self.ask(program, line) for line in ("free", "green", "fill plain", "release")],
                         ["0", "0", str(self.BLOCKS), "0"])
        self.assertEqual(self.shown("a"), self.LIMIT_MIB, "the green context keeps the primary one")

    def test_processes_that_allocate_at_once_reach_the_limit_together_and_never_exceed_it(self):
        self.node.create("a", memory_max_bytes=self.LIMIT_MIB << 20)
        programs = [self.program("a", 2) for _ in range(4)]
        for program in programs:
            self.ask(program, "info")  # it is attached
        for kind in ("plain", "physical", "async"):
            with self.subTest(kind):
                for program in programs:
                    program.stdin.write(f"fill {kind}\n")
                for program in programs:
                    program.stdin.flush()
                most = 0
                while not all(select.select([program.stdout], [], [], 0)[0] for program in programs):
                    most = max(most, self.card_mib())
                blocks = [int(program.stdout.readline()) for program in programs]
                print(kind, blocks, f"at most {most} MiB seen")
                self.assertEqual(sum(blocks), self.LIMIT_MIB // 2)
                self.assertEqual(self.card_mib(), self.LIMIT_MIB)
                self.assertLessEqual(most, self.LIMIT_MIB)
                self.assertEqual(self.shown("a"), self.LIMIT_MIB)
                for program in programs:
                    self.assertEqual(self.ask(program, "free"), "0")
                self.assertEqual(self.shown("a"), 0)

    def test_a_killed_program_leaves_nothing_behind(self):
        first = self.limited()
        second = self.program("a")
        for kind in ("plain", "mapped", "async"):
            with self.subTest(kind):
                self.assertEqual(self.number(first, f"fill {kind}"), self.BLOCKS)
                self.assertEqual(self.number(second, "take plain"), 2)
                self.tenants.stop(first)
                e2e.wait_for(lambda: self.shown("a") == 0 and self.card_mib() == 0, "its memory is free")
                self.assertEqual(self.number(second, f"fill {kind}"), self.BLOCKS)
                self.assertEqual(self.ask(second, "free"), "0")
                first = self.program("a")

    def test_programs_are_shown_the_vgpus_memory(self):
        program = self.limited()
        mib = lambda: [int(one) >> 20 for one in self.ask(program, "info").split()]
        self.assertEqual(mib(), [self.LIMIT_MIB] * 3)
        self.assertEqual(self.number(program, "take async"), 0)
        other = self.program("a")
        self.assertEqual(self.number(other, "take physical"), 0)
        self.assertEqual(mib(), [self.LIMIT_MIB - 2 * self.BLOCK_MIB, self.LIMIT_MIB, self.LIMIT_MIB])
        self.assertEqual(self.number(other, "fill plain"), self.BLOCKS - 2)
        self.assertEqual(mib(), [0, self.LIMIT_MIB, self.LIMIT_MIB])

    def test_the_limit_changes_live(self):
        program = self.limited()
        self.assertEqual(self.number(program, "fill plain"), self.BLOCKS)
        def limit(mib):
            status, body = self.node.call("PATCH", "/v1/vgpus/a", {"memory_max_bytes": mib << 20})
            self.assertEqual(status, 200, body)
        limit(2 * self.LIMIT_MIB)
        self.assertEqual(self.number(program, "fill plain"), self.BLOCKS)
        limit(self.LIMIT_MIB)
        self.assertEqual(self.number(program, "take plain"), 2)
        self.assertEqual(self.shown("a"), 2 * self.LIMIT_MIB, "nothing is taken away")
        self.assertEqual(self.ask(program, "free"), "0")
        self.assertEqual(self.number(program, "fill plain"), self.BLOCKS)

    def test_refusals_are_counted_and_vgpus_are_apart(self):
        program = self.limited()
        other = self.limited("b")
        self.assertEqual(self.number(program, "fill plain"), self.BLOCKS)
        self.assertEqual(self.number(other, "fill plain"), self.BLOCKS)
        self.assertEqual(self.number(other, "take async"), 2)
        self.assertEqual(self.ask(program, "fork"), "2", "the child asks the same vGPU")
        wanted = ['weir_vgpu_memory_refused_total{vgpu="a",device="emulated0"} 2\n',
                  'weir_vgpu_memory_refused_total{vgpu="b",device="emulated0"} 2\n',
                  f'weir_vgpu_program_memory_bytes{{vgpu="a",device="emulated0"}} {self.LIMIT_MIB << 20}\n']
        def metrics():
            return self.node.call("GET", "/metrics")[1]
        e2e.wait_for(lambda: all(line in metrics() for line in wanted), "the metrics show it")
        said = [event["text"] for event in self.node.get("/v1/events")["events"] if event["kind"] == "no-memory"]
        self.assertRegex(said[0], r"^no memory for \d allocations? or commands? of its programs; its limit is 64 MiB$")
        shown = subprocess.run([e2e.WEIR, "--run-dir", self.node.run_dir, "vgpu", "show", "a"], capture_output=True, text=True,
                               timeout=e2e.PATIENCE).stdout
        self.assertIn("programs hold 64M themselves", shown)
        self.assertEqual(self.ask(program, "free"), "0")
        self.assertNotEqual(self.ask(program, "fork"), "0", "a child without an exec has no driver")
        self.assertEqual(self.number(program, "fill plain"), self.BLOCKS, "what the child claimed is free")

    def test_memory_of_opencl_programs_counts_for_cuda_programs(self):
        program = self.limited()
        self.tenants.start([e2e.WEIR, "--run-dir", self.node.run_dir, "run", "--vgpu", "a", "--",
                            os.path.join(e2e.BUILD, "bin/opencl_loop"), "600", str(4 << 20), "1", "1", "5"], {})
        objects = lambda: self.node.vgpu("a")["use"]["memory_bytes"]
        e2e.wait_for(lambda: objects() > 8 << 20, "the OpenCL program has made its buffers")
        free = lambda: int(self.ask(program, "info").split()[0])
        e2e.wait_for(lambda: free() == (self.LIMIT_MIB << 20) - objects(), "CUDA programs see them")
        left = ((self.LIMIT_MIB << 20) - objects()) // (self.BLOCK_MIB << 20)
        self.assertEqual(self.number(program, "fill plain"), left)
        self.assertLess(left, self.BLOCKS)

    def test_memory_of_vulkan_programs_counts_for_cuda_programs(self):
        program = self.limited()
        other = self.tenants.start([e2e.WEIR, "--run-dir", self.node.run_dir, "run", "--vgpu", "a", "--",
                                    os.path.join(e2e.BUILD, "bin/vulkan_memory"), str(self.BLOCK_MIB)], vulkan_e2e.lavapipe(),
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(other.stdout.close)
        self.addCleanup(other.stdin.close)
        self.assertEqual(self.number(other, "take"), 0)
        self.assertEqual(self.number(program, "fill plain"), self.BLOCKS - 1)
        self.assertEqual(self.number(other, "take"), vulkan_e2e.OUT_OF_DEVICE_MEMORY)
        self.assertEqual(self.ask(program, "free"), "0")
        self.assertEqual(self.number(other, "fill"), self.BLOCKS - 1)

    def test_memory_of_cuda_programs_counts_for_opencl_programs(self):
        program = self.limited()
        self.assertEqual(self.number(program, "fill plain"), self.BLOCKS)
        def opencl():
            return subprocess.run([e2e.WEIR, "--run-dir", self.node.run_dir, "run", "--vgpu", "a", "--",
                                   os.path.join(e2e.BUILD, "bin/opencl_loop"), "0", str(4 << 20), "1", "1", "5"],
                                  capture_output=True, text=True, timeout=e2e.PATIENCE)
        refused = opencl()
        self.assertNotEqual(refused.returncode, 0, refused.stdout + refused.stderr)
        devices = subprocess.run([e2e.WEIR, "--run-dir", self.node.run_dir, "run", "--vgpu", "a", "--", "clinfo"],
                                 capture_output=True, text=True, timeout=e2e.PATIENCE)
        self.assertRegex(devices.stdout, f"Global memory size +{self.LIMIT_MIB << 20} ", "the device is there, and has no room")
        self.assertEqual(self.ask(program, "free"), "0")
        e2e.wait_for(lambda: opencl().returncode == 0, "it has room again")

    def test_a_daemon_that_comes_back_knows_what_is_held(self):
        program = self.limited()
        self.assertEqual(self.number(program, "fill plain"), self.BLOCKS)
        self.node.kill()
        self.assertEqual(self.number(program, "take plain"), 2, "the last limit holds while no daemon is there")
        self.node.start()
        e2e.wait_for(lambda: self.number(program, "take plain") == 2 and self.node.vgpu("a")["processes"], "it is attached again")
        self.assertEqual(self.shown("a"), self.LIMIT_MIB)
        other = self.program("a")
        self.assertEqual(self.number(other, "take plain"), 2)

    def test_without_a_limit_the_card_is_the_limit(self):
        self.node.create("a")
        program = self.program("a", 64)
        self.assertEqual([int(one) >> 20 for one in self.ask(program, "info").split()], [self.CARD_MIB] * 3)
        for kind in KINDS:
            with self.subTest(kind):
                self.assertEqual(self.number(program, f"fill {kind}"), int(self.CARD_MIB // 64 / KINDS[kind]))
                self.assertEqual(self.ask(program, "free"), "0")
                self.assertEqual((self.card_mib(), self.shown("a")), (0, 0))


class SeveralCards(emulated.WithEmulatedNode):
    """A program that sees another card than its vGPU's."""
    description = emulated.CARD + emulated.CARD + emulated.FRAMES
    LIMIT_MIB, BLOCK_MIB, BLOCKS = Memory.LIMIT_MIB, Memory.BLOCK_MIB, Memory.BLOCKS
    program, ask, number, shown = Memory.program, Memory.ask, Memory.number, Memory.shown

    def test_pools_of_several_cards_count_together(self):
        self.node.create("a", memory_max_bytes=self.LIMIT_MIB << 20)
        program = self.program("a", before=("env", "-u", "WEIR_EMULATED_DEVICE"))
        for device in "01":
            self.ask(program, f"device {device}")
            self.assertEqual(self.number(program, "take pool"), 0)
        self.assertEqual([device["memory_used_bytes"] >> 20 for device in self.node.truth()["devices"][:2]], [self.BLOCK_MIB] * 2)
        self.assertEqual(self.shown("a"), 2 * self.BLOCK_MIB)
        self.assertEqual(self.ask(program, "reset"), "0")
        self.assertEqual(self.number(program, "fill pool"), self.BLOCKS - 2)
        self.assertEqual(self.ask(program, "free"), "0")
        self.assertEqual(self.shown("a"), 0)


if __name__ == "__main__":
    unittest.main()
