"""A Slurm whose nodes are machines of their own (machines.py), which ends with them."""

import contextlib
import os
import pathlib
import shutil
import subprocess

import machines
import runs

SECONDS_TO_START = 30
PROGRAMS = ["munged", "slurmctld", "slurmd", "srun", "sinfo"]
# No limits by cgroups, no accounting, more processors than there may be, and nothing that waits long.
SETTINGS = """\
ClusterName=test
SlurmctldHost=machine-0({address})
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=batch_sched_delay=0,sched_interval=1
KillWait=2
ReturnToService={returns}
SlurmctldTimeout=10
SlurmdTimeout=10
MessageTimeout=10
MinJobAge=3600
CompleteWait=0
JobRequeue=1
EnforcePartLimits=ALL
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
GresTypes=gpu
"""
PROCESSORS = 4
# A job in `urgent` takes the machines of one in `all`, which has a while to save.
PARTITIONS = ["PartitionName=all Nodes=ALL Default=YES PriorityTier=1 GraceTime=30",
              "PartitionName=urgent Nodes=ALL PriorityTier=2"]


class Cluster(machines.Machines):
    """Nodes machine-0, machine-1, ... with four processors each, and gpus stand-ins; the controller is on the
    first."""

    returns = 2  # any machine that registers is up again

    def __init__(self, count=2, gpus=0):
        super().__init__(count)
        self.gpus = gpus
        self.daemons = []
        self.temporary = runs.temporary_folder()
        self.folder = pathlib.Path(self.temporary.name)

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            stack.callback(self.__exit__)
            super().__enter__()
            self.write_files()
            self.start_daemons()
            stack.pop_all()
        return self

    def __exit__(self, *_):
        super().__exit__()  # which ends the daemons
        for daemon in self.daemons:
            daemon.wait()
        self.temporary.cleanup()

    def write_files(self):
        (self.folder / "slurm.conf").write_text(SETTINGS.format(folder=self.folder, address=self.address(0),
                                                                returns=self.returns)
                                                + "\n".join([*self.own_settings(), ""]))
        self.write_gpus()
        # else slurmd 22.05 wants /sys/fs/cgroup, which may not be there
        (self.folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        (self.folder / "munge.key").write_bytes(os.urandom(128))
        (self.folder / "munge.key").chmod(0o600)
        self.folder.chmod(0o755)
        for node in range(self.count):
            self.know_nobody(node)

    def own_settings(self):
        gres = f" Gres=gpu:{self.gpus}" if self.gpus else ""
        return [f"NodeName=machine-{node} NodeAddr={self.address(node)} CPUs={PROCESSORS} RealMemory=1000{gres}"
                for node in range(self.count)] + PARTITIONS

    def know_nobody(self, node):
        self.hosts(node).touch()
        self.run(node, "mount", "--bind", self.hosts(node), "/etc/hosts")
        self.know(node, {})

    def write_gpus(self):
        # A device that is none: only then are there CUDA_VISIBLE_DEVICES, with the number at the end of its name.
        names = [self.folder / f"gpu{gpu}" for gpu in range(self.gpus)]
        for name in names:
            name.symlink_to("/dev/null")
        (self.folder / "gres.conf").write_text("".join(f"Name=gpu File={name}\n" for name in names))

    def restart(self, node):
        """A machine that crashed comes back."""
        self.make(node, f"machine-{node}")
        self.plug_in(node)
        self.know_nobody(node)
        self.daemon(node, "slurmd", "-D", "-N", f"machine-{node}")

    def hosts(self, node):
        return self.folder / f"hosts-{node}"

    def know(self, node, names):
        """names: {name: address} of which this node knows."""
        self.hosts(node).write_text("".join(f"{address} {name}\n"
                                            for name, address in {"localhost": "127.0.0.1", **names}.items()))

    def daemon(self, node, *words):
        with open(self.folder / f"{pathlib.Path(words[0]).name}-{node}.out", "w") as output:
            self.daemons.append(subprocess.Popen(self.command(node, *words), env=self.environment(),
                                                 stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT))

    def start_daemons(self):
        self.start_controller()
        for node in range(self.count):
            self.daemon(node, "slurmd", "-D", "-N", f"machine-{node}")
        self.wait("the nodes", lambda: self.idle_nodes() == self.count)

    def start_controller(self):
        self.daemon(0, "munged", "--foreground", "--force", f"--socket={self.folder}/munge.socket",
                    f"--key-file={self.folder}/munge.key", f"--pid-file={self.folder}/munged.pid",
                    f"--log-file={self.folder}/munged.log", f"--seed-file={self.folder}/munged.seed")
        self.wait("munged", (self.folder / "munge.socket").exists)
        self.daemon(0, "slurmctld", "-D")

    def idle_nodes(self):
        return self.ask("sinfo", "--noheader", "--Node", "--partition=all", "--format=%T").split().count("idle")

    def wait(self, what, there, seconds=SECONDS_TO_START):
        runs.wait_for(there, seconds, (0.2, 0.5), lambda: OSError(
            f"Slurm does not start, for {what} did not come within {seconds} s\n{self.logs()}"))

    def logs(self):
        """The ends of what its daemons say, for messages."""
        return "".join(f"--- {path.name}\n{path.read_text(errors='replace')[-4000:]}" for pattern in ("*.log", "*.out")
                       for path in sorted(self.folder.glob(pattern)))

    def environment(self):
        return {**os.environ, "SLURM_CONF": str(self.folder / "slurm.conf")}

    def ask(self, *words, machine=0):
        """What a command prints on a machine of the cluster, whatever its exit status."""
        done = subprocess.run(self.command(machine, *words), env=self.environment(), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=120)
        return done.stdout.strip()

    def srun(self, *words):
        """srun on the first node."""
        return self.start(0, "srun", *words, environment=self.environment())


def require(*programs):
    """Ends the test as one that could not run where one is missing."""
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    missing = [name for name in programs if shutil.which(name) is None]
    if missing:
        runs.skip(f"anything, for there is no {' and no '.join(missing)}",
                  "scripts/setup --peers installs Open MPI and Slurm")
