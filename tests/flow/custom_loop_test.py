#!/usr/bin/env python3
"""examples/custom_loop: equal weights on threads, on processes and on a launcher's ranks, its lines, and the bits of
`lockstep train` with the same settings, in each precision.

usage: custom_loop_test.py PROGRAM
"""

import pathlib
import re
import subprocess
import sys

import runs

EPOCHS = 2
PLACES = [["--workers", 1], ["--workers", 2], ["--workers", 3], ["--processes", 2]]
# What the example's loop does, in the words of `lockstep train`: a custom loop normalises over one shard.
SAME = ["--recipe", "plain", "--network", "digits_cnn", "--seed", 1, "--validation-split", 0.2,
        "--mini-batch-size", 128, "--max-epochs", EPOCHS, "--patience", 0, "--learning-rate", 0.01,
        "--lr-schedule", "constant", "--weight-decay", 0, "--shards", 8, "--batch-norm-group", 1, "--workers", 2]
# On few images: a processor takes long over float16.
PRECISIONS = ["64-true", "bf16-mixed", "fp16-mixed"]


def custom_loop(*words):
    command = [str(word) for word in (*words, "--epochs", EPOCHS)]
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True, timeout=runs.SECONDS_PER_RUN)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def trained(digits, output, *options):
    """What `lockstep train` ends with: accuracy and weights, as the example prints them."""
    runs.train(digits, output, *SAME, *options)
    accuracy = runs.of_kind(output, "validation")[-1]["values"]["accuracy"]
    return f"{accuracy:.3f}", runs.of_kind(output, "hash")[-1]["values"]["weights"]


def test_precisions(program, folder):
    few = folder / "few"
    runs.write_digits({few: 50})
    for precision in PRECISIONS:
        printed = {custom_loop(program, few, *place, "--precision", precision) for place in (PLACES[0], PLACES[2])}
        if len(printed) != 1:
            sys.exit(f"{precision} gives several weights or losses:\n{''.join(printed)}")
        found = re.search(r"accuracy (\S+) on \d+ images held out; weights (\S+)", printed.pop()).groups()
        expected = trained(few, folder / precision, "--precision", precision)
        if found != expected:
            sys.exit(f"{precision}: the example ends with {found}, lockstep train with {expected}")


def main():
    program = pathlib.Path(sys.argv[1]).resolve()
    with runs.temporary_folder() as name:
        folder = pathlib.Path(name)
        digits = folder / "digits"
        runs.write_digits({digits: 500})
        printed = {str(place): custom_loop(program, digits, *place) for place in PLACES}
        printed["2 ranks"] = custom_loop(runs.PROGRAM, "run", "-n", 2, program, digits)
        first = next(iter(printed.values()))
        print(first)
        expected = "".join(rf"Epoch: {epoch}, Loss: \d+\.\d{{4}}\n"
                           for epoch in range(1, EPOCHS
                                              + 1)) + (r"accuracy (0\.\d{3}) on 100 images held out; weights "
                                                       r"([0-9a-f]{16})\n")
        found = re.fullmatch(expected, first)
        if found is None:
            sys.exit("the example does not print what its head promises")
        for place, text in printed.items():
            if text != first:
                sys.exit(f"{place} gives other weights or losses:\n{text}")
        same = trained(digits, folder / "run")
        if same != found.groups():
            sys.exit(f"lockstep train ends with accuracy and weights {same}")
        test_precisions(program, folder)


main()
