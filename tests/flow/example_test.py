#!/usr/bin/env python3
"""Installs the project, builds examples/own_network against it knowing nothing but CMAKE_PREFIX_PATH, and trains with it.

usage: example_test.py CMAKE BUILD-FOLDER WORK-FOLDER GENERATOR COMPILER
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import runs


def checked(*command, **options):
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\nended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def main():
    cmake, build, work, generator, compiler = sys.argv[1:]
    # The work folder keeps its place, so that a compiler cache finds what it compiled before.
    work = pathlib.Path(work)
    shutil.rmtree(work, ignore_errors=True)
    prefix, example = work / "prefix", work / "build"
    checked(cmake, "--install", build, "--prefix", prefix)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LOCKSTEP")}
    checked(cmake, "-G", generator, "-S", runs.ROOT / "examples/own_network", "-B", example, f"-DCMAKE_PREFIX_PATH={prefix}", f"-DCMAKE_CXX_COMPILER={compiler}",
            "-DCMAKE_BUILD_TYPE=Release", env=environment)
    checked(cmake, "--build", example, env=environment)
    digits = work / "digits"
    runs.write_digits({digits: 1000})
    printed = checked(example / "own_network", digits, cwd=work, env=environment)
    print(printed)
    last = re.fullmatch(r"accuracy (\d\.\d{3}) on images it has not seen; the weights are in (\S+)", printed.splitlines()[-1])
    if last is None or float(last[1]) < 0.5 or not (work / last[2]).exists():
        sys.exit("the example's last line is not what its head promises")
    checked(prefix / "bin/lockstep", "--help", env=environment)


if __name__ == "__main__":
    main()
