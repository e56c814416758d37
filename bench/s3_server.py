"""An S3 server for tests and benches: SeaweedFS, which checks signatures, on ports of its own.

LOCKSTEP_WEED names its program; scripts/setup --peers gets it.
"""

import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import common

WEED = pathlib.Path(os.environ.get("LOCKSTEP_WEED", common.CACHE / "peers" / "bin" / "weed"))
KEY_ID = "LOCKSTEPTESTKEYID"
SECRET = "lockstep-test-secret-0815"
SECONDS_TO_START = 60
TRIES_TO_START = 5
# SeaweedFS takes each port's neighbour this far above too.
TO_NEIGHBOUR = 10000
# Linux gives ports from 32768 on to connections: a port found free there may be taken a moment later.
PORTS = range(12000, 32768 - TO_NEIGHBOUR)


def is_free(port):
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_ports(count):
    """Ports that are free, as are their neighbours; no port is another's neighbour."""
    ports, taken = [], set()
    while len(ports) < count:
        port = random.choice(PORTS)
        pair = {port, port + TO_NEIGHBOUR}
        if not pair & taken and all(map(is_free, pair)):
            ports.append(port)
            taken |= pair
    return ports


class Server:
    """A server over `folder`, started. Use it in a with statement: it leaves no process behind."""

    def __init__(self, folder, address="127.0.0.1"):
        if not WEED.exists():
            sys.exit(f"there is no S3 server at {WEED}\n  hint: run scripts/setup --peers, or set LOCKSTEP_WEED")
        self.folder, self.address = pathlib.Path(folder), address
        self.process = None
        self.start_on_free_ports()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()

    def start_on_free_ports(self):
        """Tries other ports when another program took one between the look and the start."""
        for tries_left in reversed(range(TRIES_TO_START)):
            self.master, self.volume, self.filer, self.port = free_ports(4)
            self.folder.mkdir(parents=True)
            identity = {"name": "test", "credentials": [{"accessKey": KEY_ID, "secretKey": SECRET}],
                        "actions": ["Admin", "Read", "Write", "List"]}
            (self.folder / "s3.json").write_text(json.dumps({"identities": [identity]}))
            try:
                return self.start()
            except RuntimeError as error:
                if "address already in use" not in str(error) or not tries_left:
                    raise
                shutil.rmtree(self.folder)

    def start(self):
        """Starts the server on its ports: again, after kill(), on the same."""
        command = [WEED, f"-logdir={self.folder}", "server", f"-dir={self.folder}", f"-ip={self.address}",
                   f"-ip.bind={self.address}", f"-master.port={self.master}",
                   f"-volume.port={self.volume}", "-filer", f"-filer.port={self.filer}", "-s3", f"-s3.port={self.port}",
                   f"-s3.config={self.folder / 's3.json'}",
                   "-s3.port.iceberg=0", "-s3.port.lance=0", "-volume.max=20", "-master.volumeSizeLimitMB=64",
                   "-master.telemetry=false"]
        with open(self.folder / "out.log", "ab") as log:
            self.process = subprocess.Popen(self.command(*command), stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log, start_new_session=True)
        end = time.monotonic() + SECONDS_TO_START
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > end:
                self.kill()
                raise RuntimeError("the S3 server does not start:\n"
                                   + (self.folder / "out.log").read_text(errors="replace"))
            time.sleep(0.1)

    def command(self, *words):
        """Where the server runs."""
        return [str(word) for word in words]

    def answers(self):
        try:
            with urllib.request.urlopen(f"{self.endpoint}/status", timeout=1) as answer:
                return answer.status == 200
        except (urllib.error.URLError, OSError):
            return False

    def kill(self):
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def make_bucket(self, name):
        command = self.command(WEED, "shell", f"-master={self.address}:{self.master}", f"-filer={self.address}:{self.filer}")
        done = subprocess.run(command, input=f"s3.bucket.create -name {name}\n", stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=SECONDS_TO_START, cwd=self.folder)
        if "created" not in done.stdout.lower() and "create bucket" not in done.stdout.lower():
            raise RuntimeError("the S3 server makes no bucket:\n" + done.stdout)

    @property
    def endpoint(self):
        return f"http://{self.address}:{self.port}"

    def environment(self, **more):
        """What a program needs to find the server, and nothing of this machine's own keys."""
        return {"AWS_ENDPOINT_URL": self.endpoint, "AWS_ACCESS_KEY_ID": KEY_ID, "AWS_SECRET_ACCESS_KEY": SECRET,
                "AWS_SESSION_TOKEN": "", "AWS_PROFILE": "",
                "AWS_EC2_METADATA_DISABLED": "true", "HOME": str(self.folder), **more}
