#!/usr/bin/env python3
"""Studio is killed with SIGKILL again and again while two runs go on, one of which it has started itself: their weights
and their logs are those of the same runs that nobody looked at. 3 kills; with LOCKSTEP_LONG=1, 20."""

import random
import signal
import subprocess
import time
import unittest

import browser
import runs

KILLS = 20 if runs.IS_LONG else 3
SECONDS_EACH = 2.5  # from one kill to the next, at most, on a machine of two cores
OPTIONS = {"recipe": "plain", "image-size": "12x12", "mini-batch-size": "32", "shards": "8", "patience": "0", "workers": "1",
           "hash-every": "20", "checkpoint-every": "50"}
NETWORKS = {"outside": "mlp", "inside": "digits_cnn"}
# What an undisturbed run logs too, whenever it was trained. Checkpoints that are due while another one is being written
# are left out, so their events depend on the disk.
SAME_KINDS = ("step", "validation", "hash")
SAME_VALUES = ("loss", "accuracy", "least_loss", "least_loss_step", "largest_loss", "largest_loss_step", "learning_rate", "samples", "best", "weights")
ASKED = ("/api/runs", "/api/run?id={id}", "/api/curves?ids={id}&names=step.loss,validation.loss", "/api/commands", "/api/sweeps")


def said(run):
    return [(event["kind"], event["step"], event["epoch"], {name: event["values"][name] for name in SAME_VALUES if name in event["values"]})
            for event in runs.events(run) if event["kind"] in SAME_KINDS]


class Kills(runs.TestFolders, unittest.TestCase):
    def options(self, epochs):
        return {**OPTIONS, "max-epochs": str(epochs)}

    def words(self, epochs):
        return [f"--{name}={value}" for name, value in self.options(epochs).items()]

    def epochs_for(self, seconds):
        """For each run so many epochs that it takes at least so long by itself."""
        epochs = {}
        for name, network in NETWORKS.items():
            trial = self.folder / f"trial-{name}"
            runs.train(self.digits, trial, "--network", network, *self.words(40))
            epochs[name] = max(40, int(seconds * 40 / runs.of_kind(trial, "end")[0]["values"]["seconds"]))
        return epochs

    def look_and_kill(self, root, pause):
        server = browser.Server(root, folder=self.folder)
        try:
            end = time.monotonic() + pause
            client = browser.Client(server)
            for name, run_id in client.run_ids().items():
                for path in ASKED:
                    client.get(path.format(id=run_id))
                self.assertIn(name, ("outside", "inside-001"))
            time.sleep(max(0.0, end - time.monotonic()))
        finally:
            server.process.send_signal(signal.SIGKILL)
            server.process.wait(20)
            server.process.stdout.close()

    def test_runs_lose_nothing(self):
        root = self.folder / "roots"
        root.mkdir()
        epochs = self.epochs_for(SECONDS_EACH * (KILLS + 1))
        outside, inside = root / "outside", root / "inside-001"
        training = subprocess.Popen(runs.command("train", self.digits, "--output", outside, "--network", NETWORKS["outside"], *self.words(epochs["outside"])),
                                    stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)
        try:
            server = browser.Server(root, folder=self.folder)
            answer = browser.Client(server).post("/api/command", {"command": "train", "data": str(self.digits), "network": NETWORKS["inside"],
                                                                 "name": "inside", "options": self.options(epochs["inside"])})
            self.assertIn(f"--output={inside}", answer["words"])
            self.addCleanup(subprocess.run, runs.command("stop", inside), capture_output=True, check=False)  # it outlives a failed test
            runs.wait_for(lambda: runs.steps_done(inside) > 0 and runs.steps_done(outside) > 0)
            server.process.send_signal(signal.SIGKILL)
            server.process.wait(20)
            server.process.stdout.close()
            draw = random.Random(1)
            for _ in range(KILLS - 1):
                self.look_and_kill(root, draw.uniform(0, 1))
            for run in (outside, inside):
                self.assertEqual(runs.of_kind(run, "end"), [], f"{run.name} ended before the last kill")
            self.assertEqual(training.wait(600), 0)
            runs.wait_for(lambda: runs.of_kind(inside, "end"), 600)
        finally:
            training.kill()
            training.wait()
        for name, run in (("outside", outside), ("inside", inside)):
            events = runs.events(run)
            self.assertEqual([event["sequence"] for event in events], list(range(len(events))))
            alone = self.folder / f"alone-{run.name}"
            runs.train(self.digits, alone, "--network", NETWORKS[name], *self.words(epochs[name]))
            runs.wait_for((run / "result.json").exists)
            self.assertEqual(runs.weights(run), runs.weights(alone), run.name)
            self.assertGreater(len(said(alone)), 40)
            self.assertEqual(said(run), said(alone), run.name)
            self.assertEqual({path.name for path in run.iterdir()} - {"requests", "lock"}, {path.name for path in alone.iterdir()} - {"requests", "lock"})
        server = browser.Server(root, folder=self.folder)
        client = browser.Client(server)
        for run_id in client.run_ids().values():
            self.assertEqual(client.get(f"/api/run?id={run_id}")["state"], "ended")
        server.close()
        print(f"{KILLS} kills while two runs made {runs.steps_done(outside):,} and {runs.steps_done(inside):,} steps", flush=True)


if __name__ == "__main__":
    unittest.main(verbosity=2)
