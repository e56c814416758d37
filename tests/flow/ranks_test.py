#!/usr/bin/env python3
"""One training over several processes has the weights of one process, and they begin, stop and fail together."""

import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import threading
import time
import unittest

import runs

OPTIONS = [*runs.SMALL, "--gradient-clip", "1", "--accumulate", "2", "--augment", "shift"]


class Ranks(runs.TestFolders, unittest.TestCase):
    def train_ranks(self, count, output, *options, folder=None, status=0):
        return runs.run("run", "-n", count, runs.PROGRAM, "train", folder or self.digits, "--output", output, *options,
                        status=status)

    def whole(self):
        output = self.folder / "whole"
        if not output.exists():
            runs.train(self.digits, output, "--validation", self.held_out, *OPTIONS, "--workers", 2)
        return output

    def test_same_weights(self):
        expected = runs.results(self.whole())
        losses = [event["values"]["loss"] for event in runs.of_kind(self.whole(), "step")]
        for count, options in runs.some([(1, []), (2, ["--workers", 2]), (10, [])],
                                        [(2, []), (3, []), (3, ["--workers", 3])]):
            with self.subTest(ranks=count, options=options):
                output = self.folder / f"ranks-{count}-{len(options)}"
                printed = self.train_ranks(count, output, "--validation", self.held_out, *OPTIONS, *options)
                self.assertEqual(runs.results(output), expected)
                self.assertEqual([event["values"]["loss"] for event in runs.of_kind(output, "step")], losses)
                self.assertNotIn("[rank", printed, "only rank 0 speaks")
                self.assertEqual(len(list((output / "events").iterdir())), 1)

    def test_ranks_of_unequal_speed(self):
        """--worker-load deals shards by its numbers; the weights stay."""
        options = ["--validation", self.held_out, *OPTIONS, "--batch-norm-group", "mini-batch", "--accumulate", "1"]
        alone = self.folder / "equal"
        runs.train(self.digits, alone, *options)
        for count, load, parts, nodes in runs.some([(2, "3,1", "6, 2", "1 to 2 nodes a rank")],
                                                   [(3, "1,5,2", "1, 5, 2", "1 to 3 nodes a rank"),
                                                    (2, "1000,1", "8, 0", "0 to 1 node a rank")]):
            with self.subTest(load):
                output = self.folder / f"load-{load}"
                self.train_ranks(count, output, *options, "--worker-load", load, "--pause-after-step", "7")
                self.assertIn(f"by --worker-load ranks get {parts}", runs.plan_line(output, "shards"))
                self.assertIn(nodes, runs.plan_line(output, "exchange"))
                # With other ranks the old loads are not meant.
                self.train_ranks(count + 1, output, "--resume")
                self.assertEqual(runs.weights(output), runs.weights(alone))
        printed = self.train_ranks(3, self.folder / "refused", *OPTIONS, "--worker-load", "2,1", status=2)
        self.assertIn("--worker-load has 2 numbers for 3 ranks", printed)

    def slow_down(self, number, ended):
        """Lets the process whose number appears in this file run a tenth of the time."""
        while not ended.is_set():
            try:
                process = int(number.read_text())
                os.kill(process, signal.SIGSTOP)
                ended.wait(0.045)
                os.kill(process, signal.SIGCONT)
            except (FileNotFoundError, ValueError, ProcessLookupError):
                pass
            ended.wait(0.005)

    def test_shards_move_to_the_faster_rank(self):
        """Rank 1 is stopped most of the time; beside it other tests may slow down rank 0."""
        options = [*OPTIONS[:2], "--network", "digits_cnn", "--max-steps", "90", "--shards", "32", "--workers", "1",
                   "--validation", self.held_out, "--validate-every", "40"]
        runs.train(self.digits, self.folder / "as-one", *options)
        number, ended = self.folder / "rank-1", threading.Event()
        slows = threading.Thread(target=self.slow_down, args=(number, ended))
        slows.start()
        self.addCleanup(slows.join)
        self.addCleanup(ended.set)
        script = f'[ $RANK = 1 ] && echo $$ > {number}; exec "$@"'
        output = self.folder / "moved"
        runs.run("run", "-n", 2, "sh", "-c", script, "-", runs.PROGRAM, "train", self.digits, "--output", output, *options)
        ended.set()  # the number may soon be another process's
        moved = [event["values"]["text"] for event in runs.of_kind(output, "message")
                 if "ranks are not equally fast" in event["values"]["text"]]
        self.assertTrue(moved, "nothing has moved")
        of_rank_0 = sum(owner == 0 for owner in runs.of_kind(output, "shards")[-1]["values"]["owners"])
        self.assertGreater(of_rank_0, 16, moved)
        self.assertEqual(runs.weights(output), runs.weights(self.folder / "as-one"))
        steps = [event["step"] for event in runs.of_kind(output, "step")]
        self.assertEqual(steps, sorted(set(steps)))

    def test_overlap_changes_no_bit(self):
        network = self.folder / "wide.json"
        network.write_text(json.dumps(runs.WIDE))
        options = ["--validation", self.held_out, *OPTIONS, "--network", network, "--max-steps", "6"]
        runs.train(self.digits, self.folder / "wide", *options)
        hidden = {}
        for name, count, more in runs.some([("after", 2, ["--overlap=false"]), ("threads", 2, ["--workers", 2]),
                                            ("without-shards", 10, [])], [("beside", 2, [])]):
            with self.subTest(name):
                self.train_ranks(count, self.folder / f"wide-{name}", *options, *more)
                self.assertEqual(runs.weights(self.folder / f"wide-{name}"), runs.weights(self.folder / "wide"))
                hidden[name] = sum(event["values"]["hidden_exchange_seconds"]
                                   for event in runs.of_kind(self.folder / f"wide-{name}", "step"))
        self.assertEqual(hidden["after"], 0)

    def test_patience_ends_all(self):
        options = [*OPTIONS, "--max-epochs", "30", "--patience", "2", "--learning-rate", "0.2", "--validate-every", "2"]
        runs.train(self.digits, self.folder / "early", "--validation", self.held_out, *options)
        self.train_ranks(2, self.folder / "early-ranks", "--validation", self.held_out, *options)
        self.assertEqual(runs.of_kind(self.folder / "early-ranks", "end")[0]["values"]["reason"], "patience")
        self.assertEqual(runs.weights(self.folder / "early-ranks"), runs.weights(self.folder / "early"))

    def test_resume_with_other_ranks(self):
        output = self.folder / "resumed"
        long = [*OPTIONS, "--max-epochs", "40", "--checkpoint-every", "7"]
        runs.train(self.digits, self.folder / "long", "--validation", self.held_out, *long)
        process = subprocess.Popen(runs.command("run", "-n", 3, runs.PROGRAM, "train", self.digits, "--output", output,
                                                "--validation", self.held_out, *long),
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   text=True)
        while not runs.of_kind(output, "validation") and process.poll() is None:
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        printed = process.communicate(timeout=60)[0]
        self.assertEqual(process.returncode, 128 + signal.SIGTERM, printed)
        self.assertIn("stopped after step", printed)
        self.train_ranks(2, output, "--resume")
        self.assertEqual(runs.weights(output), runs.weights(self.folder / "long"))
        self.assertIn("finished", self.train_ranks(2, output, "--resume"))

    def test_max_time_ends_all(self):
        output = self.folder / "timed"
        self.train_ranks(2, output, *OPTIONS, "--max-epochs", "100000", "--max-time", "1")
        self.assertEqual(runs.of_kind(output, "end")[0]["values"]["reason"], "max-time")

    def test_other_data_on_a_rank(self):
        other = self.folder / "other"
        shutil.copytree(self.digits, other)
        next((other / "3").iterdir()).unlink()
        script = (f'[ $RANK = 1 ] && set -- "{other}" || set -- "{self.digits}"; exec "{runs.PROGRAM}" train "$1" '
                  f'--output "{self.folder / "mixed"}" --max-steps 3')
        printed = runs.run("run", "-n", 2, "sh", "-c", script, status=2)
        self.assertRegex(printed,
                         rf'rank 1 on \S+ has other data in "{other}" than rank 0 in "{self.digits}": its images is')

    def test_an_error_of_rank_0_is_told_to_all(self):
        printed = self.train_ranks(2, self.whole(), *OPTIONS, status=2)
        self.assertIn("already contains a run", printed)
        self.assertRegex(printed, r"rank 0 on \S+ \(process \d+\) ended with status 2")

    def test_a_rank_that_waits_for_others_can_be_stopped(self):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            variables = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
                         "MASTER_PORT": str(silent.getsockname()[1])}
            rank = subprocess.Popen(runs.command("train", self.digits), env={**os.environ, **variables},
                                    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.addCleanup(rank.kill)
            with silent.accept()[0]:
                rank.terminate()
                self.assertEqual(rank.wait(timeout=60), -signal.SIGTERM)

    def test_ranks_that_wait_say_for_whom(self):
        def start(rank, *options):
            variables = {"RANK": str(rank), "WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
            process = subprocess.Popen(runs.command("train", self.digits, *options), env={**os.environ, **variables},
                                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                       text=True)
            self.addCleanup(process.kill)
            return process

        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        alone = start(1, "--join-timeout", "6")
        printed = alone.communicate(timeout=60)[0]
        self.assertEqual(alone.returncode, 1)
        self.assertEqual(printed.splitlines()[0],
                         f"lockstep: rank 1 of 3 waits for rank 0 at 127.0.0.1:{port}: Connection refused")
        self.assertRegex(printed,
                         r"\nlockstep: rank 1 of 3 on \S+ gave up after 6 s of waiting for rank 0 at "
                         rf"127.0.0.1:{port}: Connection refused\n  hint: are all ranks started, with the same "
                         r"MASTER_ADDR and MASTER_PORT\?\n$")
        two = [start(0, "--join-timeout", "6"), start(2, "--join-timeout", "60")]
        first = two[0].communicate(timeout=60)[0]
        self.assertEqual(two[0].returncode, 1)
        self.assertRegex(first, rf"lockstep: waiting for ranks? .*1.* of 3 at 127.0.0.1:{port}\n")
        self.assertRegex(
            first, rf"lockstep: ranks? .*1.* of 3 did not come to rank 0 within 6 s, at 127.0.0.1:{port}\n  hint: are "
                   r"all ranks started, with the same MASTER_ADDR and MASTER_PORT\?\n")
        two[1].communicate(timeout=60)
        self.assertEqual(two[1].returncode, 1)

    def test_a_wait_ends_with_ctrl_c(self):
        variables = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}
        with socket.create_server(("127.0.0.1", 0)) as probe:
            variables["MASTER_PORT"] = str(probe.getsockname()[1])
        rank = subprocess.Popen(runs.command("train", self.digits), env={**os.environ, **variables},
                                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.addCleanup(rank.kill)
        self.assertIn("waiting for rank 1 of 2", rank.stderr.readline())
        rank.send_signal(signal.SIGINT)
        self.assertEqual(rank.wait(timeout=5), -signal.SIGINT)
        rank.stderr.close()

    def test_programs_that_follow_each_other(self):
        model = self.folder / "followed"
        runs.train(self.digits, model, *OPTIONS, "--max-steps", "3")
        score = f'"{runs.PROGRAM}" evaluate "{model}" "{self.held_out}" --json'
        printed = runs.run("run", "-n", 2, "sh", "-c", f"{score} && {score} && {score}")
        self.assertEqual(printed, 3 * runs.run("evaluate", model, self.held_out, "--json"))

    def test_a_bad_environment_is_named(self):
        printed = subprocess.run(runs.command("train", self.digits), env={**os.environ, "RANK": "3", "WORLD_SIZE": "2"},
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, text=True, check=False).stdout
        self.assertIn('the environment variable RANK cannot be "3": it must be a number from 0 to 1', printed)


class Launcher(unittest.TestCase):
    def test_variables(self):
        printed = runs.run("run", "-n", 2, "env").splitlines()
        for line in ["RANK=0", "LOCAL_RANK=0", "WORLD_SIZE=2", "LOCAL_WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1",
                     "TORCHELASTIC_RESTART_COUNT=0", "[rank 1] RANK=1", "[rank 1] LOCAL_RANK=1"]:
            self.assertIn(line, printed)
        self.assertTrue(any(line.startswith("OMP_NUM_THREADS=") for line in printed))
        printed = runs.run("run", "-n", 2, "env", environment={"OMP_NUM_THREADS": "7"}).splitlines()
        self.assertIn("OMP_NUM_THREADS=7", printed)
        self.assertIn("[rank 1] OMP_NUM_THREADS=7", printed)

    def test_tee_keeps_what_each_rank_writes(self):
        with runs.temporary_folder() as folder:
            printed = runs.run("run", "-n", 2, "--tee", f"{folder}/new/logs", "sh", "-c",
                               "echo out $RANK; echo error $RANK >&2; printf open")
            self.assertEqual(sorted(printed.splitlines()),
                             ["[rank 1] error 1", "[rank 1] open", "[rank 1] out 1", "error 0", "open", "out 0"])
            for rank in range(2):
                kept = pathlib.Path(folder, "new", "logs", f"rank-{rank}.log").read_text()
                self.assertEqual(sorted(kept.splitlines()), [f"error {rank}", "open", f"out {rank}"])

    def test_tee_keeps_what_was_written_before_a_restart(self):
        script = 'echo start $TORCHELASTIC_RESTART_COUNT; exit $((1 - TORCHELASTIC_RESTART_COUNT))'
        with runs.temporary_folder() as folder:
            for _ in range(2):  # the second command begins new logs
                runs.run("run", "-n", 1, "--max-restarts", 1, "--tee", folder, "sh", "-c", script)
                self.assertEqual(pathlib.Path(folder, "rank-0.log").read_text(), "start 0\nstart 1\n")

    def test_the_first_failure_ends_the_others(self):
        printed = runs.run("run", "-n", 3, "sh", "-c",
                           '[ $RANK = 2 ] && { echo no more paper >&2; exit 7; }; sleep 1000', status=7)
        self.assertRegex(printed,
                         r"rank 2 on \S+ \(process \d+\) ended with status 7; the others were ended\n  its last "
                         r"output:\n    no more paper")

    def test_a_program_that_is_not_there(self):
        self.assertIn('cannot start "no-such-program": No such file or directory',
                      runs.run("run", "-n", 2, "no-such-program", status=127))

    def test_a_killed_launcher_leaves_nothing(self):
        process = subprocess.Popen(runs.command("run", "-n", 2, "sh", "-c", "echo $$; exec sleep 100"),
                                   stdout=subprocess.PIPE, text=True)
        ranks = [int(process.stdout.readline().split()[-1]) for _ in range(2)]
        process.kill()
        process.wait()
        end = time.monotonic() + 10
        while time.monotonic() < end and any(os.path.exists(f"/proc/{rank}/exe") for rank in ranks):
            time.sleep(0.02)
        for rank in ranks:
            self.assertFalse(os.path.exists(f"/proc/{rank}/exe"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
