"""A real sshd on machines of machines.py, and the system's ssh configured on one of them to reach it."""

import subprocess

PROGRAMS = ["sshd", "ssh-keygen", "ssh"]
SSHD = """\
Port 22
ListenAddress {address}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/user_key.pub
PidFile {folder}/sshd-{name}.pid
StrictModes no
PermitRootLogin yes
UsePAM no
PasswordAuthentication no
MaxStartups 100
"""
SSH = """\
Host {name}
  HostName {address}
  User root
  IdentityFile {folder}/user_key
  IdentitiesOnly yes
  UserKnownHostsFile {folder}/known_hosts
"""


def make_keys(folder):
    """host_key and user_key, where they are not there yet."""
    for key in ("host_key", "user_key"):
        if not (folder / key).exists():
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / key], check=True)


class Servers:
    """folder: for keys and files. start(machine, words) begins a daemon there."""

    def __init__(self, machines, folder, start):
        self.machines, self.folder, self.start = machines, folder, start
        self.hosts = {}
        make_keys(folder)

    def serve(self, machine, name, address, settings=""):
        """An sshd on the machine, which `name` means to the clients."""
        file = self.folder / f"sshd-{name}"
        file.write_text(SSHD.format(folder=self.folder, name=name, address=address) + settings)
        self.machines.run(machine, "sh", "-c", "mkdir -p /run/sshd")
        self.start(machine, "/usr/sbin/sshd", "-D", "-f", str(file))
        self.hosts[name] = address
        (self.folder / "ssh_config").write_text("".join(SSH.format(folder=self.folder, name=one, address=at)
                                                        for one, at in self.hosts.items()))
        self.know_hosts()

    def is_up(self, name):
        return (self.folder / f"sshd-{name}.pid").exists()

    def know_hosts(self):
        key = (self.folder / "host_key.pub").read_text()
        (self.folder / "known_hosts").write_text("".join(f"{address} {key}" for address in self.hosts.values()))

    def forget_hosts(self):
        (self.folder / "known_hosts").write_text("")

    def configure(self, machine):
        """ssh on this machine knows the names. The file must be there before: serve() first."""
        self.machines.run(machine, "mount", "--bind", self.folder / "ssh_config", "/etc/ssh/ssh_config")
