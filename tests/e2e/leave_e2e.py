# SPDX-License-Identifier: Apache-2.0
"""An oversold node names a vGPU that should be moved away. Its program moves to another node by itself, if the user who
started it has named one. The devices are emulated, so their speed, and thus which vGPU is overloaded, does not
depend on the host's load."""
import os
import signal
import socket
import struct
import subprocess
import unittest

import emulated
import weir_e2e as e2e
from cluster_processes import Client, Manager, Processes, free_ports
from distant import LOOP, Distant, scenes, text_of


MOVE_WANTED = 5

# A launch of the programs that overload the device takes 21 ms. It is not cut into pieces, and is long compared with
# the time that a busy host needs to schedule a program. A launch of the program that leaves takes 84 ms, in pieces. Its
# results are computed, because the program checks them.
DEVICE = emulated.CARD + ('[[kernel]]\nname = "churn"\nper_item = "20 ns"\n'
                          '[[kernel]]\nname = "begin"\nper_item = "1 ns"\n')
ITEMS = 1 << 20
REST_MS = 40


def frame(kind, op, fields):
    return struct.pack("<IHHQIHH", 8 + len(fields), kind, 0, 0, 8 + len(fields), op, 0) + fields


class Peer:
    """A relay that reports the given version of the protocol, and then receives."""

    def __init__(self, port, version):
        self.socket = socket.create_connection(("127.0.0.1", port), 20)
        self.socket.sendall(frame(1, 1, b"WNT1" + struct.pack("<HI4sI", version, 4, b"game", 0)))
        self.kinds = []
        self.hear(2)

    def hear(self, kind):
        """Waits for such a frame and returns its bytes."""
        while True:
            header = self.take(16)
            self.kinds.append(struct.unpack("<IH", header[:6])[1])
            body = self.take(struct.unpack("<I", header[:4])[0])
            if self.kinds[-1] == kind:
                return body

    def take(self, count):
        taken = b""
        while len(taken) < count:
            more = self.socket.recv(count - len(taken))
            if not more:
                raise EOFError
            taken += more
        return taken

    def rest(self):
        """The kinds of the frames that came until the other side hung up."""
        try:
            self.hear(None)
        except EOFError:
            return self.kinds


def computed_ns(node):
    """The computing time of the node's device, by its ground truth."""
    return node.truth()["devices"][0]["busy_ns"]["compute"]


class Leaving(Distant):
    def make_node(self):
        return emulated.EmulatedNode(DEVICE, "--listen", "127.0.0.1:0", "--listen-plain", "127.0.0.1:0")

    def setUp(self):
        super().setUp()
        self.other = emulated.EmulatedNode(DEVICE, "--listen-plain", "127.0.0.1:0", "--quiet").start()
        self.addCleanup(self.other.close)
        self.other.create("game")
        # Two vGPUs are promised more than they can have, and their programs pause: they never use all of their
        # ceilings, and are overloaded as long as they run. A vGPU without a promise gets the rest; it is named first.
        self.node.policy("cap")
        status, body = self.node.call("PUT", "/v1/devices/emulated0/oversell",
                                      {"mode": "adaptive", "params": {"report_ms": 300}})
        self.assertEqual(status, 200, body)
        for name in ("a", "b"):
            self.node.create(name, cap=0.4, tasks_per_s=10_000)
        self.node.create("game", best_effort=True)

    def overload(self):
        for name in ("a", "b"):
            environment = {"WEIR_OPENCL": os.path.join(self.node.run_dir, "opencl", name + ".sock"),
                           "OCL_ICD_VENDORS": os.path.join(e2e.BUILD, "lib/weir/icd")}
            loop = [LOOP, "600", str(ITEMS), "1", "1", str(REST_MS), "0", "1"]  # until the test ends
            self.processes.append(subprocess.Popen(loop, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                                   env={**os.environ, **environment}))

    def start_game(self, *where_to, token=None):
        """Runs until over() ends it."""
        who = ["--token", token] if token else ["--plain", "--vgpu", "game"]
        self.said_at = os.path.join(self.here, "said")
        with open(self.said_at, "w") as said:
            game = subprocess.Popen(
                [e2e.WEIR, "run", "--run-dir", os.path.join(self.here, "run"), "--node",
                 f"127.0.0.1:{self.port(plain=not token)}", *who, *where_to, "--", *scenes(600)],
                stdout=subprocess.PIPE, stderr=said, text=True)
        self.processes.append(game)
        self.busy("game")
        return game

    def said(self):
        return text_of(self.said_at)

    def told(self, kind):
        events = self.node.get("/v1/events?after=0&limit=10000")["events"]
        return [event["text"] for event in events if (event["kind"], event["vgpu"]) == (kind, "game")]

    def await_told(self, kind, seconds=e2e.PATIENCE):
        def told():
            return self.told(kind)
        try:
            return e2e.wait_for(told, f"{kind} is told", seconds=seconds)
        except AssertionError as error:
            events = self.node.get("/v1/events?after=0&limit=10000")["events"]
            raise AssertionError("\n".join([str(error)] + [f"{e['kind']} {e['vgpu']} {e['text']}" for e in events]))

    def over(self, game):
        game.send_signal(signal.SIGTERM)  # it checks everything that it has computed, and ends
        out = game.communicate(timeout=e2e.PATIENCE)[0]
        self.assertEqual((game.returncode, "wrong 0" in out), (0, True), out + self.said() + self.node.log_text())

    def there(self):
        path = os.path.join(self.other.run_dir, "portal-plain.port")
        return f"127.0.0.1:{e2e.wait_for(lambda: text_of(path), 'the other portal listens')}"

    def test_a_drained_program_moves_to_its_named_destination(self):
        there = self.there()
        game = self.start_game("--move-to", there)
        self.overload()
        self.await_told("warning")
        self.assertIn("1 of its 1 connections", self.await_told("asked")[0])
        e2e.wait_for(lambda: self.other.vgpu("game")["totals"]["gpu_ns"] > 0, "it computes there")
        e2e.wait_for(lambda: computed_ns(self.other) > 0, "and the device there has computed it")
        self.await_told("left")
        e2e.wait_for(lambda: "moved to" in self.said(), "it says so")
        self.over(game)
        self.assertRegex(self.said(), "its node asks it to leave: several vGPUs .* are overloaded; it is being moved")
        self.assertRegex(self.said(), f"moved to {there}: [1-9].* objects recreated")
        self.assertEqual(self.said().count("it is being moved"), 1, self.said())

    def test_a_drained_program_moves_to_the_managers_node_with_its_token(self):
        processes = Processes()
        self.addCleanup(processes.close)
        manager = Manager(processes, "manager", free_ports(1)[0], "--state", processes.path("state")).start()
        best = emulated.EmulatedNode(DEVICE, "--quiet", "--manager", manager.address, "--manager-token", processes.token,
                                     "--node-name", "best", "--listen", "127.0.0.1:0", "--offer-parts", "game")
        self.addCleanup(best.close)
        tokens = processes.path("tokens")
        os.mkdir(tokens, 0o700)
        keys = os.path.join(best.state_dir, "keys")
        self.weir("keys", "init", "--dir", keys)
        self.weir("keys", "token", "game", "--dir", keys, "--out", os.path.join(tokens, "best.token"))
        best.start()
        best.create("game")
        e2e.wait_for(lambda: any(node.get("parts") for node in Client([manager]).get("/v1/nodes")["nodes"]),
                     "it is offered")
        game = self.start_game("--move-to", "auto", "--room", "64M", "--move-token", tokens, "--manager", manager.address,
                               "--manager-token", processes.token, token=self.token("game"))
        self.overload()
        self.await_told("asked")
        e2e.wait_for(lambda: "moved" in self.said().split("being moved")[-1], "it says what came of it")
        self.assertIn("moved to best: ", self.said())
        self.await_told("left")
        self.over(game)

    def test_a_drained_program_without_a_destination_stays_with_a_message(self):
        game = self.start_game()
        self.overload()
        self.await_told("asked")
        e2e.wait_for(lambda: "asks it to leave" in self.said(), "it says so")
        self.assertEqual(self.told("left"), [])
        self.over(game)
        self.assertEqual(self.said().count("its node asks it to leave"), 1, self.said())
        self.assertIn(f"'weir migrate {game.pid} --to ...' moves it", self.said())
        self.assertEqual((self.other.vgpu("game")["totals"]["gpu_ns"], computed_ns(self.other)), (0, 0))

    def test_an_old_relay_gets_no_drain_request_and_no_relay_may_send_one(self):
        old, new = (Peer(self.port(plain=True), version) for version in (1, 2))
        self.addCleanup(old.socket.close)
        self.addCleanup(new.socket.close)
        game = self.start_game()
        self.overload()
        self.assertIn(b"overloaded", new.hear(MOVE_WANTED))
        late = Peer(self.port(plain=True), 3)
        self.addCleanup(late.socket.close)
        self.assertIn(b"overloaded", late.hear(MOVE_WANTED), "it came when its vGPU had been asked")
        new.socket.sendall(frame(MOVE_WANTED, 3, struct.pack("<HI4s", 1, 4, b"away")))
        new.rest()
        e2e.wait_for(lambda: "is cut off" in self.node.log_text(), "and the node says why")
        self.over(game)
        for pid in self.helper("weir-portal"):
            os.kill(pid, signal.SIGTERM)
        self.assertNotIn(MOVE_WANTED, old.rest())

    def test_a_program_that_cannot_move_stays_and_retries_later(self):
        game = self.start_game("--move-to", "127.0.0.1:1")
        self.overload()
        self.await_told("asked")
        e2e.wait_for(lambda: "not moved; not again within 10 s" in self.said(), "it says that it failed")
        self.over(game)
        self.assertEqual(self.said().count("it is being moved"), 1, self.said())


if __name__ == "__main__":
    unittest.main(verbosity=2)
