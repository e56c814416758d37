#!/usr/bin/env python3
"""A project that takes Lockstep's sources by add_subdirectory keeps its settings, has none of Lockstep's tests and
installs nothing of Lockstep, and its program finds the headers. Nothing is built.

usage: subproject_test.py CMAKE WORK-FOLDER LIBTORCH GENERATOR COMPILER
"""

import json
import os
import pathlib
import shlex
import shutil
import sys

import runs

# The settings differ from Lockstep's. `changed` lists each variable that has another value after add_subdirectory.
PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(outer VERSION 3.4 LANGUAGES CXX)
enable_testing()
set(BUILD_TESTING ON)
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_CXX_FLAGS "-Wall -DOF_THE_PROJECT")
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/programs)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
foreach(kind VARIABLES CACHE_VARIABLES)
  get_cmake_property(names ${kind})
  list(APPEND before ${names})
endforeach()
list(FILTER before INCLUDE REGEX "^(CMAKE_|BUILD_|PROJECT_|outer_)")
list(FILTER before EXCLUDE REGEX "^CMAKE_(MATCH_|CURRENT_LIST_LINE|REQUIRED_)")
foreach(name ${before})
  set(before_${name} "${${name}}")
endforeach()
add_subdirectory("%s" lockstep EXCLUDE_FROM_ALL)
foreach(name ${before})
  if(NOT before_${name} STREQUAL "${${name}}")
    list(APPEND changed "${name}: ${before_${name}} became ${${name}}")
  endif()
endforeach()
get_directory_property(options COMPILE_OPTIONS)
get_directory_property(link_options LINK_OPTIONS)
if(changed OR options OR link_options)
  message(FATAL_ERROR "changed: ${changed}; options: ${options}; ${link_options}")
endif()
# Found in Lockstep's folders, used in the project's.
add_executable(my_program my_program.cpp)
target_link_libraries(my_program PRIVATE lockstep::lockstep lockstep::cloud)
add_test(NAME own COMMAND my_program)
"""
# Of Lockstep, of LibTorch, and of a library that Lockstep's headers include; none that compiles for long.
PROGRAM = """
#include <nlohmann/json.hpp>
#include <torch/headeronly/version.h>

#include "lockstep/base/error.h"

int main() { throw lockstep::Error(lockstep::ErrorCode::internal, "nothing can be done"); }
"""


def main():
    cmake, work, libtorch, generator, compiler = sys.argv[1:]
    work = pathlib.Path(work)
    shutil.rmtree(work, ignore_errors=True)
    project, build = work / "project", work / "build"
    project.mkdir(parents=True)
    (project / "CMakeLists.txt").write_text(PROJECT % runs.ROOT)
    (project / "my_program.cpp").write_text(PROGRAM)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LOCKSTEP")}
    runs.checked(cmake, "-S", project, "-B", build, "-G", generator, f"-DCMAKE_CXX_COMPILER={compiler}",
            f"-DLOCKSTEP_LIBTORCH={libtorch}", env=environment)

    tests = json.loads(runs.checked(pathlib.Path(cmake).with_name("ctest"), "--show-only=json-v1", cwd=build))["tests"]
    if [test["name"] for test in tests] != ["own"]:
        sys.exit(f"the project has these tests: {[test['name'] for test in tests]}")
    commands = json.loads((build / "compile_commands.json").read_text())
    if tested := [entry["file"] for entry in commands if "_test.dir/" in entry["command"]]:
        sys.exit(f"tests of Lockstep would be built: {tested}")
    runs.checked(cmake, "--install", build, "--prefix", work / "prefix")
    if installed := [str(path) for path in (work / "prefix").rglob("*") if path.is_file()]:
        sys.exit(f"files of Lockstep are installed with the project: {installed}")

    command, = (entry for entry in commands if entry["file"].endswith("my_program.cpp"))
    words = shlex.split(command["command"])
    words[words.index("-c")] = "-fsyntax-only"
    if "-DOF_THE_PROJECT" not in words or not any(word.startswith("-std=") and word.endswith("20") for word in words):
        sys.exit(f"the program is compiled with other options: {command['command']}")
    runs.checked(*words, cwd=command["directory"])


if __name__ == "__main__":
    main()
