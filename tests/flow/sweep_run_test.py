#!/usr/bin/env python3
"""examples/sweep_run: its last line, and the same trials and results from threads and from processes.

usage: sweep_run_test.py PROGRAM
"""

import pathlib
import re
import subprocess
import sys

import runs


def main():
    program = pathlib.Path(sys.argv[1]).resolve()
    with runs.temporary_folder() as name:
        folder = pathlib.Path(name)
        runs.write_digits({folder / "digits": 300})
        tables = []
        for kind in ("threads", "processes"):
            done = subprocess.run([program, folder / "digits", kind], cwd=folder, check=True, capture_output=True,
                                  text=True, timeout=runs.SECONDS_PER_RUN)
            print(done.stderr + done.stdout, flush=True)
            *rows, last = done.stdout.splitlines()
            told = re.findall(r"^trial (\d+) has ended: \d\.\d{3}$", done.stderr, re.MULTILINE)
            if sorted(map(int, told)) != list(range(16)) or [int(row.split()[0]) for row in rows] != list(range(16)):
                sys.exit("16 trials were not trained, each once")
            best = re.fullmatch(r"best: trial (\d+), accuracy (\d\.\d{3}) with( learning-rate=.* network=\w+)", last)
            accuracies = [float(row.split()[1]) for row in rows]
            if best is None or float(best[2]) != max(accuracies) or not rows[int(best[1])].endswith(best[3]):
                sys.exit(f"the example's last line is not what its head promises: {last}")
            tables.append(done.stdout)
        refused = subprocess.run([program, folder / "digits", "proceses"], check=False, capture_output=True, text=True,
                                 timeout=runs.SECONDS_PER_RUN)
        if refused.returncode != 2 or "usage: sweep_run FOLDER [threads|processes]" not in refused.stderr:
            sys.exit(f"a word that it does not know is not refused: {refused.stderr}")
        missing = subprocess.run([program, folder / "missing"], check=False, capture_output=True, text=True,
                                 timeout=runs.SECONDS_PER_RUN)
        if missing.returncode != 1 or "cannot open" not in missing.stderr or "has ended" in missing.stderr:
            sys.exit(f"a folder that is not there is tried: {missing.stderr}")
        if tables[0] != tables[1]:
            sys.exit("threads and processes do not give the same trials")


main()
