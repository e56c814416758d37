#!/usr/bin/env python3
"""stream_memory_test.cpp in a folder of its own, which is gone afterwards."""

import os
import pathlib
import subprocess
import sys

import runs

with runs.temporary_folder() as name:
    sys.exit(subprocess.run([os.environ["LOCKSTEP_STREAM_MEMORY"], pathlib.Path(name)], timeout=runs.SECONDS_PER_RUN,
                            check=False).returncode)
