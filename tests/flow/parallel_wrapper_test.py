#!/usr/bin/env python3
"""examples/parallel_wrapper: its last line, and the weights that `lockstep train` gives for the same options.

usage: parallel_wrapper_test.py PROGRAM
"""

import pathlib
import re
import subprocess
import sys

import runs

SAME = ["--recipe", "plain", "--network", "lenet", "--exchange", "average", "--shards", "2", "--averaging-frequency", "3", "--prefetch",
        "24", "--report-score-after-averaging", "--mini-batch-size", "128",
        "--max-epochs", "3", "--nesterov", "--learning-rate", "0.01", "--lr-schedule", "constant", "--weight-decay",
        "0.0005", "--seed", "123", "--workers", "1"]


def main():
    program = pathlib.Path(sys.argv[1]).resolve()
    with runs.temporary_folder() as name:
        folder = pathlib.Path(name)
        runs.write_digits({folder / "digits": 2000})
        printed = subprocess.run([program, folder / "digits"], cwd=folder, check=True, stdout=subprocess.PIPE,
                                 text=True, timeout=runs.SECONDS_PER_RUN).stdout
        print(printed)
        # 1,800 images are 8 steps an epoch, so 24 steps and an average after every third.
        last = re.fullmatch(r"accuracy (\d\.\d{3}) after 8 averages of 2 replicas", printed.splitlines()[-1])
        if last is None or float(last[1]) < 0.5:
            sys.exit("the example's last line is not what its head promises")
        if len(re.findall(r"^averaged score \d\.\d{4} after step \d+, averaging time \S+ ms$", printed,
                          re.MULTILINE)) != 8:
            sys.exit("not every average was reported")
        runs.train(folder / "digits", folder / "train", *SAME)
        if runs.weights(folder / "train") != runs.weights(next(folder.glob("runs/*-001"))):
            sys.exit("lockstep train gives other weights")


main()
