#!/usr/bin/env python3
"""A program's mistakes in the types that it gives to the library are compiler errors of one sentence each, and of
nothing else.

usage: compile_errors_test.py COMPILER INCLUDE-FOLDER...
"""

import pathlib
import re
import subprocess
import sys

# What a sentence begins with, and how many mistakes of tests/flow/wrong_program.cpp it names.
SENTENCES = {
    "a field of a task's input or result is bool, int64_t": 3,
    "a task is a function Out(Worker&, const In&)": 1,
    "a task's input and result are structs with a member `describe`": 1,
    "a network's function returns a torch::nn::ModuleHolder": 2,
    "a network's function takes a const nn::NetworkInput&": 1,
    "a network's module has a public member `Tensor forward(Tensor)`": 1,
    "sweep::run looks for the least or greatest number": 1,
}


def main():
    compiler, *folders = sys.argv[1:]
    source = pathlib.Path(__file__).with_name("wrong_program.cpp")
    done = subprocess.run([compiler, "-std=c++20", "-fsyntax-only", *(f"-isystem{folder}" for folder in folders), source],
                          stderr=subprocess.PIPE, text=True, check=False)
    errors = re.findall(r" error: (.*)", done.stderr)
    for sentence, count in SENTENCES.items():
        found = sum(sentence in error for error in errors)
        if found != count:
            sys.exit(f'{found} errors, not {count}, say "{sentence}":\n{done.stderr}')
    if len(errors) != sum(SENTENCES.values()):
        sys.exit(f"errors that only follow from others:\n{done.stderr}")


if __name__ == "__main__":
    main()
