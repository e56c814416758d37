#!/usr/bin/env python3
"""Installs the project, builds examples/own_network and README's program against it knowing nothing but
CMAKE_PREFIX_PATH, and trains with them. Where they cannot read their images they say so as the program does.

usage: example_test.py CMAKE BUILD-FOLDER WORK-FOLDER GENERATOR COMPILER
"""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

import runs


def checked(*command, **options):
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\nended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def failed(*command, status, **options):
    """What a command that has to fail with this status says on standard error."""
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          check=False, **options)
    if done.returncode != status:
        sys.exit(
            f"{' '.join(map(str, command))}\nended with {done.returncode}, not {status}:\n{done.stdout}{done.stderr}")
    return done.stderr


def readme_project(folder):
    """README's C++ program and its CMakeLists.txt, as a user would copy them."""
    readme = (runs.ROOT / "README.md").read_text()
    folder.mkdir()
    for language, file in (("cpp", "my_program.cpp"), ("cmake", "CMakeLists.txt")):
        (folder / file).write_text(re.search(rf"^```{language}\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)[1])
    return folder


def build(cmake, source, build_folder, options, environment):
    checked(cmake, "-S", source, "-B", build_folder, *options, env=environment)
    checked(cmake, "--build", build_folder, env=environment)


def check_readme(cmake, work, options, environment):
    build(cmake, readme_project(work / "readme"), work / "readme-build", options, environment)
    program = work / "readme-build/my_program"
    said = failed(program, status=1, cwd=work, env=environment)
    if said != 'my_program: cannot open "build/data/digits": No such file or directory\n  hint: check the path\n':
        sys.exit(f"README's program without its images says:\n{said}")
    (work / "build/data").mkdir(parents=True)
    (work / "build/data/digits").symlink_to(work / "digits")
    printed = checked(program, cwd=work, env=environment)
    print(printed)
    if "epoch" not in printed or not re.search(r"^held-out accuracy 0\.\d{3}, weights in \S+$",
                                               printed.splitlines()[-1]):
        sys.exit("README's program shows no progress, or not its last line")


def check_ctrl_c(program, digits, work, environment):
    """Ctrl-C saves a checkpoint; the run that continues it has the weights of the run that was left alone."""
    with subprocess.Popen([program, digits], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=work,
                          env=environment) as stopped:
        runs.wait_for(lambda: runs.steps_done(work / "runs/own_network-002") > 0)
        stopped.send_signal(signal.SIGINT)
        printed, told = stopped.communicate(timeout=60)
    line = printed.splitlines()[-1]
    if stopped.returncode != 0 or line != f"stopped; to continue: own_network {digits} runs/own_network-002":
        sys.exit(f"after Ctrl-C the example ended with {stopped.returncode} and said:\n{printed}{told}")
    checked(program, digits, "runs/own_network-002", cwd=work, env=environment)
    if runs.weights(work / "runs/own_network-001") != runs.weights(work / "runs/own_network-002"):
        sys.exit("a run stopped by Ctrl-C and continued has other weights")


def main():
    cmake, built, work, generator, compiler = sys.argv[1:]
    # The work folder keeps its place, so that a compiler cache finds what it compiled before.
    work = pathlib.Path(work)
    shutil.rmtree(work, ignore_errors=True)
    prefix, example = work / "prefix", work / "example"
    checked(cmake, "--install", built, "--prefix", prefix)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LOCKSTEP")}
    # Not optimised, which the compiler takes long for: what the programs take long for is in the libraries.
    options = ["-G", generator, f"-DCMAKE_PREFIX_PATH={prefix}", f"-DCMAKE_CXX_COMPILER={compiler}",
               "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_CXX_FLAGS_RELEASE=-DNDEBUG"]
    build(cmake, runs.ROOT / "examples/own_network", example, options, environment)
    if "hint: check the path" not in failed(example / "own_network", work / "nowhere", status=1, cwd=work,
                                            env=environment):
        sys.exit("the example does not say that there are no images")
    digits = work / "digits"
    runs.write_digits({digits: 1000})
    printed = checked(example / "own_network", digits, cwd=work, env=environment)
    print(printed)
    last = re.fullmatch(r"accuracy (\d\.\d{3}) on images it has not seen; the weights are in (\S+)",
                        printed.splitlines()[-1])
    if last is None or float(last[1]) < 0.5 or not (work / last[2]).exists():
        sys.exit("the example's last line is not what its head promises")
    check_ctrl_c(example / "own_network", digits, work, environment)
    check_readme(cmake, work, options, environment)
    checked(prefix / "bin/lockstep", "--help", env=environment)


if __name__ == "__main__":
    main()
