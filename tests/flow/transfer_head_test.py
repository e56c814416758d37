#!/usr/bin/env python3
"""examples/transfer_head: a network trained on five digits learns all ten with a new head; the weights' file stays as
it is, errors name the layer.

usage: transfer_head_test.py PROGRAM
"""

import pathlib
import re
import shutil
import subprocess
import sys

import runs


def transfer_head(program, *arguments, status=0):
    command = [str(part) for part in (program, *arguments)]
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=runs.SECONDS_PER_RUN)
    print(done.stdout)
    if done.returncode != status:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}, not {status}")
    return done.stdout.splitlines()[-1]


def accuracy_in(line):
    found = re.fullmatch(
        r'accuracy (\d\.\d{3}) on 100 images held out; 115210 of 123090 learnables are of the new head "10"', line)
    if found is None:
        sys.exit(f"the example's last line is not what its head promises: {line}")
    return float(found[1])


def main():
    program = pathlib.Path(sys.argv[1]).resolve()
    with runs.temporary_folder() as name:
        folder = pathlib.Path(name)
        five, ten = folder / "five", folder / "ten"
        runs.write_digits({five: 1000, ten: 500})
        for label in range(5, 10):
            shutil.rmtree(five / str(label))
        runs.train(five, folder / "run", "--recipe", "plain", "--network", "digits_cnn", "--image-size", "28x28", "--max-epochs", 4,
                   "--mini-batch-size", 32)
        weights = folder / "run" / "model.safetensors"
        before = runs.sha256(weights)
        one = accuracy_in(transfer_head(program, ten, weights, "--workers", 1))
        if one < 0.7 or accuracy_in(transfer_head(program, ten, weights, "--workers", 2)) != one:
            sys.exit("the new head has not learned, or 2 workers gave another result")
        if accuracy_in(transfer_head(program, ten, weights, "--backbone", 0)) < 0.6:
            sys.exit("on a frozen backbone the new head has not learned")
        if runs.sha256(weights) != before:
            sys.exit("the file of weights has changed")
        transfer_head(program, ten, weights, "--head", "12", status=2)
        transfer_head(program, ten, folder / "none.safetensors", status=1)


main()
