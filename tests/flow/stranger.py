"""Another user of this machine, who finds the port where ranks meet and writes there what he likes.

He speaks c10d's TCPStore by himself: a byte for what is asked, then lengths and bytes.
"""

import ctypes
import os
import pathlib
import select
import signal
import socket
import struct
import subprocess
import time
import traceback

import runs

NOBODY = 65534
VALIDATE, SET, GET, DELETE_KEY, LIST_KEYS = 0, 1, 3, 8, 17
VALIDATION = 0x3C85F7CE
WELL_KNOWN = ["rank-0", "rank-1", "rank-2", "has-read-1", "rank-1-has-seen", "roster", "met", "door", "memory",
              "control",
              "pool", "pool/answer"]


CLONE_NEWNET = 0x40000000


def require_root():
    """This process and what it starts get a network of their own, where the stranger finds nobody else's ports."""
    if os.geteuid() == 0 and ctypes.CDLL(None).unshare(CLONE_NEWNET) == 0:
        if subprocess.run(["ip", "link", "set", "lo", "up"], check=False).returncode == 0:
            return
    runs.skip("anything, for nobody can be another user here, with a network for that", "run it as root")


DOOR = b"lockstep-" + 32 * b"0"


def text(value):
    return struct.pack("<Q", len(value)) + value


class Store:
    def __init__(self, port):
        self.socket = socket.socket()
        self.socket.settimeout(5)
        self.socket.connect(("127.0.0.1", port))
        self.port = port
        self.socket.sendall(bytes([VALIDATE]) + struct.pack("<I", VALIDATION))

    def read(self, count):
        got = b""
        while len(got) < count:
            more = self.socket.recv(count - len(got))
            if not more:
                raise OSError("the store is gone")
            got += more
        return got

    def read_text(self):
        return self.read(struct.unpack("<Q", self.read(8))[0])

    def set(self, key, value):
        self.socket.sendall(bytes([SET]) + text(key) + text(value))

    def delete(self, key):
        self.socket.sendall(bytes([DELETE_KEY]) + text(key))
        self.read(8)

    def get(self, key):
        self.socket.sendall(bytes([GET]) + text(key))
        return self.read_text()

    def key_of(self, name):
        return b"/lockstep/%d/0/%s" % (self.port, name.encode())

    def keys(self):
        self.socket.sendall(bytes([LIST_KEYS]))
        return [self.read_text() for _ in range(struct.unpack("<Q", self.read(8))[0])]


def listening_ports():
    """On the loopback or all addresses, of any user."""
    lines = pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]
    places = [line.split()[1] for line in lines if line.split()[3] == "0A"]
    return {int(place[9:], 16) for place in places if place[:8] in ("0100007F", "00000000")}


class Stranger:
    """A process of another user, who waits for a new port and then does `attack(store, stranger)` there, over and
    over. `loot` is in the end that he was there, and what he read."""

    def __init__(self, attack, memory=b""):
        """memory: what his file holds, which he would have a rank map."""
        self.attack, self.memory = attack, memory

    def __enter__(self):
        self.file = None
        known = listening_ports()
        reading, writing = os.pipe()
        ready, is_ready = os.pipe()
        self.process = os.fork()
        if self.process == 0:
            try:
                self.live(known, writing, is_ready)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(0)
        os.close(writing)
        os.close(is_ready)
        self.reading = reading
        self.path = os.read(ready, 1000).decode()
        os.close(ready)
        return self

    def live(self, known, writing, is_ready):
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
        name = f"/tmp/lockstep-stranger-{os.getpid()}"
        self.file = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        os.fchmod(self.file, 0o666)
        os.write(self.file, self.memory)
        self.path = name
        os.write(is_ready, name.encode())
        while True:
            for port in listening_ports() - known:
                try:
                    store = Store(port)
                    os.write(writing, b"he was there\n")
                    while True:
                        for value in self.attack(store, self) or []:
                            os.write(writing, value.replace(b"\n", b" ") + b"\n")
                except (OSError, struct.error, UnicodeError):
                    pass
            time.sleep(0.001)

    def __exit__(self, *_):
        os.kill(self.process, signal.SIGKILL)
        os.waitpid(self.process, 0)
        pathlib.Path(self.path).unlink()
        self.loot = b""
        while select.select([self.reading], [], [], 0)[0]:
            more = os.read(self.reading, 1 << 16)
            if not more:
                break
            self.loot += more
        os.close(self.reading)

    def lie(self, key):
        """What he says under a key, in the words that a rank would use without a secret."""
        if key.endswith(b"memory"):
            return self.path.encode()
        if key.endswith(b"answer"):
            return b"go home"
        if key.endswith((b"pool", b"control")):
            return b'{"name":"' + DOOR + b'","host":"here","address":"127.0.0.1","port":1,"token":"0"}'
        if key.endswith(b"door"):
            return DOOR
        return b'{"machine":{},"process":1,"host":"here","communicator":"auto","address":"127.0.0.1"}'


def be_first(store, stranger):
    """All keys that he knows of, once."""
    for key in WELL_KNOWN:
        store.set(store.key_of(key), stranger.lie(key.encode()))
    while True:
        time.sleep(1)


def offer_memory(store, stranger):
    """His file, for the memory that ranks share, so often that he wins a race."""
    for _ in range(200):
        store.set(store.key_of("memory"), stranger.lie(b"memory"))


def write_without_end(store, stranger):
    for key in {*store.keys(), *(store.key_of(key) for key in WELL_KNOWN)}:
        store.set(key, stranger.lie(key))


def share_of_the_time(store, stranger):
    """As above, then takes all away, then lets the ranks be for a moment."""
    write_without_end(store, stranger)
    for key in store.keys():
        store.delete(key)
    time.sleep(0.05)


def steal(store, _):
    time.sleep(0.005)
    return [key + b"=" + store.get(key) for key in store.keys()]


def half_say(*_):
    """Connections that say nothing, half of a question, or lengths that nobody has, at all ports there are."""
    held = []
    lengths = [struct.pack("<Q", 2**62), struct.pack("<Q", 2**20) + b"x"]
    questions = [b"", bytes([VALIDATE]), *(bytes([SET]) + length for length in lengths)]
    while True:
        for port in listening_ports():
            for question in questions if len(held) < 400 else []:
                try:
                    one = Store(port)
                    one.socket.sendall(question)
                    held.append(one)
                except OSError:
                    pass
        time.sleep(0.1)
