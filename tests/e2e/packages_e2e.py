# SPDX-License-Identifier: Apache-2.0
"""The Debian packages in a fresh Debian with systemd: installed, upgraded while programs run, removed and purged. The
packages are those of scripts/package, or those in the folder that WEIR_PACKAGES names."""
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import machine
import weir_e2e as e2e

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
PACKAGES = os.environ.get("WEIR_PACKAGES") or os.path.join(ROOT, "build/packages")
LOOP = os.path.join(e2e.BUILD, "bin/opencl_loop")
# What tenants need, and no package of Weir.
OF_TENANTS = ["procps", "xvfb", "mesa-utils", "libgl1-mesa-dri", "libglx-mesa0", "vulkan-tools", "libvulkan1",
              "mesa-vulkan-drivers", "ocl-icd-libopencl1", "pocl-opencl-icd"]
# The OpenCL program ends by itself. It must still run when the packages have been removed and installed again.
LOOP_SECONDS = 150
# Files that other packages' programs write while they work.
OF_OTHERS = re.compile(r"/(dev|proc|sys|root|packages|next|run/(systemd|log|lock|user)|tmp/\.X.*"
                       r"|var/(cache|log|lib/(apt|dpkg|systemd)))(/|$)|/etc/ld\.so\.cache~?$")


def newer(package, folder):
    """The same package with a higher version."""
    with tempfile.TemporaryDirectory() as unpacked:
        subprocess.run(["dpkg-deb", "--raw-extract", package, unpacked], check=True)
        control = os.path.join(unpacked, "DEBIAN/control")
        with open(control) as file:
            text = file.read()
        version = re.search(r"^Version: (.*)$", text, re.MULTILINE)[1]
        with open(control, "w") as file:
            file.write(text.replace(version, version + "+next"))
        out = os.path.join(folder, os.path.basename(package).replace(version, version + "+next"))
        subprocess.run(["dpkg-deb", "--root-owner-group", "-Znone", "--build", unpacked, out], check=True,
                       stdout=subprocess.DEVNULL)


class Packages(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.machine = machine.Machine()
        self.addCleanup(self.machine.close)
        for folder in ("packages", "next"):
            os.mkdir(self.machine.path("/" + folder))
        for package in glob.glob(PACKAGES + "/*.deb"):
            shutil.copy(package, self.machine.path("/packages"))
            newer(package, self.machine.path("/next"))
        shutil.copy(LOOP, self.machine.path("/usr/local/bin"))
        self.machine.boot()
        self.machine.run("apt-get", "-q", "update")

    def debs(self, folder, *names):
        found = [glob.glob(self.machine.path(f"/{folder}/{name}_*.deb")) for name in names]
        self.assertEqual([len(paths) for paths in found], [1] * len(names), f"{names} in {PACKAGES}")
        return [f"/{folder}/{os.path.basename(paths[0])}" for paths in found]

    def weir(self, *words):
        return self.machine.run("weir", *words).stdout

    def active(self, unit):
        return self.machine.run("systemctl", "is-active", unit, check=False).stdout.strip()

    def passed(self):
        """How many frames and batches have passed each vGPU's gate, by the daemon's books."""
        vgpus = json.loads(self.weir("vgpu", "list", "--json"))["vgpus"]
        return {vgpu["name"]: vgpu["totals"]["tasks"] for vgpu in vgpus}

    def wait_for_work(self, what):
        """Until each program has passed its gate under the daemon that runs now."""
        before = self.passed()
        self.assertEqual(sorted(before), ["cl", "gl", "vk"])
        try:
            e2e.wait_for(lambda: all(count > before[name] + 5 for name, count in self.passed().items()), what)
        except AssertionError as why:
            raise AssertionError(f"{why}; before {before}, then {self.passed()}") from None

    def processes(self):
        """The tenants' programs and the executor."""
        found = self.machine.run("pgrep", "-l", "glxgears|vkcube|opencl_loop|weir-executor").stdout.splitlines()
        names = sorted(line.split()[1] for line in found)
        self.assertEqual(names, ["glxgears", "opencl_loop", "vkcube", "weir-executor"])
        return sorted(found)

    def complaints(self):
        """What each program has written to standard error, without Weir's own note there that no daemon answers now."""
        return {unit: [line for line in self.machine.outputs(unit)[1].splitlines()
                       if not line.endswith("until a daemon answers")] for unit in ("gl", "vk", "cl")}

    def files(self):
        """All files and folders that belong to no package, and all users and groups."""
        names = self.machine.run("find", "/", "-xdev", "!", "-type", "s").stdout.splitlines()
        names += self.machine.run("find", "/run", "-xdev").stdout.splitlines()
        owned = set()
        for path in glob.glob(self.machine.path("/var/lib/dpkg/info/*.list")):
            with open(path) as file:
                lines = file.read().splitlines()
            owned |= {re.sub("^/(bin|lib|lib64|sbin)(?=/|$)", r"/usr/\1", line) for line in lines}
        accounts = self.machine.run("cat", "/etc/passwd", "/etc/group").stdout.splitlines()
        return {name for name in {*names} - owned if not OF_OTHERS.match(name)} | {*accounts}

    def check_nothing_is_left(self, before):
        """Of Weir's packages, since the time when they were installed and nothing ran."""
        after = self.files()
        self.assertEqual(sorted(after - before), [])
        self.assertEqual(sorted(name for name in after if "weir" in name), [])
        units = self.machine.run("systemctl", "list-unit-files", "weir*", "--no-legend", check=False)
        of_systemd = self.machine.run("find", "/etc/systemd", "/var/lib/systemd", "-name", "*weir*")
        self.assertEqual((units.stdout, of_systemd.stdout), ("", ""))

    def check_commands(self):
        """Each command has a man page and is completed."""
        commands = e2e.commands_of(lambda *words: self.weir("complete", "--", *words, ""))
        self.assertGreater(len(commands), 30)
        pages = {os.path.basename(path) for path in glob.glob(self.machine.path("/usr/share/man/man1/weir*"))}
        self.assertEqual(pages, {"-".join(("weir", *words)) + ".1.gz" for words in commands})
        for program in glob.glob(self.machine.path("/usr/lib/*/weir/weir-*")):
            page = self.machine.path(f"/usr/share/man/man8/{os.path.basename(program)}.8.gz")
            self.assertTrue(os.path.exists(page), page)
        complete = ("source /usr/share/bash-completion/completions/weir; COMP_WORDS=(weir vgpu cre) COMP_CWORD=2; "
                    '_weir; echo "${COMPREPLY[@]}"')
        self.assertEqual(self.machine.run("bash", "-c", complete).stdout, "create\n")
        for path in ("zsh/vendor-completions/_weir", "fish/vendor_completions.d/weir.fish"):
            self.assertTrue(os.path.exists(self.machine.path("/usr/share/" + path)), path)

    def start_programs(self):
        self.machine.start("screen", [], "Xvfb", ":7", "-screen", "0", "1280x1024x24", "-nolisten", "tcp")
        e2e.wait_for(lambda: os.path.exists(self.machine.path("/tmp/.X11-unix/X7")), "the X server listens")
        screen = ["DISPLAY=:7", "vblank_mode=0"]
        loop = ["opencl_loop", str(LOOP_SECONDS), "65536", "64"]
        for vgpu, command in (("gl", ["glxgears"]), ("vk", ["vkcube"]), ("cl", loop)):
            self.weir("vgpu", "create", vgpu, "--weight", "50")
            self.machine.start(vgpu, screen, "weir", "run", "--vgpu", vgpu, "--", *command)

    def test_install_upgrade_remove_and_purge(self):
        try:
            self.check_a_life()
        except BaseException:
            for unit in ("gl", "vk", "cl"):
                if os.path.exists(self.machine.path(f"/srv/{unit}.out")):
                    print(f"{unit}: {self.machine.outputs(unit)}", file=sys.stderr)
            print(self.machine.run("journalctl", "--no-pager", "-n", "60", "-u", "weir*").stdout, file=sys.stderr)
            raise

    def check_a_life(self):
        installed = self.machine.install(*self.debs("packages", "weir", "weir-shims"))
        self.assertNotIn("warning", installed.lower())
        self.assertEqual((self.active("weir"), self.active("weir-manager")), ("active", "inactive"))
        enabled = self.machine.run("systemctl", "is-enabled", "weir", "weir-manager", check=False).stdout
        self.assertEqual(enabled, "enabled\ndisabled\n")
        e2e.wait_for(lambda: self.machine.run("weir", "status", check=False).returncode == 0, "the daemon answers")
        self.check_commands()
        self.machine.install(*OF_TENANTS)
        before = self.files()
        self.machine.run("systemctl", "start", "weir-manager")
        self.start_programs()
        self.wait_for_work("three programs work")
        first, processes = self.machine.shown("weir", "MainPID"), self.processes()
        errors = self.complaints()

        self.machine.install(*self.debs("next", "weir", "weir-shims"))
        self.assertEqual(self.active("weir"), "active")
        self.assertNotEqual(self.machine.shown("weir", "MainPID"), first, "the new version of the daemon runs")
        self.assertEqual(self.active("weir-manager"), "active")
        e2e.wait_for(lambda: self.machine.run("weir", "status", check=False).returncode == 0, "the new daemon answers")
        self.wait_for_work("three programs work under the new daemon")
        self.assertEqual(self.processes(), processes)
        self.assertEqual(self.complaints(), errors, "what programs write to standard error")

        self.machine.run("apt-get", "-q", "-y", "remove", "weir")
        self.assertEqual((self.active("weir"), self.active("weir-manager")), ("inactive", "inactive"))
        self.assertTrue(os.path.exists(self.machine.path("/var/lib/weir/node.json")), "the state is kept")
        self.assertEqual(self.processes(), processes)
        self.machine.install(*self.debs("next", "weir"))
        e2e.wait_for(lambda: self.machine.run("weir", "status", check=False).returncode == 0, "the daemon answers")
        self.wait_for_work("three programs work under the daemon that was installed again")
        self.assertEqual(self.processes(), processes)

        e2e.wait_for(lambda: self.machine.shown("cl", "SubState") == "exited", "the OpenCL program ends",
                     seconds=LOOP_SECONDS + e2e.PATIENCE)
        self.assertRegex(self.machine.outputs("cl")[0], r"kernels/s, wrong 0\n$")
        self.assertEqual(self.machine.shown("cl", "ExecMainStatus"), "0")
        self.assertEqual([self.machine.shown(unit, "SubState") for unit in ("gl", "vk")], ["running", "running"])
        self.machine.run("systemctl", "stop", "gl", "vk")
        self.machine.run("systemctl", "stop", "screen")

        self.machine.run("apt-get", "-q", "-y", "purge", "weir", "weir-shims")
        # An executor without clients ends after ten seconds.
        e2e.wait_for(lambda: self.machine.run("pgrep", "-l", "weir", check=False).stdout == "", "no process is left")
        self.check_nothing_is_left(before)

    def test_other_packages_are_installed_and_purged(self):
        everything = [os.path.basename(path).split("_")[0] for path in glob.glob(self.machine.path("/packages/*.deb"))]
        self.machine.install(*self.debs("packages", *everything))
        self.machine.install("gcc", "libc6-dev")
        before = self.files()
        with open(self.machine.path("/srv/client.c"), "w") as file:
            file.write("#include <weir/client.h>\n#include <weir/module.h>\n"
                       "int main(void) { weir_client_close(0); return 0; }\n")
        self.machine.run("gcc", "-o", "/srv/client", "/srv/client.c", "-lweir-client")
        self.machine.run("/srv/client")
        self.assertTrue(os.path.exists(self.machine.path("/usr/share/doc/weir/docs/README.md")))
        self.machine.run("apt-get", "-q", "-y", "purge", *everything)
        self.check_nothing_is_left(before)


def main():
    try:
        machine.try_out()
    except machine.CannotBoot as why:
        print(f"skipped: {why}")
        return 77
    if not os.environ.get("WEIR_PACKAGES"):
        subprocess.run([os.path.join(ROOT, "scripts/package")], check=True)
    unittest.main(verbosity=2)


if __name__ == "__main__":
    sys.exit(main())
