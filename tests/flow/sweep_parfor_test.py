#!/usr/bin/env python3
"""examples/sweep_parfor: its last line, and the same table from threads and from processes.

usage: sweep_parfor_test.py PROGRAM
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
        runs.write_digits({folder / "digits": 600})
        tables = []
        for kind in ("threads", "processes"):
            command = [program, folder / "digits", kind]
            done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True,
                                  timeout=runs.SECONDS_PER_RUN)
            printed = done.stdout
            print(done.stderr + printed, flush=True)
            for rate in ("0.000500", "0.005000", "0.020000", "0.050000"):
                if f"rate {rate}  finished, held-out accuracy " not in done.stderr:
                    sys.exit(f"the progress of rate {rate} was not shown to its end")
            last = re.fullmatch(r"best: learning rate (\S+), accuracy (\d\.\d{3}) of 4 trials",
                                printed.splitlines()[-1])
            if last is None or float(last[2]) < 0.5:
                sys.exit("the example's last line is not what its head promises")
            tables.append([line.split()[:2] for line in printed.splitlines()[1:-1]])
        refused = subprocess.run([program, folder / "digits", "proceses"], check=False, capture_output=True, text=True,
                                 timeout=runs.SECONDS_PER_RUN)
        if refused.returncode != 2 or "usage: sweep_parfor FOLDER [threads|processes]" not in refused.stderr:
            sys.exit(f"a word that it does not know is not refused: {refused.stderr}")
        if tables[0] != tables[1] or [float(row[0]) for row in tables[0]] != [0.0005, 0.005, 0.02, 0.05]:
            sys.exit(f"threads and processes do not give the same table in the order of rates: {tables}")


main()
