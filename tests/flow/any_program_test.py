#!/usr/bin/env python3
"""The program on the page docs/run-folder.md writes a record that is read in C++ (LOCKSTEP_READ_RECORD)."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
READER = os.environ.get("LOCKSTEP_READ_RECORD", ROOT / "build/release/bin/lockstep_read_record")
PAGE = (ROOT / "docs/run-folder.md").read_text()
RECORD, EXAMPLE = re.findall(r"```python\n(.*?)```", PAGE.split("## Write a record from any program")[1], re.DOTALL)[:2]


class AnyProgram(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory(prefix="lockstep-test-")
        self.addCleanup(self.temporary.cleanup)
        self.run_folder = pathlib.Path(self.temporary.name, "run")

    def start(self, *lines):
        """Python that runs the page's class and then these lines, where run is the folder."""
        program = "\n".join([RECORD, f"run = {str(self.run_folder)!r}", *lines])
        return subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True)

    def finish(self, *lines):
        process = self.start(*lines)
        process.communicate(timeout=60)
        return process.returncode

    def read(self):
        done = subprocess.run([READER, self.run_folder], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_the_pages_training(self):
        self.assertEqual(self.finish(EXAMPLE.replace('"runs/mine-001"', "run")), 0)
        found = self.read()
        self.assertEqual([found[key] for key in ("state", "reason", "attempt", "step", "total_steps")],
                         ["ended", "finished", 0, 3, 3])
        self.assertEqual([event["kind"] for event in found["events"]],
                         ["plan", "step", "step", "step", "validation", "end"])
        self.assertEqual(found["events"][0]["values"]["network"], "my_net")
        self.assertEqual(found["events"][2]["values"]["loss"], 0.5)
        self.assertEqual((self.run_folder / "status.json").stat().st_size, 4096)

    def test_numbers_that_json_lacks(self):
        self.finish("with RunRecord(run) as record:",
                    "    record.event('step', 1, 1, loss=float('nan'), accuracy=float('-inf'))")
        self.assertEqual(self.read()["events"][1]["values"], {"loss": "nan", "accuracy": "-inf"})

    def test_an_error(self):
        self.assertEqual(self.finish("with RunRecord(run) as record:", "    record.event('step', 1, 1, loss=2.0)",
                                     "    raise ValueError('no such image ' + 5000 * 'ä')"), 1)
        found = self.read()
        self.assertEqual(found["state"], "failed")
        self.assertIn("no such image", found["reason"])
        self.assertEqual(found["events"][-1]["kind"], "failed")

    def test_kills_stops_and_another_attempt(self):
        wait = ("with RunRecord(run) as record:", "    record.event('step', {}, 1, loss=2.0)",
                "    print('ready', flush=True)", "    time.sleep(100)")
        for attempt, (number, state) in enumerate([(signal.SIGKILL, "lost"), (signal.SIGINT, "stopped")]):
            process = self.start(*(line.format(attempt + 1) for line in wait))
            self.assertEqual(process.stdout.readline(), "ready\n")
            self.assertEqual(self.read()["state"], "running")
            process.send_signal(number)
            process.communicate(timeout=60)
            found = self.read()
            self.assertEqual((found["state"], found["attempt"]), (state, attempt))
        self.assertEqual([event["step"] for event in found["events"] if event["kind"] == "step"], [1, 2])


if __name__ == "__main__":
    unittest.main()
