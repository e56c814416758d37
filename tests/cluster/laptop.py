"""A machine of a user: no Slurm, no disk of the cluster, and a wire to its login node only, over which ssh works."""

import os
import pathlib
import signal
import subprocess

import runs
import ssh

NAME = "laptop"
SECONDS = 150


class Laptop:
    """cluster: whose machine 0 is the login node; home: the folder of the user's settings. settings: lines for sshd.
    login: the name by which ssh knows the login node."""

    def __init__(self, cluster, home, login, address="10.78.0.1", settings=""):
        self.cluster, self.home, self.address = cluster, home, address
        self.environment = {}  # the user's own
        home.mkdir(exist_ok=True)
        cluster.make(NAME, NAME)
        cluster.connect(0, "office", NAME, "office")
        cluster.run(0, "sh", "-c", f"ip address add {address}/32 dev office && ip link set office up && "
                    "ip route add 10.78.0.2 dev office")
        cluster.run(NAME, "sh", "-c", "ip address add 10.78.0.2/32 dev office && ip link set office up && "
                    f"ip route add {address} dev office")
        self.servers = ssh.Servers(cluster, cluster.folder, cluster.daemon)
        self.servers.serve(0, login, address, settings)
        self.servers.configure(NAME)
        cluster.wait("sshd", lambda: self.servers.is_up(login))

    def variables(self, environment=None):
        clean = {name: value for name, value in os.environ.items() if not name.startswith("SLURM")}
        return {**clean, "XDG_CONFIG_HOME": str(self.home), "LOCKSTEP_JOBS": str(self.home / "jobs"),
                **self.environment, **(environment or {})}

    def start(self, *words, **how):
        return subprocess.Popen(self.cluster.command(NAME, *words), text=True, env=self.variables(),
                                **{"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **how})

    @staticmethod
    def interrupt(client):
        """Ctrl-C for what `start` has started, without its children."""
        child = pathlib.Path(f"/proc/{client.pid}/task/{client.pid}/children").read_text().split()[0]
        os.kill(int(child), signal.SIGINT)

    def run(self, *words, status=0, environment=None):
        """What the command printed. Fails at another exit status."""
        done = subprocess.run(self.cluster.command(NAME, *words), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=SECONDS, check=False,
                              env=self.variables(environment))
        if done.returncode != status:
            raise AssertionError(f"{' '.join(map(str, words))}\nended with {done.returncode}, not {status}, and printed:\n"
                                 f"{done.stdout}")
        return done.stdout

    def lockstep(self, *words, **how):
        return self.run(*runs.command(*words), **how)
