"""A Slurm as AWS ParallelCluster sets it up, on machines of this one: Slurm's commands in /opt/slurm/bin, a shared
/shared and /home, workers that start when there are jobs and end after them, and the start actions of the configuration,
which read the files that were put into the cluster's bucket. What stands for AWS here: `aws` copies from a folder,
`systemctl` and `shutdown` write down what they are told."""

import pathlib
import re
import subprocess
import threading
import time

import jobs_on_slurm
import slurm

COMMANDS = ["sbatch", "srun", "squeue", "sinfo", "scontrol", "scancel"]
USER = "ubuntu"
WORKERS = 3
# Slurm counts whole seconds: a machine that was on in less would seem to be one that has not started anew.
SECONDS_TO_BOOT = 1.5
# A root of its own: what is written there stays in the machine. $1: where to make it, $2: the cluster's folder.
OWN_ROOT = """\
set -e
mkdir -p "$1" && mount -t tmpfs none "$1" && cd "$1"
for entry in /*; do
  name=${entry#/}
  if [ -L "$entry" ]; then cp -a "$entry" .
  elif [ "$name" = opt ] || [ "$name" = home ] || [ "$name" = shared ] || [ ! -d "$entry" ]; then :
  else mkdir "$name" && mount --rbind "$entry" "$name"; fi
done
mkdir -p opt/slurm home shared old
mount --bind "$2/shared" shared && mount --bind "$2/home" home && mount --bind "$2/slurm" opt/slurm
pivot_root . old && cd / && umount -l old && rmdir old
# /dev/shm: faketime names its semaphore by the number of a process, which machines share.
for folder in /usr/local/bin /usr/local/sbin /etc/systemd/system /etc/profile.d /var/lib /dev/shm; do
  mount -t tmpfs none "$folder"
done
mount --bind "$2/passwd" /etc/passwd && mount --bind "$2/etc-slurm" /etc/slurm
cp "$2"/tools/* /usr/local/bin
echo 'PATH=$PATH:/opt/slurm/bin' >/etc/profile.d/slurm.sh
for command in COMMANDS; do mount --bind /dev/null "/usr/bin/$command"; done
"""
# `sleep`: what a stop waits for comes sooner here.
TOOLS = {
    "aws": 'cp "FOLDER/bucket/${4#s3://*/}" "$5"\n',
    "systemctl": 'echo "systemctl $*" >>FOLDER/said\n',
    "shutdown": 'echo "shutdown $*" >>FOLDER/said\n',
    "sleep": 'exec /usr/bin/sleep "$(awk "BEGIN {print $1 / 20}")"\n',
}
POWER = """\
SuspendProgram={folder}/power-down
ResumeProgram={folder}/power-up
PrivateData=cloud
SuspendTime=600
SuspendTimeout=5
ResumeTimeout=60
SlurmctldParameters=idle_on_node_suspend,power_save_interval=1,power_save_min_interval=1
NodeName=machine-[1-{workers}] NodeAddr=10.77.0.[2-{last}] CPUs=4 RealMemory=1000 State=CLOUD
PartitionName=workers Nodes=machine-[1-{workers}] Default=YES
"""


class ParallelCluster(jobs_on_slurm.Cluster):
    """Machine 0 is the head node. Before it starts, config must be what Lockstep handed to ParallelCluster, and files
    {name: bytes} of the cluster's bucket."""

    returns = 1  # a machine that was set down stays down when it registers

    def __init__(self):
        super().__init__(count=WORKERS + 1)
        self.config, self.files = None, None
        self.is_over = threading.Event()

    def __exit__(self, *words):
        self.is_over.set()
        if hasattr(self, "power"):
            self.power.join()
        super().__exit__(*words)

    def make(self, machine, name):
        if not self.holders:
            self.prepare()
        super().make(machine, name)
        if machine == 0 or machine in range(1, self.count):
            self.run(machine, "sh", "-c", OWN_ROOT.replace("COMMANDS", " ".join(COMMANDS)), "-", self.folder / "root",
                     self.folder)

    def prepare(self):
        for name in ("shared", f"home/{USER}", "slurm/bin", "bucket", "tools", "etc-slurm", "on"):
            (self.folder / name).mkdir(parents=True)
        for command in COMMANDS:
            (self.folder / "slurm/bin" / command).write_bytes(pathlib.Path("/usr/bin", command).read_bytes())
        for name, text in TOOLS.items():
            (self.folder / "tools" / name).write_text("#!/bin/bash\n" + text.replace("FOLDER", str(self.folder)))
        for name, data in self.files.items():
            (self.folder / "bucket" / name).write_bytes(data)
        # The image's user, who may all that root may: Slurm's daemons here run as root.
        (self.folder / "passwd").write_text(pathlib.Path("/etc/passwd").read_text() +
                                            f"{USER}:x:0:0::/home/{USER}:/bin/bash\n")
        for name, work in (("power-up", 'touch "on/$node"'), ("power-down", 'rm -f "on/$node"')):
            (self.folder / name).write_text(f"#!/bin/bash\ncd {self.folder}\nfor node in $(/opt/slurm/bin/scontrol show "
                                            f'hostnames "$1"); do {work}; done\n')
        for path in (*self.folder.glob("tools/*"), *self.folder.glob("slurm/bin/*"), *self.folder.glob("power-*")):
            path.chmod(0o755)

    def own_settings(self):
        return [POWER.format(folder=self.folder, workers=WORKERS, last=WORKERS + 1)]

    def write_files(self):
        super().write_files()
        for name in ("slurm.conf", "gres.conf", "cgroup.conf"):
            (self.folder / "etc-slurm" / name).write_bytes((self.folder / name).read_bytes())
        for node in range(self.count):
            self.know(node, {f"machine-{other}": self.address(other) for other in range(self.count)})

    def start_daemons(self):
        self.start_controller()
        for node in range(1, self.count):
            self.crash(node)  # off until there is a job
        self.bootstrap(0, self.config["HeadNode"])
        self.wait("the controller", lambda: self.states() == ["idle~"] * WORKERS)
        self.power = threading.Thread(target=self.follow_power)
        self.power.start()

    def follow_power(self):
        while not self.is_over.is_set():
            for node in range(1, self.count):
                wanted = (self.folder / f"on/machine-{node}").exists()
                if wanted and node not in self.holders:
                    time.sleep(SECONDS_TO_BOOT)
                    self.boot(node)
                elif not wanted and node in self.holders:
                    self.crash(node)
            time.sleep(0.05)

    def boot(self, node):
        self.make(node, f"machine-{node}")
        self.plug_in(node)
        self.run(node, "mount", "--bind", self.hosts(node), "/etc/hosts")
        self.bootstrap(node, self.config["Scheduling"]["SlurmQueues"][0])
        self.daemon(node, "slurmd", "-D", "-b", "-N", f"machine-{node}")

    def bootstrap(self, node, part):
        """As ParallelCluster does at a machine's first start."""
        action = part["CustomActions"]["OnNodeConfigured"]
        script = self.folder / "bucket" / action["Script"].rsplit("/", 1)[1]
        done = subprocess.run(self.command(node, "bash", script, *action["Args"]), capture_output=True, text=True,
                              check=False, stdin=subprocess.DEVNULL, env={"PATH": "/usr/local/bin:/usr/bin:/usr/sbin:/bin"})
        if done.returncode != 0:
            raise OSError(f"the bootstrap of machine {node} failed\n{done.stdout}{done.stderr}")

    def environment(self):
        found = super().environment()
        return {**found, "PATH": f"/opt/slurm/bin:{found['PATH']}"}

    def states(self):
        """Of the workers, in Slurm's compact words."""
        return self.ask("sinfo", "-h", "-N", "-o", "%t").split()

    def machines_on(self):
        return [node for node in range(1, self.count) if node in self.holders]

    def unit(self, machine, name):
        """The words of a service's ExecStart on the machine."""
        text = self.ask("cat", f"/etc/systemd/system/{name}.service", machine=machine).replace("\\\n", "")
        return re.search(r"^ExecStart=(.*)$", text, re.MULTILINE)[1].split()

    def said(self):
        """What the machines told systemd, and their shutdowns."""
        path = self.folder / "said"
        return path.read_text() if path.exists() else ""


def require():
    slurm.require(*slurm.PROGRAMS, "faketime")
