#!/usr/bin/env python3
"""A task as a job from C++: the program that submits it ends, and another start of the program takes the typed result.

usage: job_tasks_test.py PROGRAM
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import runs
from job_commands import Jobs


def main():
    program = pathlib.Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as name, Jobs(name, workers=2) as jobs:
        def start(*arguments, of=program):
            process = subprocess.run([of, *map(str, arguments)], env=jobs.environment, capture_output=True, text=True,
                                     timeout=runs.SECONDS_PER_RUN)
            return process.returncode, process.stdout, process.stderr

        status, printed, errors = start("submit", 1, 100, 2)
        assert (status, printed) == (0, "1\n"), (status, printed, errors)
        status, printed, errors = start("collect", 1)
        assert status == 0 and printed.startswith("5050 by 2, 100 squares, the last 10000; said"), (printed, errors)
        assert "added" in printed, printed
        assert jobs.show("1")["name"] == "add-up" and jobs.show("1")["values"] == {"sum": 5050}

        start("submit", 5, 1, 1)
        status, printed, errors = start("collect", 2)
        assert status == 2 and "in job 2" in errors and "the span is empty" in errors, errors

        # A program that was built again after it had submitted.
        own = pathlib.Path(name) / "program"
        shutil.copy(program, own)
        built = pathlib.Path(name) / "built"
        jobs.run("batch", "--workers", "2", "--", "sh", "-c", f"until [ -e '{built}' ]; do sleep 0.1; done")
        start("submit", 1, 2, 1, of=own)
        with own.open("ab") as file:
            file.write(b"\0")
        os.chmod(own, 0o755)
        built.touch()
        status, printed, errors = start("collect", 4)
        assert status == 2 and "another build" in errors, errors
        print("1 result, 2 errors")


if __name__ == "__main__":
    main()
