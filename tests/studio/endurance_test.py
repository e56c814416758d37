#!/usr/bin/env python3
"""Studio when much is asked of it: more tabs than a browser has connections, and studio killed again and again while a
run that it shows goes on."""

import re
import signal
import subprocess
import unittest

import browser
import runs

TABS = 50 if runs.IS_LONG else 12  # Chromium opens six connections to a server
LIVES = 20 if runs.IS_LONG else 5


def names_in(folder):
    """The kinds of files in a run folder: their names without numbers."""
    return {re.sub(r"\d+", "N", str(path.relative_to(folder))) for path in folder.rglob("*")}


class Endurance(runs.TestFolders, unittest.TestCase):
    def setUp(self):
        self.root = self.folder / self.id().rsplit(".", 1)[1]
        self.root.mkdir()

    def test_all_tabs_of_a_browser_hear_of_a_new_run(self):
        browser.write_run(self.root / "first", [1.0, 0.5])
        server, chromium = browser.Server(self.root, folder=self.folder), browser.Browser()
        try:
            pages = [chromium.open(server)]
            pages += [chromium.context.new_page() for _ in range(TABS - 1)]
            for page in pages[1:]:
                page.goto(server.base)
            for page in pages:
                page.wait_for_selector("tbody bdi:text-is('first')")
            browser.write_run(self.root / "second", [1.0, 0.5])
            for page in pages:
                page.wait_for_selector("tbody bdi:text-is('second')", timeout=60_000)
            answer = pages[-1].evaluate("fetch('/api/runs').then(answer => answer.json())")
            self.assertEqual({run["name"] for run in answer["runs"]}, {"first", "second"})
            self.assertEqual(chromium.complaints, [])
        finally:
            chromium.close()
            server.close()

    def train(self, output, *more):
        return runs.command("train", self.digits, "--output", output, *runs.SMALL, "--network", "mlp", "--workers", "1", *more)

    def test_a_run_loses_nothing_when_studio_is_killed(self):
        run = self.root / "run"
        training = subprocess.Popen(self.train(run, "--max-epochs", "1000000"), stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)
        try:
            runs.wait_for(lambda: runs.steps_done(run) > 0)
            for life in range(LIVES):
                before = runs.steps_done(run)
                server = browser.Server(self.root, folder=self.folder)
                client = browser.Client(server)
                run_id = client.run_ids()["run"]
                if life == LIVES // 2:
                    client.post("/api/request", {"id": run_id, "request": "checkpoint"})
                self.assertEqual(client.get(f"/api/run?id={run_id}")["state"], "running")
                client.get(f"/api/curves?ids={run_id}&names=step.loss")
                server.process.send_signal(signal.SIGKILL)
                server.process.wait(20)
                server.process.stdout.close()
                runs.wait_for(lambda: runs.steps_done(run) > before)
            server = browser.Server(self.root, folder=self.folder)
            client = browser.Client(server)
            client.post("/api/request", {"id": client.run_ids()["run"], "request": "finish"})
            self.assertEqual(training.wait(60), 0)
            server.close()
        finally:
            training.kill()
            training.wait()
        events = runs.events(run)
        self.assertEqual([event["sequence"] for event in events], list(range(len(events))))
        self.assertEqual(events[-1]["kind"], "end")
        self.assertIn("checkpoint", {event["values"].get("request") for event in runs.of_kind(run, "request")})
        # The same training that nobody looked at, as far as it goes.
        alone = self.root / "alone"
        with subprocess.Popen(self.train(alone, "--max-epochs", "1000000"), stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT):
            runs.wait_for(lambda: runs.steps_done(alone) > 500)
            runs.run("stop", alone, "--finish", "--wait")
        losses = {event["step"]: event["values"]["loss"] for event in runs.of_kind(run, "step")}
        common = [event for event in runs.of_kind(alone, "step") if event["step"] in losses]
        self.assertGreater(len(common), 1)
        for event in common:
            self.assertEqual(losses[event["step"]], event["values"]["loss"], event["step"])
        asked_for = ("requests", "checkpoints/")  # by the page
        self.assertEqual({name for name in names_in(run) - names_in(alone) if not name.startswith(asked_for)}, set())


if __name__ == "__main__":
    unittest.main(verbosity=2)
