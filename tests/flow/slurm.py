"""A Slurm of two nodes, each a machine of its own (machines.py), which ends with them."""

import contextlib
import os
import pathlib
import shutil
import subprocess
import time

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
ReturnToService=2
"""


class Cluster(machines.TwoMachines):
    """Nodes machine-0 and machine-1 with four processors each; the controller is on the first."""

    def __init__(self):
        super().__init__()
        self.daemons = []
        self.temporary = runs.temporary_folder()

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            stack.callback(self.__exit__)
            self.folder = pathlib.Path(self.temporary.name)
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
        nodes = [f"NodeName=machine-{node} NodeAddr={self.address(node)} CPUs=4 RealMemory=1000" for node in range(2)]
        (self.folder / "slurm.conf").write_text(SETTINGS.format(folder=self.folder, address=self.address(0))
                                                + "\n".join([*nodes, "PartitionName=all Nodes=ALL Default=YES", ""]))
        # else slurmd 22.05 wants /sys/fs/cgroup, which may not be there
        (self.folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        (self.folder / "munge.key").write_bytes(os.urandom(128))
        (self.folder / "munge.key").chmod(0o600)
        self.folder.chmod(0o755)
        for node in range(2):
            self.hosts(node).touch()
            self.run(node, "mount", "--bind", self.hosts(node), "/etc/hosts")
            self.know(node, {})

    def hosts(self, node):
        return self.folder / f"hosts-{node}"

    def know(self, node, names):
        """names: {name: address} of which this node knows."""
        self.hosts(node).write_text("".join(f"{address} {name}\n"
                                            for name, address in {"localhost": "127.0.0.1", **names}.items()))

    def daemon(self, node, *words):
        with open(self.folder / f"{words[0]}-{node}.out", "w") as output:
            self.daemons.append(subprocess.Popen(self.command(node, *words), env=self.environment(),
                                                 stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT))

    def start_daemons(self):
        self.daemon(0, "munged", "--foreground", "--force", f"--socket={self.folder}/munge.socket",
                    f"--key-file={self.folder}/munge.key", f"--pid-file={self.folder}/munged.pid",
                    f"--log-file={self.folder}/munged.log", f"--seed-file={self.folder}/munged.seed")
        self.wait("munged", (self.folder / "munge.socket").exists)
        self.daemon(0, "slurmctld", "-D")
        for node in range(2):
            self.daemon(node, "slurmd", "-D", "-N", f"machine-{node}")
        self.wait("the nodes", lambda: self.idle_nodes() == 2)

    def idle_nodes(self):
        listed = subprocess.run(self.command(0, "sinfo", "--noheader", "--Node", "--format=%T"), env=self.environment(),
                                stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        return listed.stdout.split().count("idle")

    def wait(self, what, there):
        end = time.monotonic() + SECONDS_TO_START
        while not there():
            if time.monotonic() > end:
                logs = "".join(f"--- {path.name}\n{path.read_text()[-2000:]}" for pattern in ("*.log", "*.out")
                               for path in sorted(self.folder.glob(pattern)))
                raise OSError(f"Slurm does not start, for {what} did not come within {SECONDS_TO_START} s\n{logs}")
            time.sleep(0.05)

    def environment(self):
        return {**os.environ, "SLURM_CONF": str(self.folder / "slurm.conf")}

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
