# SPDX-License-Identifier: Apache-2.0
"""Whatever dies or sends wrong data, the tenant's program continues, and the node keeps its promises afterwards. These are
checked on an emulated card, against its ground truth."""
import os
import signal
import socket
import subprocess
import threading
import time
import unittest

import emulated
import weir_e2e as e2e

CAP = 0.02


class DaemonDies(emulated.WithEmulatedNode):
    description = emulated.CARD + emulated.LONG_FRAMES
    prompt_if_permitted = True

    def test_twenty_kills_under_load_leave_every_program_running_and_attached(self):
        programs = {}
        for name, command in (("a", e2e.PHONG), ("b", e2e.BUMP), ("c", ["glxgears"])):
            self.node.create(name, weight=100)
            programs[name] = self.start(command, name)
        for name in programs:
            self.wait_frames(name)
        for kill in range(20):
            self.node.kill()
            self.node.start()
            for name, program in programs.items():
                self.assertIsNone(program.poll(), f"{name} ended at kill {kill}")
                e2e.wait_for(lambda n=name: [p["pid"] for p in self.node.vgpu(n)["processes"]] == [programs[n].pid],
                             f"{name} is attached again after kill {kill}")
        for name in programs:
            self.wait_frames(name)

        def promises_hold_again(use):
            print({name: f"{part:.3f}" for name, part in use.items()})
            for name, part in use.items():
                self.assertAlmostEqual(part / sum(use.values()), 1 / 3, delta=0.03, msg=name)

        self.settled(programs, 6, promises_hold_again)


class NoDaemon(emulated.WithEmulatedNode):
    def start_capped(self):
        """A program that is held to its cap."""
        self.node.create("slow", cap=CAP)
        program = self.start(e2e.PHONG, "slow")
        self.wait_frames("slow", 3)
        return program, self.node.used_ns()[program.pid]

    def runs_free(self, program, before):
        """All of the device, for half a second."""
        e2e.wait_for(lambda: self.node.used_ns()[program.pid] > before + 500_000_000, "it runs free")

    def keeps_its_cap(self, program):
        """In some span of four seconds. A program runs free in one in which a busy host gives the daemon no processor for a
        second, since a stopped daemon counts as dead."""
        def check(use):
            print(f"cap {CAP}: {use['slow']:.4f} of the device")
            self.assertLess(use["slow"], CAP + 0.01)

        self.settled({"slow": program}, 4, check, afresh=True)

    def test_programs_continue_unthrottled_without_a_daemon(self):
        program, _ = self.start_capped()
        self.keeps_its_cap(program)
        before = self.node.used_ns()[program.pid]
        self.node.kill()
        self.runs_free(program, before)
        self.node.start()
        e2e.wait_for(lambda: self.node.vgpu("slow")["processes"], "it is attached again")
        self.keeps_its_cap(program)

    def test_a_stopped_daemon_counts_as_dead(self):
        program, before = self.start_capped()
        os.kill(self.node.process.pid, signal.SIGSTOP)
        try:
            self.runs_free(program, before)
        finally:
            os.kill(self.node.process.pid, signal.SIGCONT)
        e2e.wait_for(lambda: self.node.vgpu("slow")["processes"], "it is attached again")


class DiskStalls(e2e.WithNode):
    def test_heartbeats_go_on_while_the_state_is_not_written(self):
        stalls, fails = (os.path.join(self.node.folder, name) for name in ("stalls", "fails"))
        self.node.kill()
        os.environ.update(LD_PRELOAD=os.path.join(e2e.BUILD, "lib/test/stalled_disk.so"), STALLS=stalls, FAILS=fails)
        try:
            self.node.start()
        finally:
            for name in ("LD_PRELOAD", "STALLS", "FAILS"):
                del os.environ[name]
        self.node.create("a", weight=50)
        program = self.start(e2e.DRAWS, "a")
        self.wait_frames("a")
        before = self.node.vgpu("a")["totals"]["fail_opens"]
        for path in (stalls, fails):
            open(path, "w").close()
        replies = []
        change = threading.Thread(target=lambda: replies.append(self.node.call("PATCH", "/v1/vgpus/a", {"weight": 7})))
        change.start()
        # Three times as long as agents wait for a heartbeat.
        begin = self.node.get("/v1/status")["now_ns"]
        e2e.wait_for(lambda: self.node.get("/v1/status")["now_ns"] > begin + 3_000_000_000, "three seconds went by")
        self.wait_frames("a")
        self.assertEqual(self.node.vgpu("a")["totals"]["fail_opens"], before)
        self.assertEqual(replies, [], "a change is answered once it is saved")
        os.remove(stalls)
        change.join()
        status, body = replies[0]
        self.assertGreaterEqual(status, 400, "the disk fails")
        self.assertIn("takes effect", body["error"]["message"])
        os.remove(fails)
        e2e.wait_for(lambda: self.node.get("/v1/status")["not_saved"] == "", "the state is written again")
        self.node.kill()
        self.node.start()
        self.assertEqual(self.node.vgpu("a")["settings"]["weight"], 7)
        self.assertIsNone(program.poll())


class TenantsDie(e2e.WithNode):
    def test_killed_programs_leave_nothing_behind(self):
        for name in ("a", "b"):
            self.node.create(name, weight=50)
        survivor = self.start(e2e.BUMP, "b")
        self.wait_frames("b")
        for _ in range(2):
            victim = self.start(e2e.PHONG, "a")
            self.wait_frames("a", 5)
            self.tenants.stop(victim)
            e2e.wait_for(lambda: not self.node.vgpu("a")["processes"], "the dead one is gone")
        self.assertIsNone(survivor.poll())
        e2e.wait_for(lambda: self.node.vgpu("b")["window"]["gpu_share"] > 0.99, "all time goes to the survivor")

    def test_a_fork_attaches_as_itself(self):
        self.node.create("shell", weight=50)
        program = self.start(["sh", "-c", "glxgears & glxgears & wait"], "shell")
        e2e.wait_for(lambda: len(self.node.vgpu("shell")["processes"]) == 2, "both children are attached")
        self.assertNotIn(program.pid, [p["pid"] for p in self.node.vgpu("shell")["processes"]])

    def test_force_removes_a_busy_vgpu_and_the_program_lives(self):
        self.node.create("a")
        program = self.start(e2e.DRAWS, "a")
        self.wait_frames("a")
        status, body = self.node.call("DELETE", "/v1/vgpus/a")
        self.assertEqual((status, body["error"]["code"]), (409, "busy"))
        self.assertEqual(self.node.call("DELETE", "/v1/vgpus/a?force=true")[0], 200)
        time.sleep(1)
        self.assertIsNone(program.poll())

    def test_pause_stops_the_frames_and_resume_starts_them(self):
        self.node.create("a")
        self.start(e2e.DRAWS, "a")
        self.wait_frames("a")
        self.assertEqual(self.node.call("POST", "/v1/vgpus/a/pause")[1]["state"], "paused")
        e2e.wait_for(lambda: self.node.vgpu("a")["window"]["frames"] == 0, "no frame in a second")
        self.assertEqual(self.node.call("POST", "/v1/vgpus/a/resume")[0], 200)
        self.wait_frames("a")


class ForeignEnds(e2e.WithNode):
    """The attach path leads to a foreign file or server: the program must not notice."""

    def run_against(self, path):
        result = subprocess.run([e2e.WINDOWS, "--frames", "60", "--interval-ms", "20"], capture_output=True, text=True,
                                timeout=e2e.PATIENCE,
                                env={**os.environ, **self.display.environment, "LD_PRELOAD": e2e.PRELOAD, "WEIR_ATTACH": path})
        self.assertEqual((result.returncode, result.stdout), (0, "frames 60\n"), result.stderr)
        return result.stderr

    def test_no_daemon(self):
        self.assertIn("running unthrottled", self.run_against("/nonexistent/x.sock"))

    def test_a_file_instead_of_a_socket(self):
        path = os.path.join(self.node.folder, "file")
        open(path, "w").close()
        self.assertIn("running unthrottled", self.run_against(path))

    def serve(self, behave):
        path = os.path.join(self.node.folder, "foreign.sock")
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listener.bind(path)
        listener.listen()
        kept = []

        def accept():
            try:
                while True:
                    connection = listener.accept()[0]
                    kept.append(connection)
                    behave(connection)
            except OSError:
                pass

        threading.Thread(target=accept, daemon=True).start()
        self.addCleanup(listener.close)
        return path

    def test_a_server_that_never_answers(self):
        self.assertIn("no answer", self.run_against(self.serve(lambda connection: None)))

    def test_a_server_that_sends_garbage(self):
        self.assertIn("not from Weir", self.run_against(self.serve(lambda connection: connection.send(b"HTTP/1.1 200 OK\r\n\r\n"))))

    def test_a_server_that_closes_the_connection(self):
        self.assertIn("running unthrottled", self.run_against(self.serve(lambda connection: connection.close())))


class Preloaded(e2e.WithNode):
    def setUp(self):
        super().setUp()
        self.node.create("nobody")

    def check(self, command, **options):
        return subprocess.run(command, capture_output=True, text=True, timeout=e2e.PATIENCE,
                              env={**os.environ, **self.display.environment, **self.node.environment("nobody")}, **options)

    def test_a_program_without_graphics_is_not_affected(self):
        for command in (["/bin/ls", "/"], ["/bin/sh", "-c", "echo hello; exit 3"], ["python3", "-c", "print(1)"]):
            plain = subprocess.run(command, capture_output=True, text=True)
            preloaded = self.check(command)
            self.assertEqual((preloaded.returncode, preloaded.stdout, preloaded.stderr), (plain.returncode, plain.stdout, plain.stderr))

    def test_it_attaches_nowhere_without_a_present(self):
        self.check(["/bin/ls", "/"])
        self.assertEqual(self.node.vgpu("nobody")["processes"], [])


if __name__ == "__main__":
    e2e.main()
