#!/usr/bin/env python3
"""What studio answers without a browser: requests and folders that nobody means well with get one clear sentence, and
the stream of events tells when a command has ended."""

import fcntl
import json
import os
import signal
import threading
import unittest
import urllib.error

import browser
import runs

SWEEP = {"command": ["sh", "{x}"], "parameters": {"x": "1..3"}}


class Answers(runs.TestFolders, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.root = cls.folder / "roots"
        browser.write_run(cls.root / "calm", [1.0, 0.5])
        browser.write_run(cls.root / "odd", [1.0, 0.5], arguments={"a": 1, "b": 2})
        for name in ("device", "pipe", "log", "fine", "slow"):
            (cls.root / "sweeps" / name).mkdir(parents=True)
        (cls.root / "sweeps/device/sweep.json").symlink_to("/dev/zero")
        os.mkfifo(cls.root / "sweeps/pipe/sweep.json")
        for name in ("log", "fine", "slow"):
            (cls.root / "sweeps" / name / "sweep.json").write_text(json.dumps(SWEEP), encoding="utf-8")
        (cls.root / "sweeps/log/log.jsonl").symlink_to("/dev/zero")
        (cls.root / "calm/report.html").symlink_to("/dev/zero")
        cls.server = browser.Server(cls.root, folder=cls.folder)
        cls.client = browser.Client(cls.server)
        cls.ids = cls.client.run_ids()

    @classmethod
    def tearDownClass(cls):
        cls.server.close()
        super().tearDownClass()

    def refusal(self, ask, *request):
        """The status and the sentence of a request that is refused."""
        with self.assertRaises(urllib.error.HTTPError) as caught:
            ask(*request)
        with caught.exception as answer:
            return answer.code, json.load(answer)["error"]

    def test_what_is_no_file_is_refused(self):
        sweeps = {sweep["name"]: sweep for sweep in self.client.get("/api/sweeps")}
        self.assertNotIn("error", sweeps["sweeps/fine"])
        for name, file in (("device", "sweep.json"), ("pipe", "sweep.json"), ("log", "log.jsonl")):
            self.assertIn(f'{name}/{file}" is no regular file', sweeps["sweeps/" + name]["error"])
        status, error = self.refusal(self.client.get, "/api/report?id=" + self.ids["calm"])
        self.assertEqual((status, error.split('" ')[1]), (400, "is no regular file"))
        self.assertFalse(self.client.get("/api/run?id=" + self.ids["calm"])["has_report"])

    def test_a_slow_folder_of_a_sweep_holds_no_other_request(self):
        ids = {sweep["name"]: sweep["id"] for sweep in self.client.get("/api/sweeps")}
        lock = self.root / "sweeps/slow/lock"
        lock.touch()
        listings = [threading.Thread(target=self.client.get, args=("/api/sweeps",)) for _ in range(10)]
        signal.signal(signal.SIGIO, signal.SIG_IGN)
        with open(lock, "r+b") as held:
            fcntl.fcntl(held, fcntl.F_SETLEASE, fcntl.F_WRLCK)  # who opens the file waits
            for listing in listings:
                listing.start()
            runs.wait_for(lambda: fcntl.fcntl(held, fcntl.F_GETLEASE) != fcntl.F_WRLCK)
            self.assertEqual(len(self.client.get("/api/runs")["runs"]), 2)
            self.assertEqual(self.client.get("/api/sweep?id=" + ids["sweeps/fine"])["name"], "sweeps/fine")
            self.assertTrue(all(listing.is_alive() for listing in listings))
        for listing in listings:
            listing.join()

    def test_a_sweep_has_the_number_of_trials_that_it_will_have(self):
        sweeps = {sweep["name"]: sweep for sweep in self.client.get("/api/sweeps")}
        fine = sweeps["sweeps/fine"]
        self.assertEqual((fine["trials"], fine["count"]), (0, 20), "as lockstep sweep has it without --count")
        self.assertEqual(self.client.get("/api/sweep?id=" + fine["id"])["count"], 20)

    def test_a_command_that_is_only_shown_writes_nothing(self):
        network = {"name": "drawn", "layers": [{"type": "flatten"}, {"type": "linear", "features": "classes"}]}
        bodies = [{"command": "train", "data": "/data", "network": network}, {"command": "network show", "network": network},
                  {"command": "export", "word": "drawn.onnx", "network": network}]
        before = sorted(self.root.iterdir())
        words = [self.client.post("/api/shown", body)["words"] for body in bodies]
        self.assertEqual(sorted(self.root.iterdir()), before)
        self.assertRegex(words[0][3], r"--network=.*/networks/data-\w{8}\.json$")
        for shown in words[1:]:
            self.assertRegex(" ".join(shown), r"/networks/network-\w{8}\.json")
        self.client.post("/api/command", bodies[2])
        self.assertEqual([path.name for path in (self.root / "networks").iterdir()], [words[2][2].rpartition("/")[2]])

    def test_a_value_of_another_type_is_named(self):
        train = {"command": "train", "data": "/data"}
        layer = {"command": "layer show", "id": self.ids["calm"]}
        sweep = {"command": "sweep", "data": "/data", "parameters": [{"name": "seed", "values": "1,2"}]}
        for body, field in (({**train, "data": 5}, "data"), ({**train, "name": None}, "name"), ({**train, "as_job": "yes"}, "as_job"),
                            ({**train, "options": {"seed": 5}}, "seed"), ({**layer, "data": []}, "data"), ({**sweep, "network": {}}, "network"),
                            ({"command": 5}, "command")):
            status, error = self.refusal(self.client.post, "/api/shown", body)
            self.assertEqual((status, error.split()[0]), (400, f'"{field}"'), body)
        for options in (5, None, "text", []):
            status, error = self.refusal(self.client.post, "/api/shown", {**train, "options": options})
            self.assertEqual(status, 400)
            self.assertIn("the options of lockstep train must be an object", error)

    def test_a_run_whose_log_says_odd_things_is_shown(self):
        self.assertEqual(self.client.get("/api/run?id=" + self.ids["odd"])["state"], "ended")

    def test_the_end_of_a_command_is_told(self):
        with self.client.opener.open(self.server.base + "api/stream", timeout=60) as stream:
            number = self.client.post("/api/command", {"command": "cluster validate", "word": "nothing"})["number"]
            heard = beats = 0
            while heard < 2:  # its start and its end
                line = stream.readline().decode()
                heard += line.startswith("data:") and json.loads(line[5:]) == {"number": number}
                beats += line.startswith(":")
                self.assertLess(beats, 5, "nothing is told any more")
                self.assertNotEqual(line, "", "the stream has ended")
        self.assertIn("status", self.client.get(f"/api/command?number={number}"))

    def test_a_curve_has_the_numbers_that_were_logged(self):
        asked = f"/api/curves?ids={self.ids['calm']}&names=validation.accuracy,step.learning_rate"
        self.assertEqual([curve["raw"]["y"][-1] for curve in self.client.get(asked)], [0.9, 0.01])


if __name__ == "__main__":
    unittest.main(verbosity=2)
