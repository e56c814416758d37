#!/usr/bin/env python3
"""lockstep runs, runs show, runs remove and stop on run folders that this file writes by hand.

usage: run_list_test.py
"""

import contextlib
import fcntl
import json
import os
import pathlib
import pty
import shutil
import signal
import struct
import subprocess
import termios
import threading
import time
import unittest

import runs


def identity(process=None):
    """A writer as status.json names it: this process, or one that is gone."""
    fields = pathlib.Path("/proc/self/stat").read_text().rsplit(")", 1)[1].split()
    return {"host": os.uname().nodename, "boot": pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
            "process_space": os.readlink("/proc/self/ns/pid"), "process": process or os.getpid(),
            "process_start": int(fields[19])}


def write_status(run, state, reason="", writer=None, step=20):
    run.mkdir(parents=True, exist_ok=True)
    status = {"state": state, "reason": reason, "attempt": 0, "step": step, "epoch": 1, "total_steps": 20,
              "started": time.time() - 100, "written": time.time(), "writer": writer or identity()}
    (run / "status.part").write_text(json.dumps(status) + "\n")
    (run / "status.part").rename(run / "status.json")


def add_event(run, kind, step=0, attempt=0, **values):
    (run / "events").mkdir(parents=True, exist_ok=True)
    with open(run / "events" / f"rank-0-attempt-{attempt}.jsonl", "a", encoding="utf-8") as log:
        log.write(json.dumps({"kind": kind, "step": step, "epoch": 1, "time": time.time(), "attempt": attempt,
                              "values": values}) + "\n")


def write_run(run, state="ended", reason="finished", accuracy=0.5, network="lenet", **status):
    add_event(run, "plan", network=network, folder="/data/photos", total_steps=20,
              lines=[["mini-batch", "128", "16 per shard"]])
    add_event(run, "environment", arguments=["lockstep", "train", "my photos", "--output", str(run)], version="9.9",
              host="somewhere", data="/data/my photos", working_folder="/home/me", cores=4, gpus=[])
    add_event(run, "step", step=20, loss=0.25)
    add_event(run, "validation", step=20, accuracy=accuracy, loss=0.5, best=True)
    (run / "model.safetensors").write_bytes(b"x" * 2048)
    write_status(run, state, reason, **status)


def listed(*arguments):
    return {pathlib.Path(run["folder"]).name: run for run in json.loads(runs.run("runs", *arguments, "--json"))}


@contextlib.contextmanager
def running(run, answers=True):
    """A run whose program takes requests as a training does."""
    write_run(run, "running", "")
    stop = threading.Event()
    taken = []

    def work():
        while not stop.wait(0.05):
            for file in sorted((run / "requests").glob("*.json")):
                request = json.loads(file.read_text())
                taken.append(request)
                file.unlink()
                if not answers:
                    continue
                add_event(run, "request", step=20, request=request["request"], id=file.stem, answer="did it")
                if request["request"] in ("stop", "finish"):
                    write_status(run, "stopping")
                    time.sleep(0.3)
                    write_status(run, "stopped" if request["request"] == "stop" else "ended", "as asked")

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield taken
    finally:
        stop.set()
        thread.join()


@contextlib.contextmanager
def started(*arguments):
    """The program, which does not outlive a test that fails."""
    with subprocess.Popen(runs.command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True) as process:
        try:
            yield process
        finally:
            process.kill()


class Terminal:
    """The program on a terminal of so many columns."""

    def __init__(self, columns, *arguments, cwd=None):
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 20, columns, 0, 0))
        self.process = subprocess.Popen(runs.command(*arguments), stdin=slave, stdout=slave, stderr=slave, cwd=cwd,
                                        start_new_session=True)
        os.close(slave)
        self.text = ""

    def read_until(self, what):
        while what not in self.text and self._read():
            pass
        return self.text

    def _read(self):
        try:
            more = os.read(self.master, 65536)
        except OSError:
            return False
        self.text += more.decode(errors="replace")
        return bool(more)

    def send(self, text):
        os.write(self.master, text.encode())

    def end(self):
        while self._read():
            pass
        os.close(self.master)
        return self.process.wait(timeout=runs.SECONDS_PER_RUN)


class Folders(unittest.TestCase):
    def setUp(self):
        self.temporary = runs.temporary_folder()
        self.addCleanup(self.temporary.cleanup)
        self.root = pathlib.Path(self.temporary.name) / "runs"
        self.root.mkdir()


class List(Folders):
    def test_each_state_has_its_reason(self):
        write_run(self.root / "good", accuracy=0.875)
        write_run(self.root / "bad", "failed", "the disk is full")
        write_run(self.root / "gone", "running", "", writer=identity(process=2**22 - 3))
        write_run(self.root / "on", "running", "")
        write_run(self.root / "away", "running", "", writer={**identity(), "host": "elsewhere", "boot": "another"})
        found = listed(self.root)
        self.assertEqual({name: run["state"] for name, run in found.items()},
                         {"good": "ended", "bad": "failed", "gone": "lost", "on": "running", "away": "running"})
        self.assertEqual(found["good"]["accuracy"], 0.875)
        self.assertEqual(found["good"]["network"], "lenet")
        self.assertEqual(found["good"]["data"], "/data/my photos")
        self.assertEqual((found["good"]["step"], found["good"]["total_steps"]), (20, 20))
        self.assertGreater(found["good"]["bytes"], 2048)
        printed = runs.run("runs", self.root)
        self.assertRegex(printed, r"bad +failed .* the disk is full\n")
        self.assertRegex(printed, r"gone +lost .* the process is gone\n")
        self.assertRegex(printed, r"5 runs: 2 running, 1 ended, 1 failed, 1 lost; ")
        # A machine that went away: nothing was written for longer than a run is silent.
        old = time.time() - 1000
        for file in [self.root / "away/status.json", *(self.root / "away/events").iterdir()]:
            os.utime(file, (old, old))
        self.assertEqual(listed(self.root)["away"]["state"], "lost")
        self.assertIn("it ran on elsewhere", listed(self.root)["away"]["reason"])

    def test_sort_filter_and_limit(self):
        for number, accuracy in enumerate((0.3, 0.9, 0.6)):
            write_run(self.root / f"run-{number}", accuracy=accuracy, network=("lenet", "resnet18", "lenet")[number])
        write_run(self.root / "broken", "failed", "no memory")

        def names(*arguments):
            return [pathlib.Path(run["folder"]).name
                    for run in json.loads(runs.run("runs", self.root, "--json", *arguments))]

        self.assertEqual(names("--sort", "accuracy", "--filter", "state=ended"), ["run-0", "run-2", "run-1"])
        self.assertEqual(names("--sort", "accuracy", "--limit", 1), ["run-1"])
        self.assertEqual(names("--sort", "run", "--filter", "network=lenet state=ended"), ["run-0", "run-2"])
        self.assertEqual(names("--filter", "memory"), ["broken"])
        self.assertEqual(names("--filter", "state=fail"), [])
        self.assertIn("cannot choose by", runs.run("runs", self.root, "--filter", "nework=lenet", status=2))

    def test_a_folder_without_runs(self):
        for arguments in ([], [self.root]):
            done = subprocess.run(runs.command("runs", *arguments), cwd=self.root, capture_output=True, text=True,
                                  check=True)
            self.assertIn("there are no runs in", done.stdout)
            self.assertIn("hint: ", done.stdout)
        self.assertEqual(runs.run("runs", self.root, "--json"), "[\n]\n")
        self.assertIn("there is no folder", runs.run("runs", self.root / "none", status=1))

    def test_the_working_folder_has_its_runs_in_runs(self):
        write_run(self.root / "one")
        done = subprocess.run(runs.command("runs"), cwd=self.root.parent, capture_output=True, text=True, check=True)
        self.assertIn("runs/one ", done.stdout)

    def test_it_fits_a_terminal(self):
        write_run(self.root / ("a-very-long-name-" * 6), "failed", "a long reason " * 30)
        write_run(self.root / "short")
        for columns in (60, 80, 120, 200):
            terminal = Terminal(columns, "runs", self.root)
            self.assertEqual(terminal.end(), 0)
            self.assertLessEqual(max(len(line) for line in terminal.text.splitlines()), columns, terminal.text)

    def test_hostile_folders_do_no_harm(self):
        write_run(self.root / "good")
        write_run(self.root / "evil\x1b[2Jname\n", "failed", "\x1b]0;owned\x07")
        write_run(self.root / "junk")
        for name in ("options.json", "result.json", "status.json", "events/rank-0-attempt-0.jsonl"):
            (self.root / "junk" / name).write_bytes(os.urandom(100_000))
        write_run(self.root / "deep")
        for name in ("options.json", "result.json", "status.json"):
            (self.root / "deep" / name).write_text("[" * 1_000_000)
        write_run(self.root / "huge")
        for name in ("options.json", "result.json", "status.json", "events/rank-0-attempt-0.jsonl"):
            with open(self.root / "huge" / name, "a", encoding="utf-8") as file:
                file.truncate(2**36)
        write_run(self.root / "pipes")
        for name in ("status.json", "events/rank-0-attempt-0.jsonl"):
            (self.root / "pipes" / name).unlink()
            os.mkfifo(self.root / "pipes" / name)
        start = time.monotonic()
        printed = runs.run("runs", self.root)
        self.assertNotIn("\x1b", printed)
        self.assertNotIn("\x07", printed)
        self.assertRegex(printed, r"good +ended")
        for name in ("junk", "deep", "huge", "pipes"):
            self.assertIn(name, printed)
        for folder in self.root.iterdir():
            done = subprocess.run(runs.command("runs", "show", folder), capture_output=True, check=False,
                                  timeout=runs.SECONDS_PER_RUN)
            self.assertIn(done.returncode, (0, 1), done.stderr)
            self.assertNotIn(b"\x1b", done.stdout)
        self.assertLess(time.monotonic() - start, 60)

    def test_old_runs_and_runs_of_other_programs(self):
        add_event(self.root / "other", "step", step=3, loss=0.5)
        add_event(self.root / "other", "end", step=3, reason="finished", seconds=2, accuracy=0.5)
        found = listed(self.root)["other"]
        self.assertEqual((found["state"], found["step"], found["seconds"]), ("ended", 3, 2))
        self.assertIn("training loss  0.5", runs.run("runs", "show", self.root / "other").replace("   ", "  "))


class Watch(Folders):
    def test_changes_are_lines_where_there_is_no_terminal(self):
        write_run(self.root / "one", "running", "")
        with started("runs", self.root, "--watch") as watch:
            self.assertIn("state", watch.stdout.readline())
            self.assertRegex(watch.stdout.readline(), "one +running .*20/20")
            write_status(self.root / "one", "failed", "no luck")
            self.assertRegex(watch.stdout.readline(), "one +failed .*no luck")
            watch.send_signal(signal.SIGINT)
            self.assertEqual(watch.wait(timeout=10), 0)

    def test_a_terminal_is_redrawn(self):
        for number in range(50):
            write_run(self.root / f"run-{number:02}")
        terminal = Terminal(100, "runs", self.root, "--watch")
        self.assertIn("50 runs: ", terminal.read_until("50 runs: "))
        self.assertLessEqual(terminal.text.count("run-"), 17)
        terminal.process.send_signal(signal.SIGINT)
        self.assertEqual(terminal.end(), 0)


class Show(Folders):
    def test_everything_about_a_run_that_stopped(self):
        run = self.root / "one"
        write_run(run, "stopped", "Ctrl-C")
        (run / "checkpoints/step-00000020").mkdir(parents=True)
        (run / "checkpoints/step-00000020/DONE").touch()
        (run / "checkpoints/.unfinished-1").mkdir()
        printed = runs.run("runs", "show", run)
        for words in ("stopped: Ctrl-C", "lenet", "/data/my photos", "20 of 20, epoch 1", "0.5000", "mini-batch",
                      "lockstep train 'my photos'", "9.9", "model.safetensors", "2.0 KB", "step-00000020",
                      f"lockstep train '/data/my photos' --output {run} --resume"):
            self.assertIn(words, printed)
        self.assertNotIn("unfinished", printed)
        shown = json.loads(runs.run("runs", "show", run, "--json"))
        self.assertEqual(shown["environment"]["version"], "9.9")
        self.assertEqual(shown["validations"][0]["accuracy"], 0.5)

    def test_what_is_no_run(self):
        self.assertIn("is not a run folder", runs.run("runs", "show", self.root, status=1))


class Remove(Folders):
    def test_needs_yes_without_a_terminal(self):
        run = self.root / "one"
        write_run(run)
        self.assertIn("add --yes", runs.run("runs", "remove", run, status=2))
        self.assertTrue(run.exists())
        self.assertIn("removed", runs.run("runs", "remove", run, "--yes"))
        self.assertFalse(run.exists())

    def test_asks_on_a_terminal(self):
        for answer, stays in (("n\n", True), ("\n", True), ("y\n", False)):
            write_run(self.root / "one")
            terminal = Terminal(100, "runs", "remove", "runs/one", cwd=self.root.parent)
            self.assertIn("KB)? [y/N] ", terminal.read_until("[y/N] "))
            terminal.send(answer)
            self.assertEqual(terminal.end(), 0)
            self.assertEqual((self.root / "one").exists(), stays)

    def test_refuses_all_if_one_is_running_or_no_run(self):
        write_run(self.root / "one")
        write_run(self.root / "on", "running", "")
        (self.root / "photos").mkdir()
        for other, words in (("on", "is running"), ("photos", "is not a run folder"), ("none", "No such file")):
            self.assertIn(words, runs.run("runs", "remove", self.root / "one", self.root / other, "--yes", status=2
                                          if other == "on" else 1))
            self.assertTrue((self.root / "one").exists())

    def test_other_files_stay(self):
        write_run(self.root / "one")
        (self.root / "one/notes.txt").touch()
        self.assertIn("notes.txt", runs.run("runs", "remove", self.root / "one", "--yes"))
        self.assertEqual(os.listdir(self.root / "one"), ["notes.txt"])


class Stop(Folders):
    def test_is_asked_and_waited_for(self):
        for option, request, state in (((), "stop", "stopped"), (("--finish",), "finish", "ended")):
            run = self.root / request
            with running(run) as taken:
                printed = runs.run("stop", run, *option, "--wait")
                self.assertIn(f"{request}: {state}: as asked, after step 20\n", printed)
                self.assertEqual(taken[0]["request"], request)
                self.assertIn("@", taken[0]["from"])

    def test_without_waiting(self):
        with running(self.root / "one", answers=False) as taken:
            self.assertIn("asked to stop with a checkpoint", runs.run("stop", self.root / "one"))
            while not taken:
                time.sleep(0.02)

    def test_requests_after_which_a_run_goes_on(self):
        with running(self.root / "one") as taken:
            self.assertIn("one: did it\n", runs.run("stop", self.root / "one", "--checkpoint", "--wait"))
            self.assertIn("one: did it\n", runs.run("stop", self.root / "one", "--report", 7, "--wait"))
            self.assertEqual(taken[1]["every"], 7)
            self.assertIn("different requests", runs.run("stop", self.root / "one", "--finish", "--checkpoint",
                                                         status=2))

    def test_several_runs(self):
        write_run(self.root / "over")
        with running(self.root / "one"), running(self.root / "two"):
            printed = runs.run("stop", self.root / "one", self.root / "over", self.root / "two", "--wait", status=1)
        self.assertIn("over: ended: finished", printed)
        self.assertIn("one: stopped: as asked", printed)
        self.assertIn("two: stopped: as asked", printed)

    def test_a_run_that_is_lost_meanwhile(self):
        child = subprocess.Popen(["sleep", "1000"])
        stat = pathlib.Path(f"/proc/{child.pid}/stat").read_text().rsplit(")", 1)[1].split()
        write_run(self.root / "one", "running", "",
                  writer={**identity(process=child.pid), "process_start": int(stat[19])})
        with started("stop", self.root / "one", "--wait") as stop:
            time.sleep(0.5)
            self.assertIsNone(stop.poll())
            child.kill()
            child.wait()
            self.assertIn("lost: the process is gone", stop.stdout.read())
            self.assertEqual(stop.wait(), 1)

    def test_interrupting_the_wait(self):
        with running(self.root / "one", answers=False) as taken:
            with started("stop", self.root / "one", "--wait") as stop:
                while not taken:
                    time.sleep(0.02)
                stop.send_signal(signal.SIGINT)
                self.assertEqual(stop.wait(timeout=10), 130)

    def test_programs_that_read_no_requests(self):
        add_event(self.root / "old", "step", step=3, loss=0.5)
        printed = runs.run("stop", self.root / "old", status=1)
        self.assertIn("its program does not read requests", printed)
        self.assertFalse((self.root / "old/requests").exists())
        self.assertIn("is not a run folder", runs.run("stop", self.root, status=1))


class ManyRuns(Folders):
    def test_runs_that_are_over_are_read_once(self):
        write_run(self.root / "run-0")
        for number in range(1, 500):
            shutil.copytree(self.root / "run-0", self.root / f"run-{number}")
        self.assertEqual(len(listed(self.root)), 500)
        for file in self.root.glob("*/events/*"):
            os.truncate(file, 0)  # it is not read again
        found = listed(self.root)
        self.assertEqual(len(found), 500)
        self.assertTrue(all(run["network"] == "lenet" for run in found.values()))


if __name__ == "__main__":
    unittest.main()
