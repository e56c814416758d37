"""A real Slurm and a default profile of two nodes with four workers, as the tests of pools see it."""

import contextlib
import json
import os
import pathlib
import subprocess

import jobs_on_slurm
import runs


class OnSlurm(runs.TestFolders):
    MACHINES = 2
    GPUS = 0  # stand-ins, of each machine
    PROFILE = {"nodes": 2, "workers": 4}
    more_environment = {}  # of clients

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.cluster = jobs_on_slurm.Cluster(count=cls.MACHINES, gpus=cls.GPUS)
        cls.enterClassContext(cls.cluster)
        for node in range(cls.MACHINES):
            cls.cluster.know(node, cls.names())
        cls.write_profile("ours", **cls.PROFILE)
        (cls.folder / "config/lockstep/default-cluster").write_text("ours\n")

    @classmethod
    def names(cls):
        return {f"machine-{node}": cls.cluster.address(node) for node in range(cls.MACHINES)}

    @classmethod
    def write_profile(cls, name, **keys):
        file = cls.folder / f"config/lockstep/clusters/{name}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({"scheduler": "slurm", "program": str(runs.PROGRAM), **keys}))

    def environment(self):
        return {**self.cluster.environment(), "XDG_CONFIG_HOME": str(self.folder / "config"),
                "LOCKSTEP_JOBS": str(self.folder / "jobs"), **self.more_environment}

    def start(self, *words):
        """A client on the first machine, in no job."""
        client = subprocess.Popen(self.cluster.command(0, "env", "-C", self.folder, *words), stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.environment())
        self.addCleanup(client.kill)
        return client

    def finish(self, client):
        """What it printed on both outputs."""
        try:
            output, errors = client.communicate(timeout=runs.SECONDS_PER_RUN)
        except subprocess.TimeoutExpired:
            client.kill()
            output, errors = client.communicate()
            self.fail(f"it does not end\n{output}\n{errors}\n{self.cluster.ask('squeue', '-t', 'all')}\n{self.logs()}")
        self.assertEqual(client.returncode, 0, output + errors + self.logs())
        return output, errors

    def logs(self):
        return "".join(f"--- {file}\n{file.read_text(errors='replace')[-2000:]}"
                       for file in (self.folder / "jobs").glob(".pools/*/*/slurm.log"))

    def states(self):
        return self.cluster.ask("squeue", "-h", "-t", "all", "-o", "%T").split()

    def check_all_over(self, seconds=30):
        """No job is left, and no file of a pool."""
        runs.wait_for(lambda: set(self.states()) <= {"COMPLETED", "CANCELLED", "FAILED"}, seconds)
        runs.wait_for(lambda: not list((self.folder / "jobs/.pools").glob("*")), seconds)

    def clients(self, program):
        """The processes of this test's client alone, without what it started; another test may run the same program."""
        found = []
        for file in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                words = file.read_bytes().decode().split("\0")
                if words[:2] == [str(program), str(self.digits)]:
                    found.append(int(file.parent.name))
        return found
