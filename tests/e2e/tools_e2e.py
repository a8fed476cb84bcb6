# SPDX-License-Identifier: Apache-2.0
"""weir record, doctor and top against a real daemon and real programs."""
import csv
import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import stat
import struct
import subprocess
import tempfile
import termios
import time

import weir_e2e as e2e


class Trace:
    """Parses the format of docs/protocol/trace.md, independently of Weir's own code."""

    def __init__(self, data):
        self.data, self.at = data, 0
        assert self.take(4) == b"WTRC" and struct.unpack("<HH", self.take(4)) == (1, 1)
        self.at = self.varint() + self.at
        self.processes, self.frames, self.lost, self.until_ns = [], [], 0, None
        while self.at < len(data):
            kind, size = self.take(1)[0], self.varint()
            end = self.at + size
            if kind == 1:
                self.processes.append((self.varint(), *[self.text() for _ in range(4)]))
            elif kind == 2:
                self.frames.append([self.varint() for _ in range(12)])
            elif kind == 3:
                self.lost += self.varint()
            elif kind == 4:
                self.until_ns = self.varint()
            self.at = end

    def take(self, count):
        self.at += count
        return self.data[self.at - count:self.at]

    def varint(self):
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def text(self):
        return self.take(self.take(1)[0]).decode()


class Tools(e2e.WithNode):
    def setUp(self):
        super().setUp()
        self.folder = tempfile.mkdtemp(prefix="weir-e2e-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.folder, name)

    def environment(self, **more):
        return {**os.environ, **self.display.environment, **more}

    def weir(self, *arguments, timeout=e2e.PATIENCE, **more):
        return subprocess.run([e2e.WEIR, "--run-dir", self.node.run_dir, *arguments], capture_output=True, text=True,
                              timeout=timeout, env=self.environment(**more))

    def assert_ended(self, pid):
        e2e.wait_for(lambda: not os.path.exists(f"/proc/{pid}"), f"process {pid} has ended")


class Record(Tools):
    def test_a_programs_frames_are_in_both_files_and_in_the_figures(self):
        csv_path, trace_path = self.path("gears.csv"), self.path("gears.wtrace")
        done = self.weir("record", "--json", "--seconds", "3", "--fps", "30", "--out", csv_path, "--trace", trace_path,
                         "--", "glxgears")
        self.assertEqual(done.returncode, 0, done.stderr)
        summary = json.loads(done.stdout[done.stdout.index("{\n"):])
        self.assertEqual((summary["ended_by"], summary["frames_lost"]), ("time", 0))
        self.assertGreater(summary["frames"], 10)
        low = summary["fps_low_1_percent"]
        self.assertLessEqual(low["slowest_mean"], low["percentile"] * 1.000001)
        self.assertLessEqual(low["slowest_mean"], summary["fps_mean"] * 1.000001)
        with open(csv_path, newline="") as text:
            rows = list(csv.DictReader(text))
        self.assertEqual(len(rows), summary["frames"])
        pid = summary["processes"][0]["pid"]
        for row in rows:
            self.assertEqual((row["Application"], row["ProcessID"], row["PresentRuntime"]), ("glxgears", str(pid), "GL"))
            self.assertEqual((row["DisplayedTime"], row["MsClickToPhotonLatency"]), ("NA", "NA"))
            self.assertGreaterEqual(float(row["MsCPUWait"]) + 0.001, float(row["MsInPresentAPI"]))
        times = sorted(float(r["MsBetweenAppStart"]) for r in rows if r["MsBetweenAppStart"] != "NA")
        self.assertAlmostEqual(times[(len(times) * 50 + 99) // 100 - 1], summary["frame_ms"]["p50"], delta=0.001)
        with open(trace_path, "rb") as data:
            trace = Trace(data.read())
        self.assertEqual(len(trace.frames), summary["frames"])
        self.assertEqual(trace.processes[0][:3], (pid, "glxgears", "gl"))
        self.assertIsNotNone(trace.until_ns)
        self.assert_ended(pid)
        e2e.wait_for(lambda: not self.node.get("/v1/vgpus")["vgpus"], "its vGPU is gone")

    def test_a_vgpu_is_recorded_until_ctrl_c(self):
        self.node.create("game")
        program = self.start(["glxgears"], "game")
        self.wait_frames("game")
        path = self.path("game.csv")
        recorder = subprocess.Popen([e2e.WEIR, "--run-dir", self.node.run_dir, "record", "game", "--out", path],
                                    stdout=subprocess.PIPE, text=True)
        e2e.wait_for(lambda: os.path.exists(path) and os.path.getsize(path) > 10_000, "rows are written")
        recorder.send_signal(signal.SIGINT)
        text = recorder.communicate(timeout=e2e.PATIENCE)[0]
        self.assertEqual(recorder.returncode, 0, text)
        self.assertIn("1 % low, integral", text)
        with open(path) as rows:
            self.assertIn(f"{len(rows.readlines()) - 1} frames", text)
        self.assertIsNone(program.poll(), "a program that was there before goes on")

    def test_a_full_disk_is_reported_and_the_figures_are_shown(self):
        done = self.weir("record", "--seconds", "10", "--out", "/dev/full", "--", "glxgears")
        self.assertEqual(done.returncode, 7, done.stderr)
        self.assertIn("No space left", done.stderr)

    def test_the_end_of_a_program_is_the_end_of_its_recording(self):
        path = self.path("gears.csv")
        recorder = subprocess.Popen([e2e.WEIR, "--run-dir", self.node.run_dir, "record", "--out", path, "--", "sh", "-c",
                                     "glxgears & read line; kill $!; exit 5"], stdin=subprocess.PIPE,
                                    stdout=subprocess.PIPE, text=True, env=self.environment())
        e2e.wait_for(lambda: os.path.exists(path) and os.path.getsize(path) > 10_000, "rows are written")
        text = recorder.communicate("end\n", timeout=e2e.PATIENCE)[0]
        self.assertEqual(recorder.returncode, 5, text)
        self.assertIn("1 % low", text)
        done = self.weir("record", "--", "true")
        self.assertEqual(done.returncode, 8, done.stderr)
        self.assertIn("weir doctor", done.stderr)

    def test_an_idle_vgpu_has_no_figures(self):
        self.node.create("idle")
        done = self.weir("record", "idle", "--seconds", "300ms")
        self.assertEqual(done.returncode, 8, done.stderr)
        self.assertIn("no frame", done.stderr)
        self.assertEqual(self.weir("record", "nobody").returncode, 3)

    def test_rows_may_go_to_a_pipe_and_figures_beside_them(self):
        # The program loads for longer than the recording lasts.
        done = self.weir("record", "--seconds", "2", "--out", "-", "--", "sh", "-c", "sleep 3; exec glxgears")
        rows = [line for line in done.stdout.splitlines() if line.startswith("glxgears,")]
        self.assertGreater(len(rows), 5, done.stdout)
        self.assertIn("mean FPS", done.stderr)


class Doctor(Tools):
    def examine(self, *arguments, **more):
        done = self.weir("doctor", "--json", *arguments, **more)
        found = json.loads(done.stdout)
        return done.returncode, {f["id"]: f for f in found["findings"]}, found

    def examine_until(self, seen, *program, **more):
        """As examine, but the trial ends once `seen` holds for its vGPU."""
        code, found = e2e.doctor(self.node, program, seen, self.environment(**more))
        return code, {f["id"]: f for f in found["findings"]}, found

    @staticmethod
    def metered(meter):
        """Whether the program draws and is measured so."""
        return lambda vgpu: vgpu["totals"]["frames"] > 0 and any(p["meter"] == meter for p in vgpu["processes"])

    def compiled(self, name, *flags):
        source = self.path("program.c")
        with open(source, "w") as text:
            text.write("#include <unistd.h>\nint main(void) { sleep(1); return 9; }\n")
        path = self.path(name)
        subprocess.run(["gcc", *flags, "-o", path, source], check=True)
        return path

    def test_an_attached_program(self):
        code, findings, found = self.examine_until(self.metered("worker-cpu-time"), "glxgears")
        self.assertEqual(code, 0, findings)
        self.assertTrue(found["hooked"])
        self.assertEqual(found["trial"]["attached"][0]["meter"], "worker-cpu-time")
        self.assertGreater(found["trial"]["frames"], 0)
        self.assertIn("through GLX", findings["hooked"]["what"])
        self.assert_ended(found["trial"]["pid"])
        self.assertEqual(self.node.get("/v1/vgpus")["vgpus"], [])

    def test_a_program_that_a_launcher_starts(self):
        code, findings, found = self.examine_until(self.metered("worker-cpu-time"), "sh", "-c", "glxgears & wait")
        self.assertEqual(code, 0, findings)
        attached = found["trial"]["attached"][0]
        self.assertNotEqual(attached["pid"], found["trial"]["pid"])
        self.assertEqual(attached["started_by"], f"sh({found['trial']['pid']})")

    def test_unattached_programs_and_the_reasons(self):
        cases = [(["/bin/true"], "not-hooked"), (["sleep", "9"], "no-gl"),
                 ([self.compiled("static", "-static")], "static"),
                 (["env", "-u", "LD_PRELOAD", "glxgears"], "preload-reset")]
        if os.geteuid() == 0:
            setuid = self.compiled("setuid")
            os.chown(setuid, 65534, 65534)
            os.chmod(setuid, 0o755 | stat.S_ISUID)
            cases.append(([setuid], "privileged"))
        for program, reason in cases:
            code, findings, found = self.examine("--seconds", "2", "--", *program)
            self.assertEqual(code, 8, (program, findings))
            self.assertIn(reason, findings, program)
            self.assertEqual(findings[reason]["level"], "problem")
            self.assertFalse(found["hooked"])
        self.assertEqual(self.node.get("/v1/vgpus")["vgpus"], [])

    def test_a_meter_with_wrong_times(self):
        # llvmpipe's own timestamps are wrong too, but whether the meter sees it depends on the host's other work.
        code, findings, _ = self.examine_until(self.metered("wall-clock"), "glxgears", WEIR_METER="timer-query",
                                               LD_PRELOAD=f"{e2e.BUILD}/lib/test/fast_gpu_clock.so")
        self.assertEqual(code, 0, findings)
        self.assertIn("meter-rejected", findings)
        self.assertIn("contradict", findings["message"]["what"])

    def test_programs_that_cannot_run(self):
        self.assertEqual(self.weir("doctor", "/nonexistent/program").returncode, 3)
        self.assertEqual(self.weir("doctor", "/etc/passwd").returncode, 6)

    def test_the_installation_and_the_daemon(self):
        code, findings, _ = self.examine()
        self.assertEqual(code, 0, findings)
        self.assertLessEqual({"install", "daemon", "device"}, set(findings))
        done = self.weir("doctor")
        self.assertEqual(done.returncode, 0)
        self.assertIn("ok      daemon", done.stdout)
        report = json.loads(self.weir("status", "--debug").stdout)
        self.assertEqual(report["daemon"]["status"]["pid"], self.node.process.pid)
        self.assertEqual([device["name"] for device in report["daemon"]["devices"]["devices"]], ["embedded"])
        self.assertIn("control.sock", [entry["name"] for entry in report["run_folder"]["entries"]])
        self.node.kill()
        self.assertIn("problem", json.loads(self.weir("status", "--debug").stdout)["daemon"]["status"])
        code, findings, _ = self.examine()
        self.assertEqual((code, findings["daemon-gone"]["level"]), (0, "note"), "'weir run' starts one")
        code, findings, _ = self.examine("--socket", "/nowhere/control.sock")
        self.assertEqual((code, findings["daemon-gone"]["level"]), (8, "problem"))


class Top(Tools):
    def in_a_terminal(self, columns, rows, *arguments, **more):
        """A `weir top` on a terminal of that size: its process, and this end of the terminal."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

        def take_terminal():
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        process = subprocess.Popen([e2e.WEIR, "--run-dir", self.node.run_dir, "top", *arguments], stdin=theirs,
                                   stdout=theirs, stderr=theirs, preexec_fn=take_terminal,
                                   env={**os.environ, "TERM": "xterm", "LC_ALL": "C.UTF-8", **more})
        os.close(theirs)
        self.addCleanup(os.close, ours)
        return process, ours

    @staticmethod
    def read_for(fd, seconds):
        data, end = b"", time.monotonic() + seconds
        while time.monotonic() < end:
            if select.select([fd], [], [], 0.05)[0]:
                try:
                    data += os.read(fd, 65536)
                except OSError:
                    break
        try:
            return data.decode()
        except UnicodeDecodeError as why:
            raise AssertionError(f"{why}, of {len(data)} bytes: {data[max(why.start - 300, 0):why.start + 100]}") from why

    @staticmethod
    def last_picture(text):
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text.split("\x1b[H")[-1]).replace("\r", "").splitlines()

    def test_it_fits_its_terminal_follows_its_size_and_ends_at_q(self):
        self.node.policy("sla-aware")  # which keeps promised rates; others ignore them, and top says so
        self.node.create("game", fps=60, weight=50)
        self.start(["glxgears"], "game")
        self.wait_frames("game")
        process, fd = self.in_a_terminal(80, 24, "--interval", "200ms")
        text = ""

        # While a busy host does not schedule the program, `top` shows no verdict.
        def shows_a_verdict():
            nonlocal text
            text += self.read_for(fd, 0.5)
            return re.search(r"\d/60 fps [✓✗]", "\n".join(self.last_picture(text)))
        e2e.wait_for(shows_a_verdict, "the promise is compared with what the program got")
        picture = self.last_picture(text)
        self.assertIn("game", "\n".join(picture))
        self.assertTrue(all(len(line) <= 80 for line in picture), picture)
        self.assertNotIn("PROGRAMS", "\n".join(picture))
        fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 170, 0, 0))
        wide = self.last_picture(self.read_for(fd, 1))
        self.assertIn("PROGRAMS", "\n".join(wide))
        self.assertTrue(any("▁" in line or "█" in line for line in wide), wide)
        os.write(fd, b"xq")
        self.assertEqual(process.wait(e2e.PATIENCE), 0)
        self.assertIn("\x1b[?1049l", self.read_for(fd, 0.5))

    def test_plain_terminals_get_plain_letters_and_no_colour(self):
        self.node.create("game", fps=60)
        process, fd = self.in_a_terminal(120, 24, LC_ALL="C", NO_COLOR="1")
        text = self.read_for(fd, 1.5)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(e2e.PATIENCE), 0)
        self.assertTrue(text.isascii(), text)
        self.assertNotIn("\x1b[1m", text)

    def test_once_is_for_pipes(self):
        self.node.create("game", fps=60)
        done = self.weir("top", "--once")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("GOT/PROMISED", done.stdout)
        self.assertNotIn("\x1b", done.stdout)
        self.assertEqual(json.loads(self.weir("top", "--once", "--json").stdout)["vgpus"][0]["name"], "game")


if __name__ == "__main__":
    e2e.main()
