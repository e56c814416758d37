#!/usr/bin/env python3
"""examples/stateful_lstm: its last line says that state carried over tells what pieces by themselves cannot.

usage: stateful_lstm_test.py PROGRAM
"""

import pathlib
import re
import subprocess
import sys

import runs


def main():
    with runs.temporary_folder() as folder:
        printed = subprocess.run([pathlib.Path(sys.argv[1]).resolve()], cwd=folder, check=True, stdout=subprocess.PIPE,
                                 text=True, timeout=runs.SECONDS_PER_RUN).stdout
    print(printed, flush=True)
    last = re.fullmatch(r"accuracy with state carried over: (\d\.\d\d); each piece by itself: (\d\.\d\d)",
                        printed.splitlines()[-1])
    if last is None or float(last[1]) < 0.95 or float(last[2]) > 0.7:
        sys.exit("the example's last line is not what its head promises")


main()
