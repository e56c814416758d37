#!/usr/bin/env python3
"""Many queued jobs while runners, commands and clients are killed at random moments: every job ends once, two attempts
of a job never run at a time, and nothing is lost.

usage: jobs_test.py     40 jobs and 12 kills; with LOCKSTEP_LONG=1, 200 jobs and 50 kills
"""

import os
import pathlib
import random
import signal
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "flow"))
import runs
from job_commands import Jobs

COUNT, KILLS = (200, 50) if runs.IS_LONG else (40, 12)
SECONDS = 600 if runs.IS_LONG else 100
# Says when it begins and ends, in one file for each job, which another attempt at the same time would show.
COMMAND = 'echo "begin $LOCKSTEP_JOB_ATTEMPT" >> "$0"; sleep 0.$1; echo "end $LOCKSTEP_JOB_ATTEMPT" >> "$0"'


def submit(jobs, folder, numbers):
    """Clients that may be killed before they have answered."""
    for number in numbers:
        options = ["--requeue"] if number % 2 else []
        client = jobs.start("batch", "--name", f"n{number}", *options, "--", "sh", "-c", COMMAND, folder / str(number),
                            random.randrange(10, 30), start_new_session=True)
        clients.append(client)
        client.communicate()


clients = []


def victims(jobs):
    """Runners, and now and then a client."""
    found = jobs.runners()
    if clients and clients[-1].poll() is None and random.random() < 0.3:
        found.append(clients[-1].pid)
    return found


def check(jobs, folder):
    listed = jobs.wait_for_all(SECONDS)
    states = {}
    for job in listed.values():
        states[job["state"]] = states.get(job["state"], 0) + 1
        number = int(job["name"][1:])
        log = folder / str(number)
        lines = log.read_text().splitlines() if log.exists() else []
        attempts = [line.split()[1] for line in lines if line.startswith("begin")]
        assert len(attempts) == len(set(attempts)), (job, lines)
        # A begin of a later attempt must not stand between begin and end of an earlier one.
        for first, second in zip(lines, lines[1:]):
            assert not (first.startswith("end") and second.startswith("end")), (job, lines)
        for at, line in enumerate(lines):
            if line.startswith("end"):
                assert lines[at - 1] == line.replace("end", "begin"), (job, lines)
        if job["state"] == "ended":
            assert lines and lines[-1].startswith("end"), (job, lines)
        else:
            assert job["state"] == "failed" and number % 2 == 0 and "killed" in job["reason"], job
            assert len(attempts) <= 1, (job, lines)
        result = list((jobs.root / job["id"]).glob("result.json"))
        assert len(result) == 1, job
    return states


def main():
    random.seed(int(os.environ.get("LOCKSTEP_SEED", "1")))
    with tempfile.TemporaryDirectory() as name, Jobs(name, workers=2) as jobs:
        folder = pathlib.Path(name) / "logs"
        folder.mkdir()
        half = threading.Thread(target=submit, args=(jobs, folder, range(COUNT)))
        half.start()
        killed = 0
        while killed < KILLS:
            time.sleep(random.uniform(0.05, 0.35))
            found = victims(jobs)
            if found:
                try:
                    os.kill(random.choice(found), signal.SIGKILL)
                    killed += 1
                except ProcessLookupError:
                    pass
            elif not half.is_alive():
                jobs.run("queue", "run")
                if all(job["state"] in ("ended", "failed") for job in jobs.list().values()):
                    break
            if random.random() < 0.2:
                jobs.run("jobs")
        half.join()
        states = check(jobs, folder)
        print(f"{sum(states.values())} jobs of {COUNT} clients, {killed} kills: {states}")
        # A client that was killed may have left no job, but never half a one.
        assert sum(states.values()) >= COUNT - KILLS
        assert not [entry for entry in jobs.root.glob("*/job.json.part")]


if __name__ == "__main__":
    main()
