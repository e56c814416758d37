#!/usr/bin/env python3
"""Ctrl-C: a checkpoint and status 130 within a second, and a run that goes on with the same bits. Ctrl-C twice: dead at
once. A terminal that closes, and outputs that nobody reads or that cannot be written, cost no step."""

import contextlib
import fcntl
import os
import select
import shutil
import signal
import subprocess
import termios
import time
import unittest

import runs

# A second on a quiet machine; a test machine is seldom quiet.
SECONDS_TO_STOP = float(os.environ.get("LOCKSTEP_SECONDS_TO_STOP", "5"))


def start(*arguments, environment=None):
    return subprocess.Popen(runs.command(*arguments), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, env={**os.environ, **(environment or {})})


def drained(terminal):
    """Reads what was written to the terminal, whose program would wait otherwise; True."""
    while select.select([terminal], [], [], 0)[0]:
        os.read(terminal, 65536)
    return True


class Stop(runs.TestFolders, unittest.TestCase):
    def train(self, output, *options, environment=None):
        return start("train", self.digits, "--output", output, "--validation", self.held_out, *runs.SMALL,
                     "--max-epochs", "40", "--mini-batch-size", "16", *options,
                     environment=environment)

    def interrupt(self, process, kind=signal.SIGINT):
        began = time.monotonic()
        process.send_signal(kind)
        printed = process.communicate(timeout=60)[0].decode()
        return time.monotonic() - began, printed

    def test_interrupts_and_resumes(self):
        whole, parts = self.folder / "whole", self.folder / "parts"
        process = self.train(whole, "--workers", "1")
        printed = process.communicate(timeout=120)[0]
        self.assertEqual(process.returncode, 0, printed)
        output, stops = parts, 0
        for attempt in range(4):
            process = self.train(output, "--workers", str(attempt + 1), *(["--resume"] if attempt else []))
            before = runs.steps_done(output) if attempt else 0
            runs.wait_for(lambda: runs.steps_done(output) > before + 3 or process.poll() is not None)
            kind = {1: signal.SIGHUP, 2: signal.SIGTERM}.get(attempt, signal.SIGINT)
            seconds, printed = self.interrupt(process, kind)
            if process.returncode == 0:
                break
            stops += 1
            self.assertEqual(process.returncode, 128 + kind, printed)
            self.assertLess(seconds, SECONDS_TO_STOP, printed)
            self.assertIn("stopped after step", printed)
            self.assertFalse((output / "model.safetensors").exists())
            end = runs.of_kind(output, "end")[-1]
            self.assertEqual(end["values"]["reason"], "stopped")
            self.assertEqual([runs.checkpoint_step(path) for path in runs.checkpoints(output)], [end["step"]])
        self.assertGreater(stops, 1)
        runs.train(self.digits, output, "--resume", "--workers", "2")
        self.assertEqual(runs.weights(output), runs.weights(whole))

    def test_weights_that_were_swapped_are_noticed_however_the_run_ended(self):
        doubt = "is not as the run saved it"
        other = self.folder / "other-weights"
        runs.train(self.digits, other, *runs.SMALL, "--max-steps", "2", "--seed", "9")
        output = self.folder / "swapped"

        def noticed(file, *arguments):
            printed = runs.run("evaluate", *arguments, self.held_out)
            self.assertNotIn(doubt, printed)
            kept = file.read_bytes()
            file.write_bytes((other / "model.safetensors").read_bytes())
            printed = runs.run("evaluate", *arguments, self.held_out)
            self.assertIn(f'warning: "{file}" {doubt}', printed)
            file.write_bytes(kept)

        process = self.train(output, "--max-time", "0.001")
        process.communicate(timeout=120)
        noticed(output / "model.safetensors", output)
        process = self.train(output, "--resume")
        runs.wait_for(lambda: len(runs.of_kind(output, "best")) + len(runs.of_kind(output, "checkpoint")) > 1
                 or process.poll() is not None)
        _, printed = self.interrupt(process)
        self.assertEqual(process.returncode, 130, printed)
        noticed(output / "model.safetensors", output)  # still that of --max-time
        last = runs.checkpoints(output)[-1]
        self.assertIn(f'which has come to step {runs.checkpoint_step(last)} since: "{last / "model.safetensors"}" has the',
                      runs.run("evaluate", output, self.held_out))
        self.assertIn(f"the weights after step {runs.checkpoint_step(last)}", runs.run("weights", "show", output))
        noticed(output / "best.safetensors", output, "--weights", "best")
        noticed(runs.checkpoints(output)[-1] / "model.safetensors", runs.checkpoints(output)[-1] / "model.safetensors")
        runs.train(self.digits, output, "--resume", "--patience", "1")
        noticed(output / "model.safetensors", output)
        noticed(output / "best.safetensors", output, "--weights", "best")
        self.assertNotIn("earlier end", runs.run("evaluate", output, self.held_out))

    def test_a_run_whose_folder_is_removed_ends_soon_and_makes_no_other(self):
        for change in (shutil.rmtree, lambda folder: folder.rename(folder.with_name("renamed"))):
            output = self.folder / "removed"
            process = self.train(output, "--max-epochs", "100000", "--checkpoint-every", "3")
            runs.wait_for(lambda: runs.checkpoints(output) or process.poll() is not None)
            while output.exists():
                with contextlib.suppress(OSError):  # a checkpoint is being written in it
                    change(output)
            printed = process.communicate(timeout=20)[0].decode()
            self.assertEqual(process.returncode, 1, printed)
            self.assertEqual(printed.count("lockstep: "), 1, printed)
            self.assertIn(f'lockstep: the run folder "{output}" was removed or renamed while its run went on', printed)
            self.assertFalse(output.exists())

    def test_before_the_first_step(self):
        output = self.folder / "early"
        process = self.train(output, "--workers", "2", "--network", "squeezenet", "--image-size", "224x224",
                             "--mini-batch-size", "200")
        runs.wait_for(lambda: (output / "options.json").exists())
        seconds, printed = self.interrupt(process)
        self.assertEqual(process.returncode, 130, printed)
        self.assertLess(seconds, 2 * SECONDS_TO_STOP)
        self.assertEqual(runs.checkpoints(output), [])

    def close_terminal_of(self, output, *launcher):
        terminal, end = os.openpty()
        command = runs.command(*launcher, "train", self.digits, "--output", output, *runs.SMALL, "--max-epochs", "400",
                               "--mini-batch-size", "8")
        process = subprocess.Popen(command, stdin=end, stdout=end, stderr=end, start_new_session=True,
                                   preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
                                   env={**os.environ, **runs.slow_fsync(100)})
        os.close(end)
        runs.wait_for(lambda: (runs.steps_done(output) > 3 or process.poll() is not None) if drained(terminal) else False)
        os.close(terminal)
        # A shell that ends passes it on, then the kernel tells the shell's programs: the last may come at any time
        # until the end.
        runs.wait_for(lambda: process.poll() is not None or process.send_signal(signal.SIGHUP))
        self.assertEqual(process.returncode, 128 + signal.SIGHUP)
        self.assertEqual([runs.checkpoint_step(path) for path in runs.checkpoints(output)],
                         [runs.of_kind(output, "end")[-1]["step"]])

    def test_a_terminal_that_closes(self):
        self.close_terminal_of(self.folder / "closed")

    def test_a_launcher_whose_terminal_closes(self):
        self.close_terminal_of(self.folder / "launched", "run", "--ranks", "2", "--", *runs.command())

    def test_nohup_is_respected(self):
        output = self.folder / "nohup"
        process = subprocess.Popen(["nohup", *runs.command("train", self.digits, "--output", output, *runs.SMALL)],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        runs.wait_for(lambda: runs.steps_done(output) > 1 or process.poll() is not None)
        _, printed = self.interrupt(process, signal.SIGHUP)
        self.assertEqual(process.returncode, 0, printed)
        self.assertEqual(runs.of_kind(output, "end")[-1]["values"]["reason"], "finished")

    def test_a_launcher_that_is_asked_twice_at_once_saves(self):
        """As timeout(1) does, which sends a signal to the launcher and to its group."""
        output = self.folder / "echo"
        process = start("run", "-n", "2", runs.PROGRAM, "train", self.digits, "--output", output, *runs.SMALL,
                        "--max-epochs", "400", environment=runs.slow_fsync(100))
        runs.wait_for(lambda: runs.steps_done(output) > 3 or process.poll() is not None)
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGINT)
        printed = process.communicate(timeout=60)[0].decode()
        self.assertIn(process.returncode, (128 + signal.SIGTERM, 128 + signal.SIGINT), printed)
        self.assertEqual([runs.checkpoint_step(path) for path in runs.checkpoints(output)],
                         [runs.of_kind(output, "end")[-1]["step"]], printed)

    def test_twice_kills(self):
        output = self.folder / "twice"
        process = self.train(output, "--workers", "2", environment=runs.slow_fsync(3000))
        runs.wait_for(lambda: runs.steps_done(output) > 2)
        process.send_signal(signal.SIGINT)
        self.assertTrue(select.select([process.stdout], [], [], 30)[0])
        said = b""
        while b"press Ctrl-C again to kill" not in said:
            said += os.read(process.stdout.fileno(), 4096)
        self.assertIsNone(process.poll())
        time.sleep(0.1)  # sooner would count as an echo of the first
        seconds, _ = self.interrupt(process)
        self.assertEqual(process.returncode, -signal.SIGINT)
        self.assertLess(seconds, 1.5)


if __name__ == "__main__":
    unittest.main(verbosity=2)
