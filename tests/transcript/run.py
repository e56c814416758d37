#!/usr/bin/env python3
"""Runs a transcript: commands and what they must print.

usage: run.py PROGRAM ARCHIVE TRANSCRIPT

A transcript is a text file of blocks:

    # words about what follows
    $ lockstep plan nowhere
    lockstep: cannot ...
    [1]

Each command is run by bash in one empty folder, which holds digits/ (the first images of each class in ARCHIVE);
PROGRAM is found as `lockstep`. Standard output and standard error are read together. `...` stands for any text within a
line, and for any lines on a line of its own. [N] is the exit status, 0 when it is absent. `%needs COMMAND  # hint:
WORDS` skips the rest, loudly, when the command fails; the words say how to make it succeed. Shell functions for
commands: see PRELUDE. """

import collections
import os
import pathlib
import re
import subprocess
import sys
import tempfile

IMAGES_PER_CLASS = 20
SKIPPED = 77
SECONDS_PER_COMMAND = 120

PRELUDE = r"""
# tiny_disk SIZE FOLDER COMMAND...: runs the command while FOLDER is a file system of that size.
tiny_disk() {
  mkdir -p "$2"
  unshare --map-root-user --mount bash -c 'mount -t tmpfs -o size="$0" tmpfs "$1" && shift && "$@"' "$@"
}
"""


class Step:
    def __init__(self, line, command):
        self.line = line
        self.command = command
        self.needed = False
        self.expected = []
        self.status = 0


def read_steps(path):
    steps = []
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        if line.startswith("$ "):
            steps.append(Step(number, line[2:]))
        elif line.startswith("%needs "):
            steps.append(Step(number, line[len("%needs "):]))
            steps[-1].needed = True
        elif line.startswith("# "):
            continue
        elif steps and re.fullmatch(r"\[\d+\]", line):
            steps[-1].status = int(line[1:-1])
        elif steps:
            steps[-1].expected.append(line)
    for step in steps:
        while step.expected and not step.expected[-1]:
            step.expected.pop()
    return steps


def pattern_of(lines):
    pattern = ""
    for line in lines:
        if line == "...":
            pattern += r"(?:.*\n)*"
        else:
            pattern += ".*".join(re.escape(part) for part in line.split("...")) + r"\n"
    return pattern


def unpack_digits(archive, folder):
    """The first images of each class, in the archive's order."""
    taken = collections.defaultdict(list)  # tar reads their names ten times as fast as Python's tarfile
    for name in subprocess.check_output(["tar", "-tzf", archive], text=True).splitlines():
        label = pathlib.PurePosixPath(name).parent.name
        if name.endswith(".png") and len(taken[label]) < IMAGES_PER_CLASS:
            taken[label].append(name)
    names = "\n".join(name for of_class in taken.values() for name in of_class)
    (folder / "digits").mkdir()
    subprocess.run(["tar", "-xzf", archive, "-C", folder / "digits", "--transform", r"s,.*/\([^/]*/[^/]*\)$,\1,",
                    "--no-same-owner", "--touch", "--files-from", "-"], input=names, text=True, check=True)


def environment(program, home):
    return {
        "PATH": f"{program.resolve().parent}:{os.environ['PATH']}",
        "HOME": str(home),
        "LC_ALL": "C.UTF-8",
        "COLUMNS": "100",
        **{name: os.environ[name] for name in ("ASAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS") if name in os.environ},
    }


def run(step, folder, variables):
    done = subprocess.run(["bash", "-c", PRELUDE + step.command], cwd=folder, env=variables, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS_PER_COMMAND, check=False)
    return done.returncode if done.returncode >= 0 else 128 - done.returncode, done.stdout.decode(errors="replace")


def indented(text):
    return "".join("    " + line + "\n" for line in text.splitlines())


def main():
    program, archive, transcript = (pathlib.Path(name) for name in sys.argv[1:])
    failures = 0
    with tempfile.TemporaryDirectory(prefix="lockstep-transcript-") as name:
        folder = pathlib.Path(name)
        unpack_digits(archive, folder)
        for step in read_steps(transcript):
            status, output = run(step, folder, environment(program, folder))
            if step.needed:
                if status == 0:
                    continue
                print(
                    f"NOT TESTED: {transcript.name} from line {step.line} on, for this fails: "
                    f"{step.command}\n{indented(output)}")
                sys.exit(1 if failures else SKIPPED)
            if output and not output.endswith("\n"):
                output += "\n"
            if status != step.status or not re.fullmatch(pattern_of(step.expected), output):
                failures += 1
                print(f"{transcript}:{step.line}: $ {step.command}\n  expected, with exit status {step.status}:")
                print(indented("\n".join(step.expected)) + f"  printed, with exit status {status}:\n"
                      + indented(output))
    print(f"{failures} commands printed something else" if failures else "all as expected")
    sys.exit(1 if failures else 0)


main()
