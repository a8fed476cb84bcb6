# SPDX-License-Identifier: Apache-2.0
"""What a new user meets first: options that say what they do, errors that say what to do, and commands that agree with
the daemon that runs."""
import glob
import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import unittest

import weir_e2e as e2e

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
# A stand-in for docker: a program sees the system's files, of those of HIDDEN only what is mounted for it, and the
# environment that is given to it.
CONTAINER = """#!/bin/bash
set -eu
[[ "$1 $2" == "run --rm" ]]
shift 2
mounts=()
while [[ "$1" == -* ]]; do
  if [[ "$1" == --env-file ]]; then mapfile -t environment <"$2"; else [[ "$1" == -v ]] && mounts+=("$2"); fi
  shift 2
done
shift  # the image
stage="$(mktemp -d)"
mount -t tmpfs tmpfs "$stage"
bind() {
  if [[ -d "$1" ]]; then mkdir -p "$2"; else mkdir -p "$(dirname "$2")" && touch "$2"; fi
  mount --bind "$1" "$2"
}
for i in "${!mounts[@]}"; do bind "${mounts[i]%%:*}" "$stage/$i"; done
for folder in $HIDDEN; do mount -t tmpfs tmpfs "$folder"; done
for i in "${!mounts[@]}"; do to="${mounts[i]#*:}" && bind "$stage/$i" "${to%%:*}"; done
cd /
exec env -i "${environment[@]}" "$@"
"""


class Usage(unittest.TestCase):
    def setUp(self):
        self.node = e2e.Node().start()
        self.addCleanup(self.node.close)

    def weir(self, *arguments, code=0, run_dir=None, manager=""):
        done = subprocess.run([e2e.WEIR, "--run-dir", run_dir or self.node.run_dir, *arguments], capture_output=True,
                              text=True, timeout=e2e.PATIENCE, env={**os.environ, "WEIR_MANAGER": manager})
        self.assertEqual(done.returncode, code, f"{arguments}: {done.stdout}{done.stderr}")
        return done

    def completed_by_bash(self, *words):
        """What bash would offer for these words, the last of which is under the cursor."""
        script = 'source <("$1" completion bash) && COMP_WORDS=("$@") && COMP_CWORD=$(($# - 1)) && _weir && printf "%s\\n" "${COMPREPLY[@]}"'
        done = subprocess.run(["bash", "-c", script, "bash", e2e.WEIR, *words], capture_output=True, text=True,
                              timeout=e2e.PATIENCE)
        return done.stdout.split()

    def test_bash_completes_commands_options_and_names(self):
        self.node.create("game-1")
        self.node.create("job")
        self.assertEqual(self.completed_by_bash("vg"), ["vgpu"])
        self.assertIn("create", self.completed_by_bash("vgpu", ""))
        self.assertEqual(self.completed_by_bash("vgpu", "create", "--weig"), ["--weight"])
        self.assertEqual(self.completed_by_bash("policy", "prop"), ["proportional-share"])
        self.assertEqual(self.completed_by_bash("--run-dir", self.node.run_dir, "vgpu", "show", "ga"), ["game-1"])
        self.assertEqual(self.completed_by_bash("--run-dir", "/nowhere", "vgpu", "show", "ga"), [])
        self.assertEqual(self.completed_by_bash("complet"), ["completion"])

    def test_each_shell_reads_its_script(self):
        for shell, arguments in (("bash", ["-n"]), ("zsh", ["-n"]), ("fish", ["--no-execute"])):
            script = self.weir("completion", shell).stdout
            if shutil.which(shell) is None:
                print(f"{shell} is not installed: its script is not read")
                continue
            read = subprocess.run([shell, *arguments], input=script, capture_output=True, text=True, timeout=e2e.PATIENCE)
            self.assertEqual((read.returncode, read.stderr), (0, ""), shell)
        self.assertIn("known: bash, zsh, fish", self.weir("completion", "tcsh", code=2).stderr)

    def test_every_command_has_a_man_page_and_is_completed(self):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        subprocess.run([os.path.join(ROOT, "scripts/man-pages"), "--build", e2e.BUILD, "--out", folder], check=True,
                       stdout=subprocess.DEVNULL, timeout=e2e.PATIENCE)
        of_commands = {name.removesuffix(".1") for name in os.listdir(os.path.join(folder, "man1"))}
        commands = e2e.commands_of(lambda *words: self.weir("complete", "--", *words, "").stdout)
        self.assertEqual(of_commands, {"-".join(("weir", *words)) for words in commands})
        self.assertIn("weir-dashboard.8", os.listdir(os.path.join(folder, "man8")))
        if shutil.which("groff") is None:
            return print("groff is not installed: the pages are not read")
        shown = subprocess.run(["groff", "-man", "-ww", "-Tutf8", *glob.glob(os.path.join(folder, "*/*"))],
                               capture_output=True, text=True, timeout=e2e.PATIENCE)
        self.assertEqual((shown.returncode, shown.stderr), (0, ""))

    def test_keys_are_those_of_the_running_daemon(self):
        keys = os.path.join(self.node.state_dir, "keys")
        token = os.path.join(self.node.folder, "game.token")
        self.assertIn(f"recorded in {keys}", self.weir("keys", "token", "game", "--out", token).stdout)
        self.assertTrue(os.path.exists(os.path.join(keys, "ca.key")))
        self.assertEqual(json.loads(self.weir("keys", "list", "--json").stdout)["dir"], keys)
        self.assertIn("--force replaces it", self.weir("keys", "token", "game", "--out", token, code=4).stderr)
        self.node.kill()
        self.assertIn(f"recorded in {keys}", self.weir("keys", "list", "--state-dir", self.node.state_dir).stdout)

    def test_a_daemon_without_keys_names_the_command_that_makes_them(self):
        state, run = os.path.join(self.node.folder, "other"), os.path.join(self.node.folder, "run2")
        refused = self.weir("serve", "--state-dir", state, "--listen", "127.0.0.1:0", code=3, run_dir=run).stderr
        self.assertIn(f"'weir keys init --dir {state}/keys' makes them", refused)

    def test_a_daemon_with_another_key_folder_tells_where_it_is(self):
        keys = os.path.join(self.node.folder, "keys elsewhere")
        self.weir("keys", "init", "--dir", keys)
        self.node.kill()
        self.node.arguments = ("--listen", "127.0.0.1:0", "--keys-dir", keys)
        self.node.start()
        self.assertIn(f"no tokens in {keys}", self.weir("keys", "list").stdout)

    def test_memory_is_rounded_in_the_same_way_in_both_modes_and_said(self):
        made = self.weir("vgpu", "create", "m", "--memory", "32M:70M")
        rounding = "memory is given in slots of 64 MiB: a minimum of 32 MiB counts as 64 MiB, a maximum of 70 MiB counts as 128 MiB"
        self.assertIn("warning: " + rounding, made.stderr)
        self.assertIn(rounding, self.weir("vgpu", "show", "m").stdout)
        self.assertIn("limit 32M:70M; OpenCL objects have 0", self.weir("vgpu", "show", "m").stdout)
        self.weir("memory", "on", "--size", "1G")
        memory = self.node.vgpu("m")["memory"]
        self.assertEqual((memory["min_slots"], memory["max_slots"], memory["rounding"]), (1, 2, rounding))
        self.assertEqual(self.weir("vgpu", "create", "n", "--memory", "128M:256M").stderr, "")
        self.assertIn("vGPU 'n': memory: it can't be guaranteed 2048 MiB",
                      self.weir("vgpu", "set", "n", "--memory", "2G:2G", code=2).stderr)

    def test_memory_that_is_less_than_a_slot_is_not_called_nothing(self):
        self.weir("memory", "on", "--size", "1G")
        made = self.weir("vgpu", "create", "m", "--memory", "64K:64K").stderr
        self.assertIn("counts as 64 MiB", made)
        self.assertNotRegex(made, r"\b0 MiB")

    def test_columns_of_shares_and_of_memory_say_what_they_are_of(self):
        self.weir("vgpu", "create", "m", "--memory", "64M:128M")
        self.assertRegex(self.weir("vgpu", "list").stdout, r"^VGPU .* OF DEVICE +OF USED *\n")
        shown = self.weir("vgpu", "list", "--help").stdout
        self.assertIn("OF DEVICE is the part of the device's GPU time that the vGPU used", shown)
        self.assertRegex(shown, r"OF USED is its part of\s+what all vGPUs of the device used")
        self.assertRegex(self.weir("vgpu", "show", "m").stdout, "0 % of the device, 0 % of what is used")
        self.weir("memory", "on", "--size", "1G")
        shown = self.weir("memory").stdout
        self.assertRegex(shown, "VGPU +MIN +MAX +HOLDS +HERE +USES +MADE +COPIED")
        self.assertRegex(shown, r"MIN to HERE are slots: .*\. USES, MADE and COPIED are\s+bytes")

    def test_commands_of_a_cluster_ask_the_same_manager(self):
        defaults = {}
        for command in ("nodes", "cluster status", "explain", "migrate", "run"):
            shown = " ".join(self.weir(*command.split(), "--help").stdout.split())
            defaults[command] = re.search(r"--manager HOST:PORT,\.\.\. .*?\(default: (.*?)\)", shown)[1]
        self.assertEqual(set(defaults.values()), {"$WEIR_MANAGER, else 127.0.0.1:7710"}, defaults)
        self.assertIn("default 127.0.0.1:7710", self.weir("manager", "--help").stdout)
        for command in ("nodes", "module list"):
            refused = self.weir(*command.split(), code=8, manager="127.0.0.1:1").stderr
            self.assertIn("cannot reach 127.0.0.1:1:", refused)
        refused = self.weir("module", "list", code=8).stderr
        self.assertIn("start the node's daemon with 'weir serve --modules VGPU', or name a cluster's managers", refused)

    def test_a_number_out_of_range_is_answered_with_the_range(self):
        self.weir("vgpu", "create", "a")
        for option, value, says in (("--cap", "20", "cap = 20 is outside 0.01 … 1; write 0.2 or 20%"),
                                    ("--fps", "-3", "fps = -3 is outside 0 … 1000 (0: no promise)"),
                                    ("--weight", "0", "weight = 0 is outside 1 … 10000"),
                                    ("--weight", "99999999999", "weight = 99999999999 is outside 1 … 10000")):
            self.assertIn(says, self.weir("vgpu", "set", "a", option, value, code=2).stderr)

    def test_a_refused_sale_names_the_holders_and_what_can_be_given(self):
        self.weir("vgpu", "create", "holder")
        self.weir("oversell", "strict")
        refused = self.weir("vgpu", "create", "late", code=7).stderr
        self.assertIn("Sold to: holder (100 %). Give a lower --cap, or --best-effort for idle time only", refused)
        self.weir("vgpu", "create", "late", "--best-effort")

    def test_a_promise_that_the_policy_ignores_is_said(self):
        made = self.weir("vgpu", "create", "game", "--fps", "30").stderr
        self.assertIn("ignores promised rates and latencies; 'weir policy sla-aware --device embedded' keeps them", made)

    def test_top_waits_for_a_daemon_as_events_does(self):
        self.weir("vgpu", "create", "kept")
        log = os.path.join(self.node.folder, "top")
        with open(log, "w") as out:
            top = subprocess.Popen([e2e.WEIR, "--run-dir", self.node.run_dir, "top", "--interval", "100ms"], stdout=out,
                                   stderr=subprocess.STDOUT)
        self.addCleanup(e2e.end_all, [top])

        def shown():
            with open(log) as text:
                return text.read()

        e2e.wait_for(lambda: "kept" in shown(), "top shows the vGPU")
        self.node.kill()
        e2e.wait_for(lambda: "the daemon doesn't answer; waiting for it to return" in shown(), "top says so")
        self.assertIsNone(top.poll())
        self.node.start()
        self.weir("vgpu", "create", "later")
        e2e.wait_for(lambda: "later" in shown(), "top goes on")
        self.node.kill()
        self.weir("top", "--once", code=8)

    def in_a_container(self, *program):
        """Runs a program of the build as docs/how-to/common-commands.md says for containers, in the stand-in."""
        with open(os.path.join(ROOT, "docs/how-to/common-commands.md")) as page:
            section = page.read().split("\n## Use Weir in a container\n")[1]
        commands = section.split("```sh\n")[1].split("```")[0]
        self.assertEqual((commands.count("/run/weir/"), commands.count("IMAGE PROGRAM")), (4, 1))
        words = shlex.join([os.path.join(e2e.BUILD, "bin", program[0]), *program[1:]])
        commands = commands.replace("/run/weir/", self.node.run_dir + "/").replace("IMAGE PROGRAM", "image " + words)
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        with open(os.open(os.path.join(folder, "docker"), os.O_WRONLY | os.O_CREAT, 0o755), "w") as docker:
            docker.write(CONTAINER)
        libraries = os.path.realpath(os.path.join(e2e.BUILD, "lib"))
        environment = {"PATH": f"{folder}:{e2e.BUILD}/bin:/usr/sbin:/usr/bin:/sbin:/bin", "TMPDIR": folder,
                       "WEIR_RUN_DIR": self.node.run_dir, "HIDDEN": f"{self.node.folder} {libraries}"}
        done = subprocess.run(["unshare", "--mount", "--propagation", "private", "bash", "-euc", commands], cwd=folder,
                              env=environment, capture_output=True, text=True, timeout=e2e.PATIENCE)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_the_command_for_containers_makes_a_tenant(self):
        tried = subprocess.run(["unshare", "--mount", "true"], capture_output=True, text=True)
        if tried.returncode != 0:
            self.skipTest(f"no mounts can be made here: {tried.stderr.strip()}")
        self.node.create("game")
        self.in_a_container("weir_off_screen", "--on", "egl", "--end", "finish", "--frames", "20")
        e2e.wait_for(lambda: not self.node.vgpu("game")["processes"], "its time is charged")
        drawn = self.node.gpu_ns()["game"]
        self.assertGreater(drawn, 0, "OpenGL passes the gate")
        self.in_a_container("opencl_loop", "0.2", "4096", "1")
        self.assertGreater(self.node.gpu_ns()["game"], drawn, "OpenCL passes the gate")

    def test_opengl_with_node_is_warned_of(self):
        token = os.path.join(self.node.folder, "none.token")
        said = self.weir("run", "--node", "127.0.0.1:1", "--token", token, "--", "glxgears", code=3).stderr
        self.assertIn("glxgears uses OpenGL, which stays on this machine, neither paced nor metered", said)
        self.assertIn(f"opening {token}: No such file", said)
        self.assertIn("the program was not started", said)
        said = self.weir("run", "--strict", "--node", "127.0.0.1:1", "--token", token, "--", "glxgears", code=5).stderr
        self.assertIn("not run (--strict): glxgears uses OpenGL", said)
        script = os.path.join(self.node.folder, "a.py")
        with open(script, "w") as text:
            text.write("print(1)\n")
        os.chmod(script, 0o644)
        said = self.weir("run", "--node", "127.0.0.1:1", "--token", script, "--", "true", code=6).stderr
        self.assertIn(f"other users can read {script}", said)
        self.assertNotIn("OpenGL", said)

    def test_names_in_a_scenario_are_checked_before_it_is_played(self):
        scenario = os.path.join(self.node.folder, "s.toml")
        with open(scenario, "w") as text:
            text.write('name = "s"\nseconds = 1\n[[tenant]]\nname = "a"\ngpu_ms = 5\n[[run]]\npolicy = "none"\n'
                       '[[expect]]\nmetric = "fsp"\nrun = "none"\ntenant = "a"\nmin = 1\n')
        said = self.weir("sim", "run", scenario, code=2)
        self.assertIn("s.toml:8: no metric 'fsp'", said.stderr)
        self.assertIn("did you mean 'fps'?", said.stderr)
        self.assertEqual(said.stdout, "")


if __name__ == "__main__":
    e2e.main()
