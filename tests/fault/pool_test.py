#!/usr/bin/env python3
"""A client of a pool of processes is killed, by SIGKILL and by Ctrl-C's SIGINT, at any moment: a second later no process and no shared memory is left.

usage: pool_test.py PROGRAM [TRIALS]
"""

import os
import pathlib
import random
import signal
import subprocess
import sys
import time

SECONDS = 1.0
TRIALS = 12
WORKER = b"--lockstep-worker"


def workers_of(client):
    """Processes that were started as this client's workers, whoever is their parent by now."""
    found = []
    for path in pathlib.Path("/proc").iterdir():
        if not path.name.isdigit():
            continue
        try:
            arguments = (path / "cmdline").read_bytes().split(b"\0")
            state = (path / "stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            continue
        if len(arguments) > 2 and arguments[1:3] == [WORKER, str(client).encode()] and state != "Z":
            found.append(int(path.name))
    return found


def shared_memory():
    return {path.name for path in pathlib.Path("/dev/shm").iterdir()}


def trial(program, how, sent, pause):
    before = shared_memory()
    client = subprocess.Popen([program, how], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, start_new_session=True)
    client.stdout.readline()
    time.sleep(pause)
    seen = len(workers_of(client.pid))
    started = time.monotonic()
    if sent == signal.SIGINT:
        os.killpg(client.pid, sent)  # as a terminal does
    else:
        client.send_signal(sent)
    client.wait(timeout=20)
    left = workers_of(client.pid)
    while left and time.monotonic() - started < 10:
        time.sleep(0.005)
        left = workers_of(client.pid)
    seconds = time.monotonic() - started
    files = shared_memory() - before
    print(f"{how:9s} {sent.name:8s} after {pause:.3f} s: {seen} workers, gone after {seconds:.3f} s{' FILES LEFT ' + ' '.join(files) if files else ''}", flush=True)
    for process in left:
        os.kill(process, signal.SIGKILL)
    return not left and not files and seconds <= SECONDS


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    draw = random.Random(1)
    kinds = [("circle", 0.2), ("spin", 0.2), ("starting", 1.0)]
    trials = int(sys.argv[2]) if len(sys.argv) == 3 else TRIALS
    good = 0
    for number in range(trials):
        how, most = kinds[number % len(kinds)]
        good += trial(sys.argv[1], how, signal.SIGINT if number % 2 else signal.SIGKILL, draw.random() * most)
    print(f"{good} of {trials} left nothing behind within {SECONDS:g} s")
    sys.exit(0 if good == trials else 1)


main()
