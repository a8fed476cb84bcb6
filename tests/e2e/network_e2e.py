# SPDX-License-Identifier: Apache-2.0
"""OpenCL on another machine's device: real programs behind a relay and a portal, over TLS, with delay, refused, cut off
and killed. Both machines are this one, connected by TCP. Shares are those of an emulated card."""
import os
import signal
import socket
import time
import unittest

import emulated
import weir_e2e as e2e
from delay_proxy import DelayProxy
from distant import LOOP, Distant, scenes
from opencl_tenants import at_work, executors_of, loop

# A launch takes 20 ms of the device, and no time of the host's processors.
LAUNCH_ITEMS = 2500
CARD = emulated.CARD + '[[kernel]]\nname = "churn"\nper_item = "8 us"\ncomputed = false\n'


class Programs(Distant):
    def test_unmodified_programs_give_the_same_results_remotely(self):
        self.node.create("game")
        token = self.token("game")
        code, out, err = self.ended(self.start(["clinfo", "-l"], token))
        self.assertEqual((code, "Platform #0: Weir" in out), (0, True), out + err)
        code, out, err = self.ended(self.start(["clblast_test_xaxpy"], token))
        self.assertEqual(code, 0, out + err)
        self.assertEqual(out.count("   0 test(s) failed"), 4, out)
        self.right(self.start(scenes(1), token))
        self.assertGreater(self.node.vgpu("game")["totals"]["gpu_ns"], 0, "it passed the node's gate")

    def test_two_remote_programs_compute_what_each_computes_alone(self):
        for name in ("a", "b"):
            self.node.create(name)
        programs = [self.start(scenes(), self.token(name)) for name in ("a", "b")]
        for name in ("a", "b"):
            self.busy(name)
        self.goes_on("a", "b")  # each beside the other one
        for program in programs:
            program.terminate()
        for program in programs:
            self.right(program)

    def test_a_long_delay_changes_no_byte(self):
        self.node.create("game")
        proxy = DelayProxy(("127.0.0.1", self.port(plain=True)), 0.02)
        self.addCleanup(proxy.close)
        self.right(self.start(scenes(1), vgpu="game", port=proxy.port))
        self.assertGreater(proxy.connections, 0)


class Shares(Distant):
    WEIGHTS = {"a": 70, "b": 30}

    def setUp(self):
        if emulated.run_promptly(True):
            self.addCleanup(emulated.run_promptly, False)
        super().setUp()

    def make_node(self):
        return emulated.EmulatedNode(CARD, "--listen", "127.0.0.1:0", "--listen-plain", "127.0.0.1:0")

    def test_two_remote_programs_share_as_promised(self):
        self.node.policy("proportional-share")
        for name, weight in self.WEIGHTS.items():
            self.node.create(name, weight=weight)
            self.start([LOOP, "600", str(LAUNCH_ITEMS), "1", "4", "0", "0", "1"], self.token(name))
        for name in self.WEIGHTS:
            self.busy(name)
        executors = {name: executors_of(self.node, name)[0] for name in self.WEIGHTS}
        time.sleep(1)  # start-up is over
        before = self.node.used_ns()

        def shares():
            after = self.node.used_ns()
            used = {name: after[pid] - before[pid] for name, pid in executors.items()}
            return {name: part / sum(used.values()) for name, part in used.items()}

        def as_promised(shares):
            print({name: f"{share:.4f}" for name, share in shares.items()})
            for name, weight in self.WEIGHTS.items():
                self.assertAlmostEqual(shares[name], weight / 100, delta=0.02, msg=name)

        emulated.settle(shares, 10, as_promised)


class Refusals(Distant):
    def refused(self, process, *words):
        code, out, err = self.ended(process)
        self.assertNotEqual(code, 0, out + err)
        for word in words:
            self.assertIn(word, err)

    def test_refusals_have_a_reason_before_the_program_starts(self):
        self.node.create("game")
        mine = self.token("game")
        self.refused(self.start(["clinfo", "-l"], self.token("nobody")), "no vGPU 'nobody'")
        other_keys = os.path.join(self.here, "other-keys")
        self.weir("keys", "init", "--dir", other_keys)
        self.refused(self.start(["clinfo", "-l"], self.token("game2", other_keys)), "is not the one in the token")
        self.refused(self.start(["clinfo", "-l"], vgpu="game", port=self.port()), "a port with TLS, for --token?")
        self.refused(self.start(["clinfo", "-l"], mine, port=self.port(plain=True)), "a port without TLS, for --plain?")
        self.refused(self.start(["clinfo", "-l"], vgpu="../../control"), "names no vGPU")
        self.assertEqual(self.ended(self.start(["clinfo", "-l"], mine))[0], 0)
        self.weir("keys", "revoke", "game", "--dir", self.keys())
        self.refused(self.start(["clinfo", "-l"], mine), "revoked")

    def test_unknown_clients_do_not_affect_known_ones(self):
        self.node.create("game")
        program = self.start(scenes(), self.token("game"))
        self.busy("game")
        strangers = []
        for plain in (False, True):
            for said in (b"", b"GET / HTTP/1.1\r\n\r\n", os.urandom(5000), b"\0" * 16, b"\x16\x03\x01\x02\x00"):
                stranger = socket.create_connection(("127.0.0.1", self.port(plain)))
                stranger.sendall(said)
                strangers.append(stranger)
        for _ in range(200):  # like a port scanner
            socket.create_connection(("127.0.0.1", self.port())).close()
        self.goes_on("game")
        self.over(program)
        for stranger in strangers:
            stranger.close()
        self.assertEqual(self.ended(self.start(["clinfo", "-l"], self.token("game")))[0], 0)
        self.assertNotIn("the portal has ended", self.node.log_text())


class Failures(Distant):
    def test_a_cut_connection_ends_the_program_with_an_error_and_the_next_one_works(self):
        self.node.create("game")
        token = self.token("game")
        for name in ("weir-relay", "weir-portal"):
            before = self.node.vgpu("game")["totals"]["gpu_ns"]
            program = self.start(loop(60, rounds=200), token)
            self.busy("game", before)
            for pid in self.helper(name):
                os.kill(pid, signal.SIGKILL)
            code, out, err = self.ended(program)
            self.assertNotEqual(code, 0, out + err)
            e2e.wait_for(lambda: self.ended(self.start(["clinfo", "-l"], token))[0] == 0, "the portal is back")

    def test_a_tenant_that_vanishes_leaves_nothing(self):
        self.node.create("game")
        proxy = DelayProxy(("127.0.0.1", self.port(plain=True)), 0)
        self.addCleanup(proxy.close)
        program = self.start(scenes(), vgpu="game", port=proxy.port)
        self.busy("game")
        proxy.cut()
        self.assertNotEqual(self.ended(program)[0], 0)
        e2e.wait_for(lambda: "has left 'game'" in self.node.log_text(), "the portal has noticed")

    def test_the_daemons_death_does_not_affect_a_remote_program(self):
        self.node.create("game")
        token = self.token("game")
        program = self.start(scenes(), token)
        self.busy("game")
        self.node.kill()
        self.assertIsNone(program.poll())
        self.node.start()
        self.goes_on("game")
        self.over(program)
        self.assertEqual(self.ended(self.start(["clinfo", "-l"], token))[0], 0)

    def test_a_relay_ends_with_its_program(self):
        self.node.create("game")
        self.assertEqual(self.ended(self.start(["clinfo", "-l"], vgpu="game"))[0], 0)
        e2e.wait_for(lambda: not self.helper("weir-relay"), "the relay has ended")
        self.assertEqual([f for f in os.listdir(os.path.join(self.here, "run")) if f.startswith("relay")], [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
