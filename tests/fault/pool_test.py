#!/usr/bin/env python3
"""A client of a pool of processes is killed, by SIGKILL and by Ctrl-C's SIGINT, at any moment: a second later no
process and no shared memory is left.

usage: pool_test.py PROGRAM [TRIALS]
       pool_test.py PROGRAM --whole UNIT_TEST   200 trials, then 100 times the unit test of pools that kills and stops
                                                a worker in every collective
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
WHOLE_TRIALS = 200
WHOLE_REPEATS = 100
WORKER = b"--lockstep-worker"


def workers_of(client):
    """Processes that were started as this client's workers, whatever their parent is now."""
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
    client = subprocess.Popen([program, how], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              stdin=subprocess.DEVNULL, start_new_session=True,
                              # a job in the background has it ignored
                              preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    client.stdout.readline()
    time.sleep(pause)
    seen = len(workers_of(client.pid))
    started = time.monotonic()
    if sent == signal.SIGINT:
        os.killpg(client.pid, sent)  # as a terminal does
    else:
        client.send_signal(sent)
    try:
        client.wait(timeout=20)
    finally:
        client.kill()  # one that does not end must not go on behind the test's back
    left = workers_of(client.pid)
    while left and time.monotonic() - started < 10:
        time.sleep(0.005)
        left = workers_of(client.pid)
    seconds = time.monotonic() - started
    files = shared_memory() - before
    print(
        f"{how:9s} {sent.name:8s} after {pause:.3f} s: {seen} workers, gone after {seconds:.3f} "
        f"s{' FILES LEFT ' + ' '.join(files) if files else ''}", flush=True)
    for process in left:
        os.kill(process, signal.SIGKILL)
    return not left and not files and seconds <= SECONDS


def lose_workers(unit_test):
    """Whether no repeat failed. Each kills a worker in every collective, one by one, and stops one in every collective,
    all at once."""
    started = time.monotonic()
    names = "Processes.AKilledWorkerIsNamedInEveryCollective:Processes.AStoppedWorkerIsNamedInEveryCollective"
    done = subprocess.run([unit_test, f"--gtest_filter={names}", f"--gtest_repeat={WHOLE_REPEATS}", "--gtest_brief=1"],
                          stdout=subprocess.PIPE, text=True)
    failed = [line for line in done.stdout.splitlines() if "Failure" in line or "FAILED" in line]
    print("\n".join(failed))
    print(
        f"{WHOLE_REPEATS} repeats of a killed and a stopped worker in every collective in "
        f"{time.monotonic() - started:.0f} s, {len(failed)} lines of failure", flush=True)
    return done.returncode == 0 and not failed


def main():
    whole = len(sys.argv) == 4 and sys.argv[2] == "--whole"
    if len(sys.argv) not in (2, 3) and not whole:
        sys.exit(__doc__)
    draw = random.Random(1)
    kinds = [("circle", 0.2), ("spin", 0.2), ("starting", 1.0)]
    trials = WHOLE_TRIALS if whole else int(sys.argv[2]) if len(sys.argv) == 3 else TRIALS
    good = 0
    for number in range(trials):
        how, most = kinds[number % len(kinds)]
        good += trial(sys.argv[1], how, signal.SIGINT if number % 2 else signal.SIGKILL, draw.random() * most)
    print(f"{good} of {trials} left nothing behind within {SECONDS:g} s")
    sys.exit(0 if good == trials and (not whole or lose_workers(sys.argv[3])) else 1)


main()
