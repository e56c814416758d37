#!/usr/bin/env python3
"""examples/background_parfeval: progress while it trains, results as they end, its last line.

usage: background_parfeval_test.py PROGRAM
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
        runs.write_digits({folder / "digits": 400})
        printed = subprocess.run([program, folder / "digits"], cwd=folder, check=True, stdout=subprocess.PIPE,
                                 text=True, timeout=runs.SECONDS_PER_RUN).stdout
        print(printed)
        for network in ("mlp", "lenet"):
            before = printed.partition(f"{network} has finished with accuracy ")[0]
            for epoch in (1, 2):
                if re.search(rf"^  {network}, epoch {epoch}: \d\.\d{{3}}$", before, re.MULTILINE) is None:
                    sys.exit(f"{network} did not tell of epoch {epoch} before its end")
        if printed.splitlines()[-1] != "3 trainings: 2 finished, 1 cancelled":
            sys.exit("the example's last line is not what its head promises")


main()
