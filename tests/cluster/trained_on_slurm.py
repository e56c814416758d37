"""digits_cnn trained on a real Slurm of three nodes or more, its weights on one thread, and what can happen to it."""

import contextlib
import os
import pathlib
import signal
import time

import jobs_on_slurm
import runs

# Long enough to be stopped in the middle. Where ranks share cores, meetings for batch norms are most of a step: batch
# norms span ranks here only with --long.
OPTIONS = [*runs.SMALL, *([] if runs.IS_LONG else runs.NO_MEETINGS), "--network", "digits_cnn", "--gradient-clip", "1",
           "--augment", "shift"]
EPOCHS = ["--max-epochs", "60"]
NODES = {"nodes": 2, "workers": 4}
STEP = 30  # of 420: in mid-epoch


class TrainedOnSlurm(runs.TestFolders):
    MACHINES = 3
    SIZE = NODES
    trainings = 0

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.expected = cls.train_alone("alone", EPOCHS)
        cls.cluster = jobs_on_slurm.Cluster(count=cls.MACHINES)
        cls.enterClassContext(cls.cluster)
        for node in range(cls.MACHINES):
            cls.cluster.know(node, cls.names())

    @classmethod
    def names(cls):
        return {f"machine-{node}": cls.cluster.address(node) for node in range(cls.MACHINES)}

    @classmethod
    def train_alone(cls, name, epochs):
        runs.train(cls.digits, cls.folder / name, *OPTIONS, *epochs, "--workers", "1")
        return runs.weights(cls.folder / name)

    def start(self, name, epochs=tuple(EPOCHS), **keys):
        TrainedOnSlurm.trainings += 1
        return self.cluster.train(self.folder / "jobs", f"{name}-{self.trainings}", self.digits, *OPTIONS, *epochs,
                                  **{**self.SIZE, **keys})

    def check(self, job, ends, expected=None):
        """That the job ended well after attempts that ended so, with the weights of one thread."""
        self.assertEqual(job.wait_until_over()["end"], "ended", job.said())
        self.assertEqual([result["end"] for result in job.attempts_ended()], ends, job.said())
        self.assertEqual(runs.weights(job.run), expected or self.expected)
        steps = [result["step"] for result in job.attempts_ended()]
        self.assertEqual(steps, sorted(steps), "an attempt goes on where the last one stopped")

    def nodes_of(self, job):
        """Numbers of the machines on which it runs; the first has its batch script."""
        names = self.cluster.ask("squeue", "-h", "-j", job.id, "-o", "%N")
        return [int(name.rsplit("-", 1)[1]) for name in self.cluster.ask("scontrol", "show", "hostnames", names).split()]

    def ranks_of(self, job):
        found = []
        for file in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                words = file.read_bytes().decode().split("\0")
                if words[1:2] == ["train"] and str(job.run) in words:
                    found.append(int(file.parent.name))
        return found

    @contextlib.contextmanager
    def standing_still(self, job):
        """Its ranks make no step, so that the training does not end before Slurm has done its part."""
        ranks = self.ranks_of(job)
        self.assertEqual(len(ranks), self.SIZE["workers"], "they still run")
        for rank in ranks:
            os.kill(rank, signal.SIGSTOP)
        try:
            yield
        finally:
            for rank in ranks:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(rank, signal.SIGCONT)

    def wait_for_second_attempt(self, job):
        """Or for its time, which Slurm sets to two minutes from now."""
        job.wait(lambda: (job.folder / "attempt-2").exists() or
                 "BeginTime" in self.cluster.ask("squeue", "-h", "-t", "all", "-j", job.id, "-o", "%r"),
                 "the second attempt")

    def wait_for_nodes(self):
        """Slurm has steps of a job end on its own whose messages nobody takes any more, and asks a node that was down
        only now and then."""
        self.cluster.wait("the nodes again", lambda: self.cluster.idle_nodes() == self.MACHINES, seconds=90)

    def at_the_time_limit(self):
        """Slurm looks every half a minute whose limit is near, and allows no limit below a minute. The ranks stand still
        until then, and not longer. The profile asks for a signal that Slurm could send before the script can take it."""
        job = self.start("limit", time="1", **{"signal-before": 55})
        job.wait_for_step(STEP)
        with self.standing_still(job):
            job.wait(lambda: "the time limit is near" in (job.folder / "slurm.log").read_text(),
                     "the signal before the limit")
        self.assertEqual(job.wait_until_over()["end"], "ended", job.said())
        # A later attempt may be near its limit, too, when Slurm looks.
        *stopped, last = [result["end"] for result in job.attempts_ended()]
        self.assertEqual((set(stopped), last), ({"stopped"}, "ended"), job.said())
        self.assertIn("saved before the time limit", job.attempts_ended()[0]["reason"])
        return job.run

    def preempted(self):
        job = self.start("preempted")
        job.wait_for_step(STEP)
        with self.standing_still(job):
            urgent = self.cluster.submit(self.folder / "jobs", f"urgent-{job.id}", "program", "/bin/true",
                                         partition="urgent", nodes=self.MACHINES, options=["--exclusive"])
            time.sleep(2)  # Slurm looks once a second what it can start
        self.assertEqual(urgent.wait_until_over()["end"], "ended", urgent.said())
        self.check(job, ["stopped", "ended"])
        return job.run

    def with_a_dead_node(self):
        job = self.start("dead-node")
        job.wait_for_step(STEP)
        node = self.nodes_of(job)[-1]
        self.assertNotEqual(node, 0, "the controller's")
        self.cluster.crash(node)
        self.wait_for_second_attempt(job)
        self.cluster.restart(node)
        self.cluster.know(node, self.names())
        self.wait_for_nodes()
        self.assertEqual(job.wait_until_over()["end"], "ended", job.said())
        self.assertEqual(runs.weights(job.run), self.expected)
        return job.run
