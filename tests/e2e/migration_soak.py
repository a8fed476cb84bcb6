# SPDX-License-Identifier: Apache-2.0
"""Real programs move from node to node at random moments, 20 times each, and their output is the same as without moves;
then a portal of either node is killed at random moments of a move. WEIR_SEED repeats a run. Prints the pauses, and
the mean of the bytes that the moves sent."""
import hashlib
import os
import random
import re
import signal
import subprocess
import threading
import time
import unittest

import weir_e2e as e2e
from distant import TwoNodes, scenes

MOVES = 20
SEED = int(os.environ.get("WEIR_SEED", random.randrange(1 << 30)))


def secret(word):
    return hashlib.sha256(word.encode()).hexdigest()


# Name, command, and the part of its output that is the same in every run.
PROGRAMS = [
    ("hashcat", ["hashcat", "-m", "1400", "-a", "3", secret("zyxwq"), "?l?l?l?l?l", "--potfile-disable", "--quiet"],
     lambda out: re.findall(r"^[0-9a-f]{64}:.*$", out, re.M)),
    ("clFFT", ["clFFT-client", "-x", "1024", "-y", "1024", "-b", "4"], lambda out: re.findall(r"PASS|FAIL", out)),
    ("xgemv", ["clblast_test_xgemv"], lambda out: re.findall(r"\d+ test\(s\) \w+", out)),
    ("xaxpy", ["clblast_test_xaxpy"], lambda out: re.findall(r"\d+ test\(s\) \w+", out)),
    ("xtrsm", ["clblast_test_xtrsm"], lambda out: re.findall(r"\d+ test\(s\) \w+", out)),
]


class Soak(TwoNodes):
    def setUp(self):
        super().setUp()
        print(f"WEIR_SEED={SEED}", flush=True)
        self.random = random.Random(SEED)

    def test_real_programs_give_the_same_output_as_unmoved(self):
        ports = self.ports()
        for name, command, essence in PROGRAMS:
            with self.subTest(name):
                self.one_program(name, command, essence, ports)

    def one_program(self, name, command, essence, ports):
        begin = time.monotonic()
        code, out, err = self.ended(self.start(command, vgpu="game"), 400)
        wait = min(1.0, (time.monotonic() - begin) / 4)
        unmoved = (code, essence(out))
        self.assertTrue(unmoved[1], out + err)
        moved, runs, pauses, before, within, refused = 0, 0, [], [], [], []
        while moved < MOVES:
            runs += 1
            self.assertLess(runs, 40, f"{name}: {moved} moves only; {refused}")
            at = 0
            program = self.start(command, vgpu="game")
            said = []
            reader = threading.Thread(target=lambda: said.append(self.ended(program, 400)))
            reader.start()
            while reader.is_alive() and moved < MOVES:
                reader.join(self.random.uniform(wait / 10, wait))
                done = self.try_to_move(program, ports[1 - at])
                if done.returncode != 0:
                    if program.poll() is None:
                        refused.append(done.stderr.strip())
                    continue
                at = 1 - at
                if pause := re.search(r"([\d.]+) MiB sent before the pause, ([\d.]+) MiB in it.* paused for ([\d.]+) ms",
                                      done.stdout):
                    moved += 1
                    before.append(float(pause.group(1)))
                    within.append(float(pause.group(2)))
                    pauses.append(float(pause.group(3)))
            reader.join()
            code, out, err = said[0]
            self.assertEqual((code, essence(out)), unmoved, out + err)
        pauses.sort()
        print(f"{name}: {moved} moves in {runs} runs, pause median {pauses[len(pauses) // 2]:.1f} ms, max "
              f"{pauses[-1]:.1f} ms; {sum(before) / moved:.1f} MiB sent before it, {sum(within) / moved:.1f} in it"
              + (f"; refused: {sorted(set(refused))}" if refused else ""), flush=True)

    def test_a_destination_that_dies_at_any_moment_costs_nothing(self):
        here, there = self.ports()
        program = self.start(scenes(5), vgpu="game")
        self.busy("game")
        begin = time.monotonic()
        self.move(program, there)
        undisturbed = time.monotonic() - begin
        self.right(program)
        stayed = moved = 0
        for turn in range(12):  # at random moments; the first is at the beginning and the last after the end
            if self.moves_while_the_destination_dies(1.5 * undisturbed * (turn + self.random.random()) / 12):
                moved += 1
            else:
                stayed += 1
        print(f"an undisturbed move took {undisturbed:.3f} s; of 12 with the destination killed {stayed} stayed, {moved} had moved",
              flush=True)
        self.assertGreater(stayed, 0, "killed in the middle of a move")
        self.assertGreater(moved, 0, "killed once it had moved")

    def test_a_source_that_dies_once_it_was_left_costs_nothing(self):
        here, there = self.ports()
        for _ in range(5):
            program = self.start(scenes(4), vgpu="game")
            self.busy("game", self.node.vgpu("game")["totals"]["gpu_ns"])
            self.move(program, there)
            self.kill_portals(self.node)
            self.right(program)
            e2e.wait_for(lambda: self.ended(self.start(["clinfo", "-l"], vgpu="game"))[0] == 0, "the portal is back")

    def kill_portals(self, node):
        found = subprocess.run(["pgrep", "-f", f"weir-portal .*{node.run_dir}"], capture_output=True, text=True)
        for pid in found.stdout.split():
            os.kill(int(pid), signal.SIGKILL)

    def moves_while_the_destination_dies(self, after):
        """Whether the move was complete `after` seconds from its beginning, when the other node's portal was killed."""
        here, there = self.ports()
        program = self.start(scenes(5), vgpu="game")
        self.busy("game", self.node.vgpu("game")["totals"]["gpu_ns"])
        killer = threading.Timer(after, lambda: self.kill_portals(self.other))
        killer.start()
        done = self.try_to_move(program, there)
        killer.join()
        code, out, err = self.ended(program)
        if done.returncode == 0:  # it had moved, and then its node died: the program gets an error, not a wrong result
            self.assertTrue(code != 0 or "wrong 0" in out, out + err)
        else:
            self.assertEqual((code, "wrong 0" in out), (0, True), out + err + done.stderr)
        # The portal may have a new port, and for a moment the file still names the old one.
        e2e.wait_for(lambda: self.ended(self.start(["clinfo", "-l"], vgpu="game", port=self.ports()[1]))[0] == 0,
                     "the other node's portal is back")
        return done.returncode == 0


if __name__ == "__main__":
    unittest.main(verbosity=2)
