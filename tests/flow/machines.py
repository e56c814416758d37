"""Two namespaces each of network, processes and host name, joined by a wire: to a program, two machines. Needs root."""

import contextlib
import os
import pathlib
import subprocess

import runs


class TwoMachines:
    def __init__(self):
        self.holders = []
        self.stack = contextlib.ExitStack()

    def __enter__(self):
        with self.stack:
            for machine in range(2):
                holder = subprocess.Popen(["unshare", "--net", "--pid", "--uts", "--fork", "--mount-proc",
                                           "--kill-child", "sh", "-c",
                                           f"hostname machine-{machine} && ip link set lo up && echo ready && exec "
                                           "sleep 1000"],
                                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
                self.stack.callback(holder.wait)
                self.stack.callback(holder.kill)
                if holder.stdout.readline() != "ready\n":
                    raise OSError("unshare cannot make a machine")
                self.stack.callback(holder.stdout.close)
                children = pathlib.Path(f"/proc/{holder.pid}/task/{holder.pid}/children").read_text().split()
                self.holders.append(int(children[0]))
            self.join()
            self.stack = self.stack.pop_all()
        return self

    def __exit__(self, *_):
        self.stack.close()

    def join(self):
        wire = [f"ls{os.getpid() % 100000}{end}" for end in "ab"]
        subprocess.run(["ip", "link", "add", wire[0], "netns", str(self.holders[0]), "type", "veth", "peer", "name",
                        wire[1], "netns", str(self.holders[1])], check=True)
        for machine in range(2):
            self.run(machine, "sh", "-c",
                     f"ip link set {wire[machine]} name wire && ip address add {self.address(machine)}/24 dev wire && "
                     "ip link set wire up")

    @staticmethod
    def address(machine):
        return f"10.77.0.{machine + 1}"

    def command(self, machine, *words):
        return ["nsenter", "--target", str(self.holders[machine]), "--net", "--pid", "--uts", "--mount",
                *map(str, words)]

    def run(self, machine, *words):
        subprocess.run(self.command(machine, *words), check=True, stdin=subprocess.DEVNULL)

    def start(self, machine, *words, environment=None):
        return subprocess.Popen(self.command(machine, *words), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, env={**os.environ, **(environment or {})})


def require_two_machines():
    """Ends the test as one that could not run where they cannot be made."""
    try:
        with TwoMachines():
            pass
    except (OSError, subprocess.CalledProcessError) as reason:
        runs.skip(f"anything, for two machines cannot be made here: {reason}",
                  "run it as root, with unshare, nsenter and ip")
