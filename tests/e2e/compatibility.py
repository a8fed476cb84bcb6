# SPDX-License-Identifier: Apache-2.0
"""The table of docs/opencl-compatibility.md: each program natively, on its own host's device through Weir, and on another machine's by TLS. What it
says of its results must be the same three times; what is not installed is skipped, and said. Prints the table's rows.

    python3 tests/e2e/compatibility.py [NAME …]
"""
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import distant
import weir_e2e as e2e

FILTER = "hwupload,{},hwdownload,format=yuv420p"
CHOSEN = [argument for argument in sys.argv[1:] if not argument.startswith("-")]


def plain(out):
    return re.sub(r"\x1b\[[0-9;]*m", "", out)


def kinds_of_tests(out):
    return re.findall(r"\d+ test\(s\) \w+", plain(out))


def ffmpeg(filter_):
    return ["ffmpeg", "-v", "error", "-init_hw_device", "opencl=ocl", "-filter_hw_device", "ocl", "-f", "lavfi", "-i",
            "testsrc=size=320x240:rate=10:duration=1", "-vf", "format=yuv420p," + FILTER.format(filter_), "-f", "framemd5", "-"]


def cracked(mode, word):
    digest = (hashlib.md5 if mode == 0 else hashlib.sha256)(word.encode()).hexdigest()
    return ["hashcat", "-m", str(mode), "-a", "3", digest, "?l?l?l?l", "--potfile-disable", "--quiet"]


def digests(out):
    return [line for line in out.splitlines() if line and not line.startswith("#")]


def hashes(out):
    return re.findall(r"^[0-9a-f]{32,64}:.*$", out, re.M)


def verdicts(out):
    return re.findall(r"PASS|FAIL", out)


def parts_of_clpeak(out):
    """Its headings, and that each has a figure: figures differ from run to run."""
    return [line.split(":")[0].strip() for line in plain(out).splitlines() if re.search(r": +[\d.]+ *(\w+)?$|^ +[A-Z][^:]*$", line)][2:]


# Name, command, and what of its output is the same in every run.
PROGRAMS = [
    ("clinfo", ["clinfo"], lambda out: sorted(re.findall(r"^  Device (?:Type|Vendor ID) .*$|^  Max (?:compute units|work item dimensions|work group size) .*$", out, re.M))),
    ("clpeak", ["clpeak", "--global-bandwidth", "--kernel-latency"], parts_of_clpeak),
    ("xaxpy", ["clblast_test_xaxpy"], kinds_of_tests),
    ("xgemv", ["clblast_test_xgemv"], kinds_of_tests),
    ("xtrsm", ["clblast_test_xtrsm"], kinds_of_tests),
    ("clFFT 1024", ["clFFT-client", "-x", "1024", "-c"], verdicts),
    ("clFFT 256x128", ["clFFT-client", "-x", "256", "-y", "128", "-b", "4", "-c"], verdicts),
    ("clFFT 4096 double", ["clFFT-client", "-x", "4096", "-d", "-b", "2", "-c"], verdicts),
    ("ffmpeg avgblur", ffmpeg("avgblur_opencl=sizeX=5"), digests),
    ("ffmpeg unsharp", ffmpeg("unsharp_opencl=lx=5:ly=5:la=1.5"), digests),
    ("hashcat MD5", cracked(0, "mdfv"), hashes),
    ("hashcat SHA-256", cracked(1400, "weir"), hashes),
]


class Compatibility(distant.Distant):
    def test_programs_say_the_same_on_every_way(self):
        self.node.create("game")
        token = self.token("game")
        for name, command, essence in PROGRAMS:
            if CHOSEN and name.split()[0] not in CHOSEN:
                continue
            if shutil.which(command[0]) is None:
                print(f"| {name} | not installed |", flush=True)
                continue
            with self.subTest(name):
                self.one(name, command, essence, token)

    def one(self, name, command, essence, token):
        ways = {
            "natively": (command, {}),
            "here": (command, {"OCL_ICD_VENDORS": os.path.join(e2e.BUILD, "lib/weir/icd"),
                               "WEIR_OPENCL": os.path.join(self.node.run_dir, "opencl", "game.sock")}),
            "by TLS": ([e2e.WEIR, "run", "--run-dir", os.path.join(self.here, "run"), "--node", f"127.0.0.1:{self.port()}", "--token", token,
                        "--", *command], {}),
        }
        said, row = {}, []
        for way, (words, environment) in ways.items():
            with tempfile.TemporaryDirectory() as folder:  # some write where they are
                began = time.monotonic()
                done = subprocess.run(words, env={**os.environ, **environment, "WEIR_OPENCL_STATS": "1"}, cwd=folder,
                                      capture_output=True, text=True, timeout=900)
            said[way] = (done.returncode, essence(done.stdout))
            self.assertTrue(said[way][1], f"{name}, {way}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
            counted = re.search(r"(\d+) messages.*?(\d+) round trips", done.stderr)
            row.append(f"{time.monotonic() - began:.1f} s" + (f", {counted.group(1)} messages, {counted.group(2)} round trips" if counted else ""))
        print(f"| {name} | {said['natively'][0]}, {len(said['natively'][1])} results | " + " | ".join(row) + " |", flush=True)
        self.assertEqual(said["natively"], said["here"], name)
        self.assertEqual(said["natively"], said["by TLS"], name)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
