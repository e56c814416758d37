#!/usr/bin/env python3
"""examples/custom_loop: equal weights on threads, on processes and on a launcher's ranks, its lines, and the bits of `lockstep train` with the same settings.

usage: custom_loop_test.py PROGRAM
"""

import pathlib
import re
import subprocess
import sys

import runs

EPOCHS = 2
PLACES = [["--workers", 1], ["--workers", 2], ["--workers", 3], ["--processes", 2]]
# What the example's loop does, in the words of `lockstep train`.
SAME = ["--network", "digits_cnn", "--seed", 1, "--validation-split", 0.2, "--mini-batch-size", 128, "--max-epochs", EPOCHS, "--patience", 0, "--learning-rate", 0.01,
        "--lr-schedule", "constant", "--weight-decay", 0, "--shards", 8, "--workers", 2]


def custom_loop(*words):
    command = [str(word) for word in (*words, "--epochs", EPOCHS)]
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True, timeout=runs.SECONDS_PER_RUN)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def main():
    program = pathlib.Path(sys.argv[1]).resolve()
    with runs.temporary_folder() as name:
        folder = pathlib.Path(name)
        digits = folder / "digits"
        runs.write_digits({digits: 1000})
        printed = {str(place): custom_loop(program, digits, *place) for place in PLACES}
        printed["2 ranks"] = custom_loop(runs.PROGRAM, "run", "-n", 2, program, digits)
        first = next(iter(printed.values()))
        print(first)
        expected = "".join(rf"Epoch: {epoch}, Loss: \d+\.\d{{4}}\n" for epoch in range(1, EPOCHS + 1)) + r"accuracy (0\.\d{3}) on 200 images held out; weights ([0-9a-f]{16})\n"
        found = re.fullmatch(expected, first)
        if found is None:
            sys.exit("the example does not print what its head promises")
        for place, text in printed.items():
            if text != first:
                sys.exit(f"{place} gives other weights or losses:\n{text}")
        runs.train(digits, folder / "run", *SAME)
        trained = runs.of_kind(folder / "run", "hash")[-1]["values"]["weights"]
        accuracy = runs.of_kind(folder / "run", "validation")[-1]["values"]["accuracy"]
        if (f"{accuracy:.3f}", trained) != found.groups():
            sys.exit(f"lockstep train ends with accuracy {accuracy:.3f} and weights {trained}")


main()
