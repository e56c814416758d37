"""What the tests of jobs share: a folder of jobs of their own, and the commands on them."""

import json
import os
import pathlib
import signal
import subprocess
import time

import runs

JOBS = "LOCKSTEP_JOBS"


class Jobs:
    """A queue in a folder. At its end nothing of it runs any more."""

    def __init__(self, folder, workers=2):
        self.root = pathlib.Path(folder) / "jobs"
        self.environment = {**os.environ, JOBS: str(self.root)}
        self.run("queue", "run", "--workers", workers)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for entry in pathlib.Path("/proc").iterdir():
            if entry.name.isdigit() and self.is_ours(entry):
                try:
                    os.kill(int(entry.name), signal.SIGKILL)
                except ProcessLookupError:
                    pass

    def is_ours(self, process):
        """A runner of this queue, or a command of its jobs."""
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
            variables = (process / "environ").read_bytes().split(b"\0")
        except OSError:
            return False
        if int(process.name) == os.getpid():
            return False
        return (b"queue-runner" in words and str(self.root).encode() in words) or any(
            entry.startswith(f"LOCKSTEP_JOB={self.root}/".encode()) for entry in variables)

    def runners(self):
        return [int(entry.name) for entry in pathlib.Path("/proc").iterdir()
                if entry.name.isdigit() and b"queue-runner" in self.words(entry) and self.is_ours(entry)]

    @staticmethod
    def words(process):
        try:
            return (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            return []

    def start(self, *arguments, **more):
        return subprocess.Popen(runs.command(*arguments), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, env=self.environment, **more)

    def run(self, *arguments, status=0, **more):
        process = self.start(*arguments, **more)
        printed, errors = process.communicate(timeout=runs.SECONDS_PER_RUN)
        assert process.returncode == status, f"{arguments}: {process.returncode}\n{printed}\n{errors}"
        return printed if status == 0 else printed + errors

    def batch(self, *arguments, **more):
        return self.run("batch", *arguments, **more).split()[-1]

    def list(self):
        return {job["id"]: job for job in json.loads(self.run("jobs", "--json"))}

    def show(self, job):
        return json.loads(self.run("job", "show", job, "--json"))

    def wait_until(self, job, *states):
        runs.wait_for(lambda: self.show(job)["state"] in states)
        return self.show(job)

    def wait_for_all(self, seconds=120):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            began = time.monotonic()
            jobs = self.list()
            if all(job["state"] in ("ended", "failed", "cancelled") for job in jobs.values()):
                return jobs
            runs.rest(began, shortest=0.1, longest=0.3)
        raise AssertionError(f"not over: {[job for job in self.list().values() if job['state'] in ('queued', 'running')]}")
