# SPDX-License-Identifier: Apache-2.0
"""Produces the table of docs/opencl-compatibility.md: runs each program natively, on its own host's device through
Weir, and on another machine's over TLS. Its results must be the same three times. Programs that are not installed
are skipped with a message. Prints the table's rows.

  WEIR_PYOPENCL_TESTS=FOLDER python3 tests/e2e/compatibility.py [NAME …]

FOLDER: pyopencl's own tests, which no package contains: `test` of its sources, at the tag of the installed version.
"""
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import typing
import unittest

import distant
import weir_e2e as e2e

FILTER = "hwupload,{},hwdownload,format=yuv420p"
PYTHON = "/usr/bin/python3"  # Debian's interpreter, for which python3-pyopencl is built
VIENNACL = os.path.join(e2e.BUILD, "bin/opencl_viennacl")
PYOPENCL_TESTS = os.environ.get("WEIR_PYOPENCL_TESTS", "")
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
    """The headings of its output, each of which has a figure; the figures differ from run to run."""
    return [line.split(":")[0].strip() for line in plain(out).splitlines() if re.search(r": +[\d.]+ *(\w+)?$|^ +[A-Z][^:]*$", line)][2:]


def outcomes(out):
    """The results of pytest, test by test, without the names of platforms."""
    return sorted(re.findall(r"^(\S+\.py::.*? [A-Z]+)\b", re.sub(r"<context factory.*?>>|<pyopencl.Platform.*?>", "device", out), re.M))


def pyopencl(files, without=()):
    """`without`: tests whose kernels take a minute or more to compile."""
    chosen = ["-k", " and ".join("not " + name for name in without)] if without else []
    return ["sh", "-c", 'cd "$WEIR_PYOPENCL_TESTS" && XDG_CACHE_HOME="$OLDPWD" exec "$@"', "sh", PYTHON, "-B", "-m", "pytest", "-v",
            "-p", "no:cacheprovider", *chosen, *(f"test_{file}.py" for file in files)]


def no_pyopencl():
    if not os.path.isdir(PYOPENCL_TESTS):
        return "WEIR_PYOPENCL_TESTS names no folder"
    found = subprocess.run([PYTHON, "-c", "import pyopencl, pytest"], capture_output=True, text=True)
    return "python3-pyopencl or python3-pytest is not installed" if found.returncode else ""


def no_viennacl():
    """Also compiles the program: its headers take half a minute."""
    if not os.path.isdir("/usr/include/viennacl"):
        return "libviennacl-dev is not installed"
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../programs/opencl_viennacl.cc")
    if not os.path.exists(VIENNACL) or os.path.getmtime(VIENNACL) < os.path.getmtime(source):
        subprocess.run(["c++", "-O1", "-w", "-o", VIENNACL, source, "-lOpenCL"], check=True, capture_output=True)
    return ""


# Its output differs from run to run, also natively where a CPU is presented as a GPU: the kernels of its lookahead
# race.
X264 = """
awk 'BEGIN { for (f = 0; f < 30; ++f) for (i = 0; i < 320 * 240 * 3 / 2; ++i) printf "%c", 32 + (int(i / 7) * (f + 3) + i % 320 * 2) % 90 }' >in.yuv
x264 --opencl --input-res 320x240 --fps 25 --threads 1 -o out.264 in.yuv 2>said
cat said >&2
grep -oE 'OpenCL acceleration enabled|encoded [0-9]+ frames' said
echo "$(ffmpeg -v error -i out.264 -f framemd5 - 2>&1 | grep -vc '^#') decoded"
"""


class Program(typing.NamedTuple):
    name: str
    command: list
    essence: typing.Callable  # the part of its output that is the same in every run
    without: typing.Callable = lambda: ""  # the reason why it can't be run
    natively: str = ""  # the reason why the native output is not comparable
    # results that differ from the native ones on purpose; docs/opencl-compatibility.md gives the reasons
    differs: str = ""
    environment: dict = {}


PROGRAMS = [
    Program("clinfo", ["clinfo"], lambda out: sorted(re.findall(r"^  Device (?:Type|Vendor ID) .*$|^  Max (?:compute units|work item dimensions|work group size) .*$", out, re.M))),
    Program("clpeak", ["clpeak", "--global-bandwidth", "--kernel-latency"], parts_of_clpeak),
    Program("xaxpy", ["clblast_test_xaxpy"], kinds_of_tests),
    Program("xgemv", ["clblast_test_xgemv"], kinds_of_tests),
    Program("xtrsm", ["clblast_test_xtrsm"], kinds_of_tests),
    Program("clFFT 1024", ["clFFT-client", "-x", "1024", "-c"], verdicts),
    Program("clFFT 256x128", ["clFFT-client", "-x", "256", "-y", "128", "-b", "4", "-c"], verdicts),
    Program("clFFT 4096 double", ["clFFT-client", "-x", "4096", "-d", "-b", "2", "-c"], verdicts),
    Program("ffmpeg avgblur", ffmpeg("avgblur_opencl=sizeX=5"), digests),
    Program("ffmpeg unsharp", ffmpeg("unsharp_opencl=lx=5:ly=5:la=1.5"), digests),
    Program("hashcat MD5", cracked(0, "mdfv"), hashes),
    Program("hashcat SHA-256", cracked(1400, "weir"), hashes),
    Program("viennacl", [VIENNACL], str.splitlines, without=no_viennacl),
    Program("x264", ["sh", "-c", X264], str.splitlines, natively="it asks for a GPU and finds none",
            without=lambda: "" if shutil.which("x264") and shutil.which("ffmpeg") else "not installed, or ffmpeg is not", environment={"WEIR_OPENCL_DEVICE_TYPE": "gpu"}),
    Program("pyopencl wrapper", pyopencl(["wrapper", "enqueue_copy", "arrays_in_structs", "clmath", "clrandom"]), outcomes, without=no_pyopencl,
            differs="_svm|test_image_[23]d"),
    Program("pyopencl algorithm", pyopencl(["algorithm"], ["bitonic", "scan", "minmax", "dot", "copy_if", "partition", "unique", "index_preservation", "sort",
                                                           "test_list_builder", "key_value_sorter"]), outcomes, without=no_pyopencl),
    Program("pyopencl array", pyopencl(["array"], ["absrealimag", "div_type_matches", "subtract_array", "divide_scalar", "divide_inplace_array", "bitwise",
                                                   "random", "comparisons", "any_all", "outoforderqueue_reductions", "on_nans", "device_scalars",
                                                   "positive_with_scalars", "maximum_minimum", "empty_reductions", "dtype_conversions"]), outcomes,
            without=no_pyopencl, differs="_svm_"),
]


class Compatibility(distant.Distant):
    maxDiff = None

    def test_programs_give_the_same_results_natively_locally_and_remotely(self):
        self.node.create("game")
        token = self.token("game")
        for program in PROGRAMS:
            if CHOSEN and not {program.name, program.name.split()[0]} & set(CHOSEN):
                continue
            why_not = program.without() or ("" if shutil.which(program.command[0]) else "not installed")
            if why_not:
                print(f"| {program.name} | {why_not} |", flush=True)
                continue
            with self.subTest(program.name):
                self.one(program, token)

    def one(self, program, token):
        ways = {
            "natively": (program.command, {}),
            "here": (program.command, {"OCL_ICD_VENDORS": os.path.join(e2e.BUILD, "lib/weir/icd"),
                                       "WEIR_OPENCL": os.path.join(self.node.run_dir, "opencl", "game.sock")}),
            "by TLS": ([e2e.WEIR, "run", "--run-dir", os.path.join(self.here, "run"), "--node", f"127.0.0.1:{self.port()}", "--token", token,
                        "--", *program.command], {}),
        }
        said, row = {}, []
        for way, (words, environment) in ways.items():
            if way == "natively" and program.natively:
                row.append("not run: " + program.natively)
                continue
            with tempfile.TemporaryDirectory() as folder:  # some programs write to the working directory
                began = time.monotonic()
                done = subprocess.run(words, env={**os.environ, **environment, **program.environment, "WEIR_OPENCL_STATS": "1"}, cwd=folder,
                                      capture_output=True, text=True, timeout=1800)
            said[way] = (done.returncode, program.essence(done.stdout))
            self.assertTrue(said[way][1], f"{program.name}, {way}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
            counted = re.search(r"(\d+) messages.*?(\d+) round trips", done.stderr)
            row.append(f"{time.monotonic() - began:.1f} s" + (f", {counted.group(1)} messages, {counted.group(2)} round trips" if counted else ""))
        print(f"| {program.name} | {said['here'][0]}, {len(said['here'][1])} results | " + " | ".join(row) + " |", flush=True)
        self.assertEqual(said["here"], said["by TLS"], program.name)
        if not program.natively:
            self.assertEqual(*([line for line in said[way][1] if not program.differs or not re.search(program.differs, line)]
                               for way in ("natively", "here")), program.name)
            self.assertEqual(said["natively"][0], said["here"][0], program.name)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
