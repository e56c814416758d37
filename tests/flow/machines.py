"""Namespaces of network, processes and host name, joined by wires: to a program, machines. Needs root."""

import contextlib
import os
import pathlib
import signal
import subprocess

import runs


class Machines:
    """machine-0, machine-1, ...; each reaches each."""

    def __init__(self, count=2):
        self.count = count
        self.holders = {}
        self.stack = contextlib.ExitStack()

    def __enter__(self):
        with self.stack:
            for machine in range(self.count):
                self.make(machine, f"machine-{machine}")
            self.join()
            self.stack = self.stack.pop_all()
        return self

    def make(self, machine, name):
        holder = subprocess.Popen(["unshare", "--net", "--pid", "--uts", "--fork", "--mount-proc", "--kill-child", "sh",
                                   "-c", f"hostname {name} && ip link set lo up && echo ready && exec sleep 3000"],
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        self.stack.callback(holder.wait)
        self.stack.callback(holder.kill)
        if holder.stdout.readline() != "ready\n":
            raise OSError("unshare cannot make a machine")
        self.stack.callback(holder.stdout.close)
        children = pathlib.Path(f"/proc/{holder.pid}/task/{holder.pid}/children").read_text().split()
        self.holders[machine] = int(children[0])

    def crash(self, machine):
        """Ends all that runs on the machine, and its network, at once."""
        os.kill(self.holders.pop(machine), signal.SIGKILL)

    def __exit__(self, *_):
        self.stack.close()

    def join(self):
        if self.count == 2:
            self.connect(0, "wire", 1, "wire")
        else:  # the first one has a switch
            self.run(0, "sh", "-c", "ip link add wire type bridge && ip link set wire up")
            for machine in range(1, self.count):
                self.plug_in(machine)
        for machine in range(2 if self.count == 2 else 1):
            self.give_address(machine)

    def plug_in(self, machine):
        # The kernel takes the wire of a machine that crashed away in its own time.
        self.run(0, "sh", "-c", f"ip link delete port-{machine} 2>/dev/null; true")
        self.connect(0, f"port-{machine}", machine, "wire")
        self.run(0, "sh", "-c", f"ip link set port-{machine} master wire && ip link set port-{machine} up")
        self.give_address(machine)

    def give_address(self, machine):
        self.run(machine, "sh", "-c", f"ip address add {self.address(machine)}/24 dev wire && ip link set wire up")

    def connect(self, one, its_name, other, others_name):
        """A wire between two machines, by the names that its ends have there."""
        wire = [f"ls{os.getpid() % 100000}{end}" for end in "ab"]
        subprocess.run(["ip", "link", "add", wire[0], "netns", str(self.holders[one]), "type", "veth", "peer", "name",
                        wire[1], "netns", str(self.holders[other])], check=True)
        self.run(one, "ip", "link", "set", wire[0], "name", its_name)
        self.run(other, "ip", "link", "set", wire[1], "name", others_name)

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


class TwoMachines(Machines):
    def __init__(self):
        super().__init__(2)


def require_two_machines():
    """Ends the test as one that could not run where they cannot be made."""
    try:
        with TwoMachines():
            pass
    except (OSError, subprocess.CalledProcessError) as reason:
        runs.skip(f"anything, for two machines cannot be made here: {reason}",
                  "run it as root, with unshare, nsenter and ip")
