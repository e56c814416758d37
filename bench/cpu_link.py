"""A job of two PyTorch ranks that waits for commands between the trials, so that its start is paid once. One line of
JSON asks, one answers."""

import json
import os
import socket
import subprocess
import sys

import common
from cpu_report import fail

RANKS = 2
START_SECONDS = 60
SCRIPT = common.ROOT / "bench" / "cpu_peer.py"


class Peer:
    """The bench's end. As a context it ends the job."""

    def __init__(self, *words):
        self.log = common.WORK / "cpu-peer.log"
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with socket.create_server(("127.0.0.1", 0)) as server:
            command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(RANKS),
                       str(SCRIPT),
                       "--port", str(server.getsockname()[1]), *map(str, words)]
            environment = os.environ | common.KEEP_MEMORY | {"OMP_NUM_THREADS": "1"}
            self.process = subprocess.Popen(command, env=environment, stdout=self.log.open("w"),
                                            stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
            self.connection = self.accept(server)
        self.stream = self.connection.makefile("rw")
        self.hello = self.answer()

    def accept(self, server):
        server.settimeout(1)
        for _ in range(START_SECONDS):
            try:
                connection, _ = server.accept()
                connection.settimeout(None)
                return connection
            except TimeoutError:
                if self.process.poll() is not None:
                    break
        self.process.kill()
        fail(f"PyTorch's side did not start:\n{self.log.read_text()[-2000:]}", f"all it said is in {self.log}")

    def answer(self):
        line = self.stream.readline()
        if not line:
            fail(f"PyTorch's side ended:\n{self.log.read_text()[-2000:]}", f"all it said is in {self.log}")
        return json.loads(line)

    def ask(self, **command):
        self.stream.write(json.dumps(command) + "\n")
        self.stream.flush()
        return self.answer()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stream.close()
        self.connection.close()
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()


def serve(port, hello, answer):
    """A rank's end: rank 0 hears the commands and tells them to the others; all call `answer(command)`; rank 0 gives
    what it returns. Ends when the bench's end closes."""
    import torch.distributed as dist
    stream = socket.create_connection(("127.0.0.1", port)).makefile("rw") if dist.get_rank() == 0 else None

    def say(value):
        if stream:
            stream.write(json.dumps(value) + "\n")
            stream.flush()

    say(hello)
    while True:
        line = [stream.readline() if stream else None]
        dist.broadcast_object_list(line)
        if not line[0]:
            return
        say(answer(json.loads(line[0])))
