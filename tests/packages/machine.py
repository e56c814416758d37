"""A fresh Debian or Ubuntu in a folder, made by debootstrap, in which commands run as on a machine of its own."""

import os
import pathlib
import shlex
import shutil
import socket
import subprocess
import time

CERTIFICATES = pathlib.Path("/etc/ssl/certs/ca-certificates.crt")
MIRRORS = {"jammy": ["https://archive.ubuntu.com/ubuntu"]}  # elsewhere debootstrap's own
# Mounts vanish with the process that made them.
READ_ONLY = "mount --bind {root} {root} && mount -o remount,ro,bind {root} && mount -t tmpfs tmp {root}/tmp && "
MOUNT = "mount -t proc proc {root}/proc && mount -t tmpfs shm {root}/dev/shm && "
GIVE = "mount --bind {folder} {root}/given/{name} && mount -o remount,ro,bind {root}/given/{name} && "


class Failed(Exception):
    """A command ended with another status than it must."""


def base_of(suite, folder):
    """The folder of a fresh system; made once."""
    made = folder / f"base-{suite}"
    if not made.exists():
        half_made = folder / f"half-{suite}"
        shutil.rmtree(half_made, ignore_errors=True)
        subprocess.run(["debootstrap", "--variant=minbase", "--include=ca-certificates", suite, half_made,
                        *MIRRORS.get(suite, [])], check=True, stdout=subprocess.DEVNULL)
        half_made.rename(made)
    return made


class Machine:
    """A copy of a fresh system. `given` are folders of this machine that it sees in /given, read-only."""

    def __init__(self, suite, folder, name, given):
        self.root, self.given = folder / name, given
        shutil.rmtree(self.root, ignore_errors=True)
        subprocess.run(["cp", "-a", "--reflink=auto", base_of(suite, folder), self.root], check=True)
        for place in ("dev/shm", *(f"given/{path.name}" for path in given)):
            (self.root / place).mkdir(parents=True, exist_ok=True)
        shutil.copy("/etc/resolv.conf", self.root / "etc/resolv.conf")
        (self.root / "etc/hosts").write_text(f"127.0.0.1 localhost {socket.gethostname()}\n")  # as an installer does
        if CERTIFICATES.exists():  # a proxy's certificate too
            shutil.copy(CERTIFICATES, self.root / CERTIFICATES.relative_to("/"))

    def run(self, command, status=0, user=None, read_only=False):
        """What a shell command prints. It must end with this status."""
        root = shlex.quote(str(self.root))
        text = (READ_ONLY if read_only else "").format(root=root) + MOUNT.format(root=root)
        for folder in self.given:
            text += GIVE.format(root=root, folder=shlex.quote(str(folder)), name=folder.name)
        text += f"exec chroot {f'--userspec={user}' if user else ''} {root} sh -c \"$0\""
        environment = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": "/tmp" if user else "/root",
                       "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive", "PIP_DISABLE_PIP_VERSION_CHECK": "1",
                       "PIP_CERT": str(CERTIFICATES), "PIP_ROOT_USER_ACTION": "ignore"}
        environment.update({name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")})
        ended = subprocess.run(["unshare", "--mount", "--pid", "--fork", "sh", "-c", text, command],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               env=environment, check=False)
        if ended.returncode != status:
            raise Failed(f"{command}\nended with {ended.returncode}, not {status}:\n{ended.stdout[-4000:]}")
        return ended.stdout

    def timed(self, what, command, **options):
        """Runs it and prints the seconds."""
        start = time.monotonic()
        printed = self.run(command, **options)
        print(f"  {what}: {time.monotonic() - start:.1f} s", flush=True)
        return printed

    def install(self, *packages):
        """Debian's packages, of whose time nothing is said."""
        self.run("apt-get -q update && apt-get -q install --yes --no-install-recommends " + " ".join(packages))

    def files_named(self, word):
        """All files and folders of which the name has this word, the topmost only."""
        found = self.run(f"find / -xdev \\( -path /proc -o -path /given -o -path /var/cache -o -path /var/log \\) -prune "
                         f"-o -name '*{word}*' -print -prune")
        return sorted(found.splitlines())

    def remove(self):
        shutil.rmtree(self.root)
