"""A cluster of Slurm with a job or several, as the tests here see it."""

import json
import os
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "flow"))

import runs  # noqa: E402
import slurm  # noqa: E402

SUBMIT = os.environ.get("LOCKSTEP_SUBMIT_JOB", runs.PROGRAM.parent / "lockstep_submit_job")
SECONDS_PER_JOB = 240
OVER = ("ended", "failed", "cancelled")


class Job:
    """One that was submitted: its folder, and the id that Slurm gave it."""

    def __init__(self, cluster, folder, identity):
        self.cluster, self.folder, self.id = cluster, folder, identity
        self.run = pathlib.Path(json.loads((folder / "job.json").read_text())["run_folder"])

    def said(self):
        """Slurm's log and the diaries, for messages."""
        files = [self.folder / "slurm.log", *sorted(self.folder.glob("attempt-*/*"))]
        return "\n".join(f"--- {file}\n{file.read_text(errors='replace')[-2000:]}" for file in files if file.is_file())

    def wait(self, condition, what):
        runs.wait_for(condition, SECONDS_PER_JOB, (0.1, 0.5), lambda: AssertionError(
            f"{what} did not come\n{self.cluster.ask('squeue', '-t', 'all')}"
            f"{self.cluster.ask('sinfo', '-N', '-l')}\n{self.cluster.logs()}\n{self.said()}"))

    def wait_for_step(self, step):
        self.wait(lambda: runs.steps_done(self.run) >= step, f"step {step}")

    def start_now(self):
        """If it waits for its time to come."""
        if "BeginTime" in self.cluster.ask("squeue", "-h", "-t", "all", "-j", self.id, "-o", "%r"):
            self.cluster.ask("scontrol", "update", f"job={self.id}", "StartTime=now")

    def wait_until_over(self):
        """Its result. What waits for its time to come is started now. Slurm is asked once a second, because each question
        takes as much of the processor as a step of training."""
        asked = 0

        def is_over():
            nonlocal asked
            if time.monotonic() < asked + 1:
                return False
            asked = time.monotonic()
            self.start_now()
            return (self.folder / "result.json").exists() and self.slurm_state() not in ("PENDING", "RUNNING", "COMPLETING", "REQUEUED")
        self.wait(is_over, "the end")
        return json.loads((self.folder / "result.json").read_text())

    def attempts_ended(self):
        return [json.loads(file.read_text()) for file in sorted(self.folder.glob("attempt-*/result.json"))]

    def slurm_state(self):
        return self.cluster.ask("squeue", "-h", "-t", "all", "-j", self.id, "-o", "%T")


class Cluster(slurm.Cluster):
    """Takes jobs on its first machine."""

    def profile(self, **keys):
        file = self.folder / "profile.json"
        file.write_text(json.dumps({"scheduler": "slurm", "program": str(runs.PROGRAM), **keys}))
        return file

    def nodes_of_jobs(self):
        """Of each job that has run, as "machine-[0-1]"."""
        return self.ask("squeue", "-h", "-t", "all", "-o", "%N").split()

    def submit(self, root, name, kind, *command, **keys):
        """kind: train or program; keys: of the profile."""
        done = subprocess.run(self.command(0, SUBMIT, self.profile(**keys), root, name, kind, *command),
                              env=self.environment(), stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=120, check=False)
        if done.returncode != 0:
            raise AssertionError(done.stderr)
        folder, identity = done.stdout.split()
        return Job(self, pathlib.Path(folder), identity)

    def train(self, root, name, data, *options, **keys):
        return self.submit(root, name, "train", *runs.command("train", data, *options), **keys)
