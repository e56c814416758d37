#!/usr/bin/env python3
"""Installs the project, builds examples/own_network and README's program against it knowing nothing but
CMAKE_PREFIX_PATH, and trains with them. Where they cannot read their images they say so as the program does. What is
installed is complete, can be found twice, and says what it lacks.

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
    runs.checked(cmake, "-S", source, "-B", build_folder, *options, env=environment)
    runs.checked(cmake, "--build", build_folder, env=environment)


def check_readme(cmake, work, options, environment):
    build(cmake, readme_project(work / "readme"), work / "readme-build", options, environment)
    program = work / "readme-build/my_program"
    said = failed(program, status=1, cwd=work, env=environment)
    if said != 'my_program: cannot open "build/data/digits": No such file or directory\n  hint: check the path\n':
        sys.exit(f"README's program without its images says:\n{said}")
    (work / "build/data").mkdir(parents=True)
    (work / "build/data/digits").symlink_to(work / "digits")
    printed = runs.checked(program, cwd=work, env=environment)
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
    runs.checked(program, digits, "runs/own_network-002", cwd=work, env=environment)
    if runs.weights(work / "runs/own_network-001") != runs.weights(work / "runs/own_network-002"):
        sys.exit("a run stopped by Ctrl-C and continued has other weights")


def check_headers(include):
    """What the pages and examples include is installed, with what that includes, and nothing of the insides."""
    for header in include.rglob("*.h"):
        for name in re.findall(r'^#include "(.*)"', header.read_text(), re.MULTILINE):
            if not (include / name).exists():
                sys.exit(f"{header} includes {name}, which is not installed")
    for file in (runs.ROOT / "README.md", *runs.ROOT.glob("docs/*.md"), *runs.ROOT.glob("examples/*/*.cpp")):
        for name in re.findall(r'^#include "(lockstep/.*)"', file.read_text(), re.MULTILINE):
            if not (include / name).exists():
                sys.exit(f"{file} includes {name}, which is not installed")
    for folder in ("cli", "studio", "train/step", "train/loop", "train/planning"):
        if (include / "lockstep" / folder).exists():
            sys.exit(f"headers of lockstep/{folder} are installed, but nothing that a program includes needs them")


def check_found(cmake, work, options, environment):
    """Two folders of a project may find Lockstep. A project that requires it is told why it cannot have it, and one
    that does not goes on."""
    project, other = work / "found", work / "another LibTorch"
    start = "cmake_minimum_required(VERSION 3.25)\nproject(found LANGUAGES CXX)\n"
    for part in ("one", "two"):
        (project / part).mkdir(parents=True)
        (project / part / "CMakeLists.txt").write_text("find_package(lockstep 0.1 REQUIRED)\n")
    (project / "CMakeLists.txt").write_text(f"{start}add_subdirectory(one)\nadd_subdirectory(two)\n")
    configure = [cmake, "-S", project, "-B", work / "found-build", *options]
    runs.checked(*configure, env=environment)

    (project / "main.cpp").write_text('#include "lockstep/lockstep.h"\nint main() {}\n')
    (project / "CMakeLists.txt").write_text(f"{start}find_package(lockstep 0.1 REQUIRED)\nadd_executable(main main.cpp)\n"
                                            "target_link_libraries(main PRIVATE lockstep::lockstep)\n")
    runs.checked(*configure, "-DLOCKSTEP_JEMALLOC=OFF", env=environment)
    runs.checked(*configure, "-DLOCKSTEP_JEMALLOC=ON", env=environment)
    (project / "CMakeLists.txt").write_text(f"{start}add_subdirectory(one)\nadd_subdirectory(two)\n")

    (other / "torch/lib").mkdir(parents=True)
    (other / "torch/lib/libtorch_cpu.so").touch()
    (other / "torch/include/torch/headeronly").mkdir(parents=True)
    (other / "torch/include/torch/headeronly/version.h").write_text(
        "".join(f"#define TORCH_VERSION_{part} 1\n" for part in ("MAJOR", "MINOR", "PATCH")))
    for lacking, reason in ((f"-DLOCKSTEP_LIBTORCH={work}", f'LibTorch is not in "{work}". Pass -DLOCKSTEP_LIBTORCH='),
                            (f"-DLOCKSTEP_LIBTORCH={other}", f'In "{other}" is LibTorch 1.1.1, whose classes differ.'),
                            ("-DLOCKSTEP_nlopt_LIBRARY:FILEPATH=OFF", "apt-get install libnlopt-dev")):
        said = failed(*configure, lacking, status=1, env=environment)
        if reason not in " ".join(said.split()):
            sys.exit(f"with {lacking} find_package says:\n{said}")
    (project / "CMakeLists.txt").write_text(f"{start}find_package(lockstep 0.1 REQUIRED COMPONENTS parts)\n")
    said = failed(*configure, status=1, env=environment)
    if 'Lockstep has no component "parts"' not in " ".join(said.split()):
        sys.exit(f"with a component find_package says:\n{said}")
    for asked in ("", " OPTIONAL_COMPONENTS parts"):
        (project / "CMakeLists.txt").write_text(f"{start}find_package(lockstep 0.1{asked})\n")
        runs.checked(*configure, env=environment)


def check_plug_in(program, prefix, work, environment):
    """A program finds the installed plug-ins, which are not beside it."""
    if not (prefix / "lib/lockstep/liblockstep_object_store.so").exists():
        return
    said = failed(program, "s3://", status=2, cwd=work, env=environment)
    if not said.startswith('own_network: "s3://" names no bucket\n'):
        sys.exit(f"the example does not find the library for object stores:\n{said}")


def main():
    cmake, built, work, generator, compiler = sys.argv[1:]
    # The work folder keeps its place, so that a compiler cache finds what it compiled before.
    work = pathlib.Path(work)
    shutil.rmtree(work, ignore_errors=True)
    prefix, example = work / "prefix", work / "example"
    runs.checked(cmake, "--install", built, "--prefix", prefix)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LOCKSTEP")}
    check_headers(prefix / "include")
    # As the example's head says, so not optimised, which the compiler takes long for: what the programs take long for
    # is in the libraries.
    options = ["-G", generator, f"-DCMAKE_PREFIX_PATH={prefix}", f"-DCMAKE_CXX_COMPILER={compiler}",
               "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON"]
    check_found(cmake, work, options, environment)
    build(cmake, runs.ROOT / "examples/own_network", example, options, environment)
    if "-DNDEBUG " not in (example / "compile_commands.json").read_text():
        sys.exit("the example is compiled with other members of LibTorch's classes than LibTorch is")
    check_plug_in(example / "own_network", prefix, work, environment)
    if "hint: check the path" not in failed(example / "own_network", work / "nowhere", status=1, cwd=work,
                                            env=environment):
        sys.exit("the example does not say that there are no images")
    digits = work / "digits"
    runs.write_digits({digits: 1000})
    printed = runs.checked(example / "own_network", digits, cwd=work, env=environment)
    print(printed)
    last = re.fullmatch(r"accuracy (\d\.\d{3}) on images it has not seen; the weights are in (\S+)",
                        printed.splitlines()[-1])
    if last is None or float(last[1]) < 0.5 or not (work / last[2]).exists():
        sys.exit("the example's last line is not what its head promises")
    check_ctrl_c(example / "own_network", digits, work, environment)
    check_readme(cmake, work, options, environment)
    runs.checked(prefix / "bin/lockstep", "--help", env=environment)


if __name__ == "__main__":
    main()
