#!/usr/bin/env python3
"""Runs that are killed with SIGKILL and resumed with other workers have the same weights as a run that was left alone.

usage: kill_test.py [--all]     3 kills; with --all or LOCKSTEP_LONG=1, 50 kills: 20 before the first checkpoint,
                                10 while a checkpoint is written, 20 at any time
"""

import collections
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "flow"))
import runs

ARGUMENTS = [*runs.SMALL, "--max-epochs", "4", "--mini-batch-size", "16", "--checkpoint-every", "6", "--validate-every",
             "6", "--augment", "shift", "--optimizer", "adamw"]
WORKERS = [1, 2, 3, 4, 8]
BEFORE = "before the first checkpoint"
INSIDE = "inside a checkpoint's writing"
SLOW_MILLISECONDS = 60
SECONDS_IN_CHECKPOINT = 0.4  # seven times fsync
SECONDS = 120


class Kills:
    def __init__(self, folder):
        self.folder = folder
        self.train, self.held_out = folder / "train", folder / "held_out"
        runs.write_digits({self.train: 203, self.held_out: 40})
        self.random = random.Random(1)
        self.rows = []
        started = time.monotonic()
        runs.train(self.train, folder / "alone", "--validation", self.held_out, *ARGUMENTS, "--workers", "2")
        self.seconds = time.monotonic() - started
        self.expected = runs.results(folder / "alone")

    def start(self, output, workers, slow):
        environment = {**os.environ, **(runs.slow_fsync(SLOW_MILLISECONDS) if slow else {})}
        return subprocess.Popen(runs.command("train", self.train, "--output", output, "--validation", self.held_out,
                                             *ARGUMENTS, "--workers", workers),
                                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                env=environment)

    def kill_when(self, process, output, moment):
        """Kills when moment(output) holds; gives whether the program was still there to be killed."""
        end = time.monotonic() + SECONDS
        while process.poll() is None and not moment(output):
            if time.monotonic() > end:
                process.kill()
                raise AssertionError(f"{output.name}: the moment to kill did not come")
            time.sleep(0.001)
        process.send_signal(signal.SIGKILL)
        return process.wait() == -signal.SIGKILL

    @staticmethod
    def was_in_time(kind, output):
        return bool(half_made(output)) if kind == INSIDE else not runs.checkpoints(output) if kind == BEFORE else True

    def one(self, kind, draw, slow=False):
        number = len(self.rows) + 1
        output = self.folder / f"run-{number}"
        before, after = self.random.sample(WORKERS, 2)
        while True:
            moment = draw()  # anew for each try: on a quick machine some moments are over before they can be seen
            if self.kill_when(self.start(output, before, slow), output, moment) and self.was_in_time(kind, output):
                break
            shutil.rmtree(output, ignore_errors=True)  # the moment had passed: again
        half = bool(half_made(output))
        complete = runs.checkpoints(output)
        step = runs.checkpoint_step(complete[-1]) if complete else 0
        again = ["--validation", self.held_out, *ARGUMENTS, "--workers", after]
        begun = (output / "options.json").exists()
        printed = runs.train(self.train, output, *again, "--resume", status=0 if begun else 1)
        wanted = f"continuing after step {step}" if complete else "the run has no checkpoint yet, so it starts again"
        if not begun:
            wanted = "ended before it had written its options.json"
            runs.train(self.train, output, *again)
        said = wanted in printed or "is finished" in printed
        same = runs.results(output) == self.expected
        rest = [path.name for path in output.rglob("*") if path.name.endswith(".part")
                or path.name.startswith(".unfinished")]
        self.rows.append((number, kind, f"{before} -> {after}", step if complete else "-", "yes" if half else "", "yes"
                          if same else "NO", "" if said else f"NOT SAID: {wanted}", " ".join(rest)))
        print("  ".join(str(cell).ljust(width) for cell, width in zip(self.rows[-1], (3, 30, 7, 4, 9, 5, 9, 9))).rstrip(
            ), flush=True)
        shutil.rmtree(output, ignore_errors=True)
        return same and said and not rest

    def before_first_checkpoint(self):
        return self.one(BEFORE, self.moment_before_first_checkpoint)

    def moment_before_first_checkpoint(self):
        last = self.random.random() * 5
        pause = self.random.random() * 0.2

        def moment(output):
            if not (output / "lock").exists():
                return False
            if last < 1:  # before there is anything but the lock and perhaps the options
                time.sleep(pause)
                return True
            return any(event["step"] >= last for event in logged(output)) or runs.checkpoints(output)

        return moment

    def in_checkpoint(self):
        return self.one(INSIDE, self.moment_in_checkpoint, slow=True)

    def moment_in_checkpoint(self):
        passed = self.random.randrange(0, 3)  # checkpoints that are left to be completed
        seen = {}  # half-made folder: when to kill in it

        def moment(output):
            for folder in half_made(output):
                seen.setdefault(folder.name.removeprefix(".unfinished-"), time.monotonic()
                                + self.random.random() * SECONDS_IN_CHECKPOINT)
                due = list(seen.values())
                if len(due) > passed and time.monotonic() >= due[-1]:
                    return True
            return False

        return moment

    def anywhere(self):
        return self.one("anywhere", self.moment_anywhere)

    def moment_anywhere(self):
        pause = self.random.random() * self.seconds
        started = time.monotonic()
        return lambda output: (output / "lock").exists() and time.monotonic() - started > pause


def half_made(output):
    try:
        return [path for path in (output / "checkpoints").iterdir() if not (path / "DONE").exists()]
    except OSError:
        return []


def logged(output):
    try:
        return runs.events(output)
    except (OSError, ValueError):
        return []


def main():
    if sys.argv[1:] not in ([], ["--all"]):
        sys.exit(__doc__)
    amounts = (20, 10, 20) if sys.argv[1:] or runs.IS_LONG else (1, 1, 1)
    if not os.environ.get("LOCKSTEP_SLOW_FSYNC"):
        built = runs.PROGRAM.parent.parent / "lib" / "lockstep_slow_fsync.so"
        if not built.exists():
            sys.exit(
                f"LOCKSTEP_SLOW_FSYNC does not name the library that slows fsync, and {built} is not there (build "
                "lockstep_slow_fsync)")
        os.environ["LOCKSTEP_SLOW_FSYNC"] = str(built)
    with runs.temporary_folder() as name:
        kills = Kills(pathlib.Path(name))
        print(
            f"alone: {kills.seconds:.1f} s, {kills.expected[0]}\n#    killed                          workers  from  "
            "half-made  same", flush=True)
        good = [kill() for kill, amount in zip((kills.before_first_checkpoint, kills.in_checkpoint, kills.anywhere),
                                               amounts) for _ in range(amount)]
        counts = collections.Counter(row[5] for row in kills.rows)
        print(f"{counts['yes']} of {len(good)} have the weights of the run that was left alone")
        sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
