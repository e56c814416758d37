#!/usr/bin/env python3
"""What runs on the machines of a cluster: the watchdog in real time, and the service for the notice of spot machines.

usage: cloud_watchdog_test.py
"""

import http.server
import json
import os
import pathlib
import subprocess
import threading
import time
import unittest

import runs


def tool(folder, name, text):
    path = pathlib.Path(folder) / name
    path.write_text("#!/bin/bash\n" + text)
    path.chmod(0o755)
    return path


class Watchdog(unittest.TestCase):
    def setUp(self):
        folder = runs.temporary_folder()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.log = self.folder / "shared/jobs/1/run/events/rank-0-attempt-0.jsonl"
        self.log.parent.mkdir(parents=True)
        self.stopped = self.folder / "stopped"
        self.stop = tool(self.folder, "stop-cluster", f'echo "$*" >>"{self.stopped}"\n')
        self.words = [runs.PROGRAM, "cloud", "watchdog", self.folder / "shared", "--state", self.folder / "state.json",
                      "--stop-command", self.stop]

    def event(self, kind):
        with self.log.open("a", encoding="utf-8") as log:
            log.write(json.dumps({"kind": kind, "step": 1, "time": time.time(), "values": {}}) + "\n")

    def test_a_disk_on_which_nothing_can_be_written_does_not_keep_the_cluster_on(self):
        words = [str(word).replace("state.json", "none/state.json") for word in self.words]
        done = subprocess.run([*words, "--idle", "1s", "--every", "0.2"], capture_output=True, text=True, timeout=60,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("state.json", done.stderr)
        self.assertIn("no step, validation or checkpoint for", self.stopped.read_text())

    def test_a_run_that_only_lives_is_stopped_and_one_that_steps_is_not(self):
        watchdog = subprocess.Popen([*map(str, self.words), "--idle", "3s", "--every", "0.2"], stdout=subprocess.PIPE,
                                    text=True)
        self.addCleanup(watchdog.kill)
        begin = time.monotonic()
        while time.monotonic() - begin < 6:  # twice the limit
            self.event("step")
            time.sleep(0.3)
            self.assertIsNone(watchdog.poll())
        last = time.monotonic()
        while watchdog.poll() is None and time.monotonic() - last < 30:
            self.event("message")  # it lives, and its status file is written too
            (self.log.parents[1] / "status.json").write_text(json.dumps({"time": time.time(), "kind": "step"}))
            time.sleep(0.3)
        self.assertEqual(watchdog.wait(timeout=5), 0)
        self.assertGreater(time.monotonic() - last, 2)
        self.assertIn("no step, validation or checkpoint for", self.stopped.read_text())
        self.assertIn("stopping the cluster", watchdog.stdout.read())

    def test_the_budget_counts_what_slurm_says_is_on(self):
        tool(self.folder, "sinfo", 'printf "workers-dy-1 alloc\\nworkers-dy-2 mix#\\nworkers-dy-3 idle~\\n"\n')
        tool(self.folder, "squeue", "exit 0\n")
        environment = {**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}"}
        words = [*map(str, self.words), "--slurm", "--idle", "0", "--budget", "10", "--machine-price", "5", "--head-price",
                 "0.5"]
        subprocess.run(words, env=environment, check=True)
        state = json.loads((self.folder / "state.json").read_text())
        state["looked"] -= 1800  # half an hour ago
        (self.folder / "state.json").write_text(json.dumps(state))
        subprocess.run(words, env=environment, check=True)
        self.assertAlmostEqual(json.loads((self.folder / "state.json").read_text())["spent"], 10.5 / 2, places=1)
        self.assertFalse(self.stopped.exists())
        state["looked"] -= 3600
        (self.folder / "state.json").write_text(json.dumps(state))
        subprocess.run(words, env=environment, check=True)
        self.assertIn("the budget is $10.00", self.stopped.read_text())

    def test_the_budget_counts_while_slurm_does_not_answer(self):
        tool(self.folder, "sinfo", 'printf "workers-dy-1 alloc\\nworkers-dy-2 alloc\\n"\n')
        tool(self.folder, "squeue", "exit 0\n")
        environment = {**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}"}
        words = [*map(str, self.words), "--slurm", "--idle", "0", "--budget", "10", "--machine-price", "5"]
        subprocess.run(words, env=environment, check=True)
        tool(self.folder, "sinfo", "echo Unable to contact slurm controller >&2; exit 1\n")
        state = json.loads((self.folder / "state.json").read_text())
        state["looked"] -= 3600
        (self.folder / "state.json").write_text(json.dumps(state))
        done = subprocess.run(words, env=environment, check=True, capture_output=True, text=True)
        self.assertIn("warning: sinfo ended with status 1", done.stderr)
        self.assertIn("the budget is $10.00", self.stopped.read_text())

    def test_a_stop_that_fails_is_tried_again(self):
        tool(self.folder, "stop-cluster", "echo not now >&2; exit 3\n")
        state = self.folder / "state.json"
        subprocess.run([*map(str, self.words), "--idle", "1s"], check=True)
        time.sleep(1.2)
        failed = subprocess.run([*map(str, self.words), "--idle", "1s"], capture_output=True, text=True, check=False)
        self.assertEqual(failed.returncode, 1)
        self.assertIn("status 3: not now", failed.stderr)
        tool(self.folder, "stop-cluster", f'touch "{self.stopped}"\n')
        subprocess.run([*map(str, self.words), "--idle", "1s"], check=True)
        self.assertTrue(self.stopped.exists() and state.exists())

    def test_damaged_state_begins_anew(self):
        (self.folder / "state.json").write_text("{\"looked\": \"x")
        subprocess.run([*map(str, self.words), "--idle", "60s"], check=True)
        self.assertGreater(json.loads((self.folder / "state.json").read_text())["looked"], 1e9)


class SpotNotice(unittest.TestCase):
    def test_the_notice_is_a_preemption(self):
        notice = threading.Event()
        tokens = []

        class Metadata(http.server.BaseHTTPRequestHandler):
            def do_PUT(self):
                self.say(200, b"token-1")

            def do_GET(self):
                tokens.append(self.headers.get("X-aws-ec2-metadata-token"))
                self.say(200 if notice.is_set() else 404, b'{"action": "terminate"}')

            def say(self, status, text):
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_):
                pass

        with runs.temporary_folder() as folder, http.server.ThreadingHTTPServer(("127.0.0.1", 0), Metadata) as service:
            threading.Thread(target=service.serve_forever, daemon=True).start()
            said = pathlib.Path(folder) / "said"
            tool(folder, "squeue", 'echo "squeue $*" >>"$SAID"; printf "7\\n9\\n"\n')
            for name in ("scancel", "scontrol"):
                tool(folder, name, f'echo "{name} $*" >>"$SAID"\n')
            process = subprocess.Popen(
                ["bash", runs.ROOT / "src/lockstep/cloud/scripts/spot-notice.sh",
                 f"http://127.0.0.1:{service.server_port}", "0.1"], stdout=subprocess.PIPE, text=True,
                env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "SAID": str(said),
                     "SLURMD_NODENAME": "workers-dy-1"})
            self.addCleanup(process.kill)
            time.sleep(1)
            self.assertIsNone(process.poll())
            self.assertFalse(said.exists())
            notice.set()
            self.assertIn("job 7 saves", process.communicate(timeout=20)[0])
            self.assertEqual(set(tokens), {"token-1"})
            self.assertEqual(said.read_text().splitlines(),
                             ["squeue -h -t running -w workers-dy-1 -o %A", "scancel --batch --signal=USR1 7",
                              "scancel --batch --signal=USR1 9",
                              "scontrol update NodeName=workers-dy-1 State=DRAIN Reason=spot notice"])
            service.shutdown()


if __name__ == "__main__":
    unittest.main()
