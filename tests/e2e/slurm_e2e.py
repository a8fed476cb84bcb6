# SPDX-License-Identifier: Apache-2.0
"""A real Slurm grants the shares of a node's device: `srun --gres=vgpu:N PROGRAM` makes an unmodified program the
tenant of a vGPU with N shares, which are enforced. Jobs start up to what the node sells, and a job's vGPU ends with
it."""
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

import emulated
import engines_e2e as engines
import weir_e2e as e2e

PLUGIN = os.path.join(e2e.BUILD, "lib/weir/spank_weir.so")
LUA = os.path.join(engines.ROOT, "src/drivers/spank/job_submit.lua")


class Slurm:
    """A controller and one node, on this machine, for this user (root)."""

    def __init__(self, control_socket):
        self.folder = tempfile.TemporaryDirectory(prefix="weir-slurm-")
        self.started = engines.Started(self.folder.name)
        self.environment = {"SLURM_CONF": self.path("slurm.conf")}
        for name in ("run", "state"):
            os.mkdir(self.path(name))
        host, port, node_port = socket.gethostname().split(".")[0], engines.free_port(), engines.free_port()
        self.write("slurm.conf", f"""ClusterName=weir
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={self.path("run/munge.sock")}
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
StateSaveLocation={self.path("state")}
SlurmctldPidFile={self.path("run/slurmctld.pid")}
SlurmdPidFile={self.path("run/slurmd.pid")}
SlurmdSpoolDir={self.path("spool")}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
MessageTimeout=100
TCPTimeout=60
BatchStartTimeout=100
ReturnToService=2
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=1,sched_min_interval=100000,bf_interval=1
GresTypes=vgpu
Licenses=vgpu:16,other:16
JobSubmitPlugins=lua
PlugStackConfig={self.path("plugstack.conf")}
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={node_port} CPUs=64 RealMemory=1000 Gres=vgpu:16
PartitionName=all Nodes=n1 Default=YES MaxTime=INFINITE State=UP
""")
        self.write("gres.conf", "NodeName=n1 Name=vgpu Count=16\n")
        self.write("plugstack.conf", f"required {PLUGIN} driver={engines.DRIVER} weir={e2e.WEIR} socket={control_socket} "
                                     "shares=8 licence=vgpu\n")
        shutil.copy(LUA, self.path("job_submit.lua"))
        with open(self.path("run/munge.key"), "wb") as key:
            key.write(os.urandom(128))
        os.chmod(self.path("run/munge.key"), 0o400)
        try:
            self.start()
        except BaseException:
            print(self.started.text("slurmctld"), self.started.text("slurmd"), file=sys.stderr)
            self.close()
            raise

    def start(self):
        self.started.start("munged", ["munged", "-F", "-f", "--socket", self.path("run/munge.sock"), "--key-file",
                                      self.path("run/munge.key"), "--pid-file", self.path("run/munged.pid"), "--log-file",
                                      self.path("munge.log"), "--seed-file", self.path("run/seed"), "--num-threads", "2"])
        e2e.wait_for(lambda: os.path.exists(self.path("run/munge.sock")), "munged listens")
        self.started.start("slurmctld", ["slurmctld", "-D", "-i"], self.environment)
        self.started.start("slurmd", ["slurmd", "-D", "-N", "n1"], self.environment)
        e2e.wait_for(lambda: "idle" in self.run("sinfo", "-h", "-o", "%T", check=False), "the node is idle")

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def write(self, name, text):
        with open(self.path(name), "w") as file:
            file.write(text)

    def run(self, *argv, check=True):
        done = subprocess.run(argv, capture_output=True, text=True, timeout=e2e.PATIENCE, env={**os.environ, **self.environment})
        if check and done.returncode != 0:
            raise AssertionError(f"{argv}: {done.returncode} {done.stdout}{done.stderr}")
        return done.stdout

    def jobs(self, state):
        return self.run("squeue", "-h", "-o", "%A", "-t", state).split()

    def close(self):
        subprocess.run(["scancel", "--full", "--user=root"], env={**os.environ, **self.environment}, capture_output=True)
        deadline = time.monotonic() + e2e.PATIENCE
        while self.run("squeue", "-h", check=False) and time.monotonic() < deadline:
            time.sleep(0.1)
        self.started.close()
        self.folder.cleanup()


class SlurmJobs(emulated.WithEmulatedNode):
    description = emulated.CARD + emulated.LONG_FRAMES
    prompt_if_permitted = True

    def setUp(self):
        super().setUp()
        self.slurm = Slurm(self.node.socket)
        self.addCleanup(self.slurm.close)
        self.programs = engines.Started(self.node.folder)
        self.addCleanup(self.programs.close)
        self.runs = 0

    def weir(self, *arguments):
        done = subprocess.run([e2e.WEIR, "--run-dir", self.node.run_dir, *arguments], capture_output=True, text=True,
                              timeout=e2e.PATIENCE)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def drive(self):
        return self.programs.start("driver", [engines.DRIVER, "--engine", "slurm", "--socket", self.node.socket],
                                   self.slurm.environment)

    def srun(self, *argv):
        self.runs += 1
        return self.programs.start(f"srun-{self.runs}", ["srun", *argv], {**self.slurm.environment, **self.display.environment})

    def free(self):
        """The shares that a job can get now, by Slurm's account."""
        words = dict(word.split("=") for word in self.slurm.run("scontrol", "-o", "show", "licenses", "vgpu").split())
        return int(words["Total"]) - int(words["Reserved"]) - int(words["Used"])

    def vgpus(self):
        return {v["name"]: v for v in self.node.get("/v1/vgpus")["vgpus"] if v["name"].startswith("slurm-")}

    def test_the_conformance_suite(self):
        # Another pool than the plugin's; its jobs have no vGPU.
        engines.conformance(self, "RealSlurm", {**self.slurm.environment, "WEIR_TEST_SLURM": "other"})

    def test_a_job_with_shares_is_a_tenant_and_another_is_not(self):
        self.weir("oversell", "strict")
        self.drive()
        e2e.wait_for(lambda: self.free() == 8, "the device is sold")
        said = self.slurm.run("srun", "--gres=vgpu:2", "sh", "-c", "LD_PRELOAD= env; echo job=$SLURM_JOB_ID preload=$LD_PRELOAD")
        job = said.split("job=")[1].split()[0]
        self.assertIn(f"WEIR_ATTACH={self.node.run_dir}/vgpu/slurm-{job}.sock", said)
        self.assertIn("libweir-gl-preload.so", said.split("preload=")[1])
        own = self.slurm.run("srun", "--gres=vgpu:1", "--export=ALL,LD_PRELOAD=libhook.so,XDG_DATA_DIRS=/mine", "sh", "-c",
                             "echo preload=$LD_PRELOAD; echo data=$XDG_DATA_DIRS")
        self.assertRegex(own, r"preload=\S*/libweir-gl-preload.so:libhook.so\n")
        self.assertRegex(own, r"data=/mine(:|\n)")
        e2e.wait_for(lambda: not self.vgpus(), "the vGPU ends with the job")
        self.assertNotIn("WEIR_ATTACH", self.slurm.run("srun", "env"))
        self.slurm.run("sbatch", "--wait", "--gres=vgpu:1", "--output=" + self.slurm.path("batch"), "--wrap=env; srun env")
        with open(self.slurm.path("batch")) as said:
            text = said.read()
        self.assertEqual(text.count("WEIR_ATTACH="), 2, "the script has it, and what it runs")
        # Without the node's daemon a job with shares does not run; srun reports that, although Slurm 22.05 returns 0.
        self.node.kill()
        failed = subprocess.run(["srun", "--gres=vgpu:1", "echo", "it ran"], capture_output=True, text=True, timeout=e2e.PATIENCE,
                                env={**os.environ, **self.slurm.environment})
        self.assertNotIn("it ran", failed.stdout)
        self.assertIn("Plugin initialization failed", failed.stderr)
        self.node.start()

    def test_three_jobs_share_one_device(self):
        self.weir("oversell", "strict")
        self.drive()
        e2e.wait_for(lambda: self.free() == 8, "the device is sold")
        for shares, program in ((1, e2e.PHONG), (2, e2e.BUMP), (5, e2e.TEXTURE)):
            self.srun(f"--gres=vgpu:{shares}", *program)
        e2e.wait_for(lambda: len(self.slurm.jobs("RUNNING")) == 3, "three jobs run")
        caps = {name: v["settings"]["cap"] for name, v in e2e.wait_for(
            lambda: len(self.vgpus()) == 3 and self.vgpus(), "each has its vGPU").items()}
        self.assertEqual(sorted(caps.values()), [0.125, 0.25, 0.625])
        for name in caps:
            self.wait_frames(name)
        programs = {name: [process["pid"] for process in self.node.vgpu(name)["processes"]] for name in caps}

        def each_has_what_it_bought(use):
            for name, cap in sorted(caps.items()):
                engines.figure(f"slurm: {name} with a cap of {cap:.1%}: {use[name]:.1%} of the device (emulated)")
            for name, cap in caps.items():
                self.assertAlmostEqual(use[name], cap, delta=0.02, msg=name)

        self.settled(programs, 10, each_has_what_it_bought, afresh=True)

        # A fourth job waits until the node sells more than the device.
        self.srun("--gres=vgpu:2", *e2e.PHONG)
        e2e.wait_for(lambda: len(self.slurm.jobs("PENDING")) == 1, "a fourth waits")
        self.assertEqual(self.free(), 0)
        self.weir("oversell", "static", "--ratio", "1.5")
        seconds = engines.took(lambda: self.free() > 0 or not self.slurm.jobs("PENDING"), "overselling raises what is sold")
        engines.figure(f"slurm: overselling raised what Slurm grants after {seconds:.2f} s")
        seconds += engines.took(lambda: len(self.slurm.jobs("RUNNING")) == 4, "it starts")
        engines.figure(f"slurm: the job that waited ran after {seconds:.2f} s")
        e2e.wait_for(lambda: len(self.vgpus()) == 4, "and has its vGPU")

        # The node sells less: running jobs continue, and no new job starts.
        e2e.wait_for(lambda: self.free() == 2, "two shares are left")
        self.weir("vgpu", "create", "local", "--cap", "25%")
        seconds = engines.took(lambda: self.free() == 0, "what was bought elsewhere isn't sold")
        engines.figure(f"slurm: lowering reached Slurm after {seconds:.2f} s")
        self.srun("--gres=vgpu:1", "true")
        e2e.wait_for(lambda: len(self.slurm.jobs("PENDING")) == 1, "a fifth waits")
        time.sleep(3)  # the scheduler checks every second
        self.assertEqual((len(self.slurm.jobs("RUNNING")), len(self.slurm.jobs("PENDING"))), (4, 1))
        self.assertEqual(len(self.vgpus()), 4)

        # A job's end removes its vGPU, and the next job starts.
        gone = self.slurm.jobs("RUNNING")[0]
        self.slurm.run("scancel", gone)
        seconds = engines.took(lambda: f"slurm-{gone}" not in self.vgpus(), "its vGPU goes with it")
        engines.figure(f"slurm: the vGPU of a cancelled job was removed after {seconds:.2f} s")
        e2e.wait_for(lambda: not self.slurm.jobs("PENDING"), "and the one that waited begins")

    def test_a_restarted_driver_finds_its_jobs(self):
        self.weir("oversell", "strict")
        driver = self.drive()
        e2e.wait_for(lambda: self.free() == 8, "the device is sold")
        self.srun("--gres=vgpu:3", *e2e.PHONG)
        name = next(iter(e2e.wait_for(self.vgpus, "it has its vGPU")))
        self.wait_frames(name)
        driver.send_signal(signal.SIGKILL)
        driver.wait()
        self.drive()
        self.wait_frames(name)
        time.sleep(1)  # several checks of the scheduler
        self.assertEqual(list(self.vgpus()), [name])
        self.slurm.run("scancel", name.split("-")[1])
        e2e.wait_for(lambda: not self.vgpus(), "it goes with its job")


if __name__ == "__main__":
    engines.install()
    engines.need("slurmctld", "slurmd", "srun", "munged", engines.DRIVER, PLUGIN)
    e2e.main()
