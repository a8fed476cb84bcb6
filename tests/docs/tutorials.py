#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the commands of a tutorial as a reader would, and compares what they print with what the page shows.

Each ```sh block of the page runs in one shell, in order. A ```text block after it is the expected output, standard output
and standard error together; `...` stands for any text within a line, a line of `...` alone for any number of lines. A block
fails when a command of it ends with a status other than 0, or when the output differs. The shell has a home folder, a run
folder and network ports of its own, so pages can run beside each other and beside a daemon of the machine.
"""
import argparse
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

BLOCK = re.compile(r"^```(sh|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SECONDS_A_BLOCK = 120  # a page asserts no speed: a machine that does other work may take this long
# Runs a block in the page's shell, so that its variables and background jobs remain. The ERR trap gives `set -e` the
# scope of the block: the shell must survive to report the block's status.
RUN_BLOCK = """
trap 'weir_status=$?' ERR
weir_status=0
. {block} >{output} 2>&1
trap - ERR
echo $weir_status >{status}.new
mv {status}.new {status}
"""


def steps_of(text):
    """(line number, commands, expected output or None) of each block of commands."""
    steps = []
    for block in BLOCK.finditer(text):
        line = text.count("\n", 0, block.start()) + 1
        if block[1] == "sh":
            steps.append([line, block[2], None])
        elif steps and steps[-1][2] is None:
            steps[-1][2] = block[2]
        else:
            raise ValueError(f"line {line}: a text block does not follow a block of commands")
    return steps


def pattern_of(expected):
    lines = []
    for line in expected.rstrip("\n").split("\n"):
        if line.strip() == "...":
            lines.append(r"(?:.*\n)*?")
        else:
            # Column widths depend on contents, so any run of spaces matches any other.
            parts = [r" +".join(map(re.escape, re.split(" +", part))) for part in line.rstrip().split("...")]
            lines.append(".*".join(parts) + r" *\n")
    return re.compile("".join(lines))


def differs(expected, output):
    if output and not output.endswith("\n"):
        output += "\n"
    return pattern_of(expected).fullmatch(output) is None


class Page:
    def __init__(self, build, sources):
        self.folder = tempfile.mkdtemp(prefix="weir-docs-")
        home, run = os.path.join(self.folder, "home"), os.path.join(self.folder, "run")
        os.mkdir(home)
        os.mkdir(run, 0o700)
        self.ports, self.display, self.count = {}, None, 0
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith(("WEIR_", "OCL_ICD", "LD_PRELOAD", "DISPLAY"))}
        environment.update(HOME=home, XDG_RUNTIME_DIR=run, WEIR_STATE_DIR=os.path.join(home, ".local/state/weir"),
                           WEIR_RUN_DIR=os.path.join(run, "weir"), PATH=f"{build}/bin:{environment['PATH']}",
                           WEIR_SOURCES=str(sources), WEIR_BUILD=str(build), LIBGL_ALWAYS_SOFTWARE="1", vblank_mode="0")
        self.shell = subprocess.Popen(["bash", "--norc", "--noprofile"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                      stderr=subprocess.DEVNULL, text=True, cwd=home, env=environment,
                                      start_new_session=True)

    def port(self, wanted):
        """A free port of this machine that replaces the one in the page."""
        if wanted not in self.ports:
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                self.ports[wanted] = str(probe.getsockname()[1])
        return self.ports[wanted]

    def here(self, commands):
        return re.sub(r"(?<=127\.0\.0\.1:)\d+", lambda found: self.port(found[0]), commands)

    def as_in_the_page(self, output):
        for wanted, used in self.ports.items():
            output = output.replace(":" + used, ":" + wanted)
        return output.replace(os.path.join(self.folder, "home"), "~")

    def run(self, commands):
        self.count += 1
        names = {name: os.path.join(self.folder, f"{name}{self.count}") for name in ("block", "output", "status")}
        with open(names["block"], "w") as file:
            file.write(self.here(commands))
        self.shell.stdin.write(RUN_BLOCK.format(**names))
        self.shell.stdin.flush()
        deadline = time.monotonic() + SECONDS_A_BLOCK
        while not os.path.exists(names["status"]):
            if time.monotonic() > deadline:
                return None, self.read(names["output"])
            if self.shell.poll() is not None:
                return self.shell.returncode or 1, self.read(names["output"])
            time.sleep(0.02)
        with open(names["status"]) as file:
            return int(file.read()), self.read(names["output"])

    def read(self, path):
        with open(path, errors="replace") as file:
            return self.as_in_the_page(file.read())

    def close(self):
        self.shell.stdin.close()
        try:
            os.killpg(self.shell.pid, signal.SIGTERM)
            time.sleep(0.5)
            os.killpg(self.shell.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.shell.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def run_page(path, build, sources, show):
    try:
        steps = steps_of(path.read_text(encoding="utf-8"))
    except ValueError as error:
        print(f"{path}: {error}")
        return False
    if not steps:
        print(f"{path}: no block of commands")
        return False
    page = Page(build, sources)
    try:
        for line, commands, expected in steps:
            status, output = page.run(commands)
            if show:
                print(f"--- line {line}, status {status}\n{commands}--- prints\n{output}")
            wrong = ""
            if status is None:
                wrong = f"did not end within {SECONDS_A_BLOCK} s"
            elif status != 0:
                wrong = f"ended with status {status}"
            elif expected is not None and differs(expected, output):
                wrong = f"printed something else; the page shows:\n{expected}"
            if wrong:
                print(f"{path}:{line}: the commands\n{commands}{wrong}\nprinted:\n{output}")
                return False
    finally:
        page.close()
    print(f"{path.name}: {len(steps)} blocks of commands")
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sources = pathlib.Path(__file__).resolve().parent.parent.parent
    parser.add_argument("pages", nargs="+", type=pathlib.Path)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path(os.environ.get("WEIR_BUILD", sources / "build/dev")))
    parser.add_argument("--show", action="store_true", help="print each block and its output")
    arguments = parser.parse_args()
    return 0 if all([run_page(path, arguments.build.resolve(), sources, arguments.show) for path in arguments.pages]) else 1


if __name__ == "__main__":
    sys.exit(main())
