#!/usr/bin/env python3
"""A search is one table: equal in every cell for one trial at a time and several side by side, and after kill -9 of the
sweep and of trials. Its best trial is trained again by the command that it prints."""

import contextlib
import json
import os
import pty
import shlex
import shutil
import signal
import subprocess
import time
import unittest

import runs
from sweeps import lines, table

TRAINING = ["--recipe", "plain", "--image-size", "20x20", "--shards", "4", "--max-steps", "6"]
SEARCH = ["--count", "12", "--lag", "1", "--seed", "1", "--learning-rate", "0.001..0.1:log", "--network",
          "digits_cnn,lenet", "--param", "mini-batch-size=16..64"]
GAUSSIAN = ["--search", "gp", "--count", "16", "--lag", "2", "--seed", "1", "--learning-rate", "0.001..0.1:log", "--network",
            "digits_cnn,lenet", "--param", "mini-batch-size=16..64"]
ASHA = ["--stop-rule", "asha", "--first-rung", "2", "--count", "6", "--lag", "3", "--search", "sobol",
        "--learning-rate", "0.001..0.1:log"]


def children(process):
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(process)], capture_output=True, text=True, check=False)
    return [int(word) for word in found.stdout.split()]


def sleepers(seconds):
    return subprocess.run(["pgrep", "-f", f"^sleep {seconds}$"], capture_output=True, check=False).stdout.split()


class Sweep(runs.TestFolders, unittest.TestCase):
    def words(self, output, search, side_by_side):
        return ["sweep", *search, "--trials", side_by_side, "--output", output, "--", "train", self.digits,
                "--validation", self.held_out, *TRAINING]

    def sweep(self, name, search, side_by_side):
        output = self.folder / name
        printed = runs.run(*self.words(output, search, side_by_side))
        self.assertIn("* is the best", printed)
        return table(output)

    def sweep_with_kills(self, name, search, kills):
        """Kills the sweep that often, each time after another of its trials has ended, and a trial each second time."""
        output, killed_trials = self.folder / name, 0
        for attempt in range(kills):
            ended = len(lines(output, "outcome"))
            process = subprocess.Popen(runs.command(*self.words(output, search, 2)), stdout=subprocess.DEVNULL,
                                       stderr=subprocess.STDOUT)
            runs.wait_for(lambda: len(lines(output, "outcome")) > ended or process.poll() is not None)
            if attempt % 2:
                runs.wait_for(lambda: children(process.pid) or process.poll() is not None)
                for child in children(process.pid)[:1]:
                    os.kill(child, signal.SIGKILL)
                runs.wait_for(lambda: len(lines(output, "lost")) > killed_trials or process.poll() is not None)
                killed_trials = len(lines(output, "lost"))
            time.sleep(0.02 * attempt)
            process.kill()
            process.wait()
        self.assertGreater(killed_trials, 0)
        return self.sweep(name, search, 2)

    def test_one_table_however_it_is_made(self):
        one = self.sweep("one", SEARCH, 1)
        self.assertEqual([row["trial"] for row in one], list(range(12)))
        self.assertEqual({row["state"] for row in one}, {"ended"})
        self.assertEqual(self.sweep("two", SEARCH, 2), one)
        self.assertEqual(self.sweep_with_kills("killed", SEARCH, 4), one)
        self.check_best(one)
        self.check_other_search()

    @unittest.skipUnless(runs.IS_LONG, "about a minute")
    def test_twenty_kills(self):
        longer = [*SEARCH, "--count", "36"]
        self.assertEqual(self.sweep_with_kills("killed_often", longer, 20), self.sweep("calm", longer, 1))

    def test_one_table_of_a_gaussian_process(self):
        one = self.sweep("gp_one", GAUSSIAN, 1)
        self.assertEqual({row["state"] for row in one}, {"ended"})
        self.assertEqual(self.sweep("gp_three", GAUSSIAN, 3), one)
        self.assertEqual(self.sweep_with_kills("gp_killed", GAUSSIAN, 4), one)
        # It has learned: the ten that come before its first suggestion are those of any results.
        other = self.sweep("gp_loss", [*GAUSSIAN, "--goal", "minimize"], 2)
        self.assertEqual([row["parameters"] for row in other[:10]], [row["parameters"] for row in one[:10]])
        self.assertNotEqual([row["parameters"] for row in other[13:]], [row["parameters"] for row in one[13:]])

    def check_best(self, rows):
        best = max(rows, key=lambda row: row["result"])
        printed = runs.run("sweep", "best", self.folder / "one")
        command = next(line for line in printed.splitlines() if line.startswith("lockstep train"))
        self.assertIn(best["weights_hash"], printed)
        again = self.folder / "again"
        runs.run(*shlex.split(command)[1:], "--workers", "2", "--output", again)
        self.assertEqual(json.loads((again / "result.json").read_text())["weights_hash"], best["weights_hash"])
        trial = self.folder / f"one/trials/{best['trial']:04}"
        for run in (again, trial):
            self.assertIn(f"same weights: {best['weights_hash']}\n", runs.run("diff", run / "model.safetensors", trial))
            self.assertRegex(runs.run("runs", "show", run), rf"(?m)^  weights +{best['weights_hash']}$")
        # Only the best keep what is large.
        kept = {path.parent.name for path in (self.folder / "one/trials").glob("*/model.safetensors")}
        self.assertEqual(len(kept), 5)
        self.assertIn(f"{best['trial']:04}", kept)

    def check_other_search(self):
        """A folder that has a sweep is not taken for another one."""
        before = table(self.folder / "one")
        printed = runs.run(*self.words(self.folder / "one", [*SEARCH, "--seed", "2"], 1), status=2)
        self.assertIn("is another sweep: its --seed is 1", printed)
        for options, message in ((["--lag", "2"], "its --lag is 1"), (["--metric", "loss"], "its --metric is "),
                                 (["--learning-rate", "0.01..0.1:log"], "it searches other parameters")):
            printed = runs.run("sweep", "--resume", "--output", self.folder / "one", *options, status=2)
            self.assertIn(f"is another sweep: {message}", printed)
        runs.run("sweep", "--resume", "--output", self.folder / "one", "--lag", "1")
        self.assertEqual(table(self.folder / "one"), before)

    def test_early_ends(self):
        one = self.sweep("asha_one", ASHA, 1)
        self.assertEqual({row["state"] for row in one}, {"ended", "early"})
        self.assertEqual({row["steps"] for row in one}, {2, 6})
        self.assertEqual(self.sweep("asha_two", ASHA, 2), one)
        self.assertEqual(self.sweep_with_kills("asha_killed", ASHA, 2), one)
        # A trial begins again at each rung, so that it can be stopped there.
        parts = [(line["trial"], line["until"]) for line in lines(self.folder / "asha_one", "begin")]
        ended = [(line["trial"], line["until"]) for line in lines(self.folder / "asha_one", "outcome")]
        self.assertEqual(sorted(parts), sorted(ended))
        self.assertGreater(len(parts), 6)

    def test_more_trials_than_ended_early(self):
        """Some of the trials that ended early go on, and others end early again. What is the best of few may end early
        among more, and go on among many."""
        rungs = [*ASHA, "--first-rung", "1", "--reduction", "2", "--seed", "2"]
        expected = self.sweep("asha_twelve", [*rungs, "--count", "12"], 2)
        for name, keep in (("asha_more", "0"), ("asha_more_without_weights", "1")):
            self.sweep(name, [*rungs, "--count", "2", "--keep-weights", keep], 2)
            for count in ("3", "6", "12"):
                runs.run("sweep", "--resume", "--output", self.folder / name, "--count", count)
            self.assertEqual(table(self.folder / name), expected)
        kept = [path.parent for what in ("checkpoints", "*.safetensors") for path in self.folder.glob(f"{name}/trials/*/{what}")]
        self.assertEqual(len(set(kept)), 1)

    def test_bad_searches(self):
        output = self.folder / "bad"
        for search, message in (
                (["--learning-rate", "0.1..0.001"], "its range begins at 0.1 and ends before, at 0.001"),
                (["--learning-rate", "0..0.1:log"], "a logarithmic range must begin above 0"),
                (["--learning-rte", "0.001..0.1"], "did you mean learning-rate?"),
                (["--learning-rate", "-5..0.1"], "learning-rate"), ([], "searches no parameter"),
                ([*SEARCH, "--stop-rule", "asha"], "needs the steps of its first rung"),
                ([*SEARCH, "--metric", "acuracy"], "did you mean accuracy?"),
                ([*SEARCH, "--param", "workers=1,2"], "the sweep sets --workers for each trial")):
            self.assertIn(message, runs.run(*self.words(output, search, 1), status=2))
            self.assertFalse(output.exists())
        refused = runs.run("sweep", "show", output, status=1)
        self.assertIn("is not the folder of a sweep", refused)
        self.assertIn("sweeps/sweep-001", refused)

    def test_any_program(self):
        """Parameters as words; the result from a line of its output. What fails is a result too; a trial can be
        stopped, noted and started again."""
        output = self.folder / "program"
        script = 'echo "loss = $1$2"; test $1 != 3'
        runs.run("sweep", "--search", "grid", "--metric", "loss", "--output", output, "--x", "1..3", "--", "sh", "-c",
                 script, "name", "{x}", "5")
        rows = table(output)
        self.assertEqual([row.get("result") for row in rows], [15, 25, None])
        self.assertEqual([row["parameters"] for row in rows], [{"x": 1}, {"x": 2}, {"x": 3}])
        self.assertEqual([row["state"] for row in rows], ["ended", "ended", "failed"])
        self.assertIn("ended with status 1", rows[2]["error"])
        self.assertEqual(runs.run("sweep", "best", output).splitlines()[-1],
                         shlex.join(["sh", "-c", script, "name", "1", "5"]))
        runs.run("sweep", "annotate", output, "1", "a", "note")
        runs.run("sweep", "restart", output, "1")
        runs.run("sweep", "--resume", "--output", output)
        rows[1]["note"] = "a note"
        self.assertEqual(table(output), rows)
        csv = self.folder / "table.csv"
        runs.run("sweep", "export", output, "--csv", csv)
        self.assertEqual(csv.read_text().splitlines()[0], "trial,state,loss,steps,total_steps,seconds,x,weights_hash,error,note")
        shown = runs.run("sweep", "show", output, "--filter", "x=2").splitlines()
        self.assertEqual(len([line for line in shown if "ended" in line and "25" in line]), 1)
        for options, trials in ((["--filter", "x>1 state=ended"], ["1"]), (["--filter", "result<20"], ["0"]),
                                (["--sort=-trial"], ["2", "1", "0"]), (["--sort", "result"], ["0", "1", "2"])):
            lines_shown = runs.run("sweep", "show", output, *options).splitlines()
            self.assertEqual([line.split()[0] for line in lines_shown[1:] if line.startswith("   ")], trials, options)

    def test_a_metric_with_the_name_of_a_column(self):
        output = self.folder / "seconds"
        runs.run("sweep", "--search", "grid", "--metric", "seconds", "--output", output, "--x", "1..2", "--", "echo", "seconds",
                 "{x}")
        heading = runs.run("sweep", "export", output, "--csv", "-").splitlines()[0]
        self.assertEqual(heading, "trial,state,result,steps,total_steps,seconds,x,weights_hash,error,note")

    def press(self, keys, *words):
        """Opens the live table, and presses the keys when it is there."""
        view, screen = pty.fork()
        if view == 0:
            os.execv(runs.PROGRAM, runs.command("sweep", "watch", *words))
        shown = b""
        while b"q quit" not in shown:
            shown += os.read(screen, 4096)
        os.write(screen, keys + b"q")
        with contextlib.suppress(OSError):  # with which a terminal tells its end
            while more := os.read(screen, 4096):
                shown += more
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(view, 0)[1]), 0)
        os.close(screen)
        return shown.decode()

    def test_keys_act_on_the_trial_that_the_prompt_names(self):
        """Also if another row is marked when the answer comes; without a row they do nothing."""
        output = self.folder / "pressed"
        runs.run("sweep", "--search", "grid", "--output", output, "--x", "1..3", "--", "echo", "result", "{x}")
        self.press(b"nhello\x1b[B\r", output)
        self.assertEqual([row.get("note") for row in table(output)], ["hello", None, None])
        before = (output / "log.jsonl").read_text()
        self.press(b"ry", output, "--filter", "state=failed")
        self.assertNotIn("end trial", self.press(b"s", output), "no trial can be ended, so nothing is asked")
        self.assertEqual((output / "log.jsonl").read_text(), before)

    def test_a_switch_can_be_searched(self):
        output = self.folder / "switch"
        runs.run("sweep", "--search", "grid", "--output", output, "--nesterov", "true,false", "--", "train", self.digits,
                 "--validation", self.held_out, *TRAINING)
        rows = table(output)
        self.assertEqual([row["state"] for row in rows], ["ended", "ended"])
        self.assertNotEqual(*(row["weights_hash"] for row in rows))
        self.assertRegex(runs.run("sweep", "best", output).splitlines()[-1], r" --nesterov=(true|false)$")
        shutil.rmtree(output / "trials/0001")
        runs.run("report", output)
        self.assertIn("the run folder of the trial is not there", (output / "report.html").read_text())
        self.assertEqual(table(output), rows)

    def test_weights_that_depend_on_the_workers(self):
        """The printed command has the trials' workers, and a sweep does not go on with others."""
        output = self.folder / "averaged"
        runs.run("sweep", "--search", "grid", "--output", output, "--learning-rate", "0.01", "--exchange", "average", "--",
                 "train", self.digits, "--validation", self.held_out, *TRAINING)
        command = runs.run("sweep", "best", output).splitlines()[-1]
        self.assertTrue(command.endswith(" --workers 1"), command)
        again = self.folder / "averaged-again"
        runs.run(*shlex.split(command)[1:], "--output", again)
        self.assertEqual(json.loads((again / "result.json").read_text())["weights_hash"], table(output)[0]["weights_hash"])
        said = runs.run("sweep", "--resume", "--output", output, "--workers", "2", status=2)
        self.assertIn("is another sweep: its --workers is 1, on which the weights of its trials depend", said)

    def test_stopped_while_a_rung_is_validated(self):
        """The trial has no result then, and validates when the sweep goes on."""
        slow = ["--validation", runs.DIGITS, "--network", "digits_cnn"]
        search = ["--stop-rule", "asha", "--first-rung", "2", "--count", "2", "--lag", "1", "--trials", "1",
                  "--learning-rate", "0.001..0.1:log"]
        training = ["--", "train", self.digits, *slow, *TRAINING]
        runs.run("sweep", *search, "--output", self.folder / "calm_rung", *training)
        output = self.folder / "stopped_rung"
        process = subprocess.Popen(runs.command("sweep", *search, "--output", output, *training),
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        runs.wait_for(lambda: runs.steps_done(output / "trials/0000") >= 2)
        process.terminate()
        process.wait(60)
        self.assertEqual(lines(output, "outcome"), [])
        runs.run("sweep", "--resume", "--output", output)
        self.assertEqual(table(output), table(self.folder / "calm_rung"))

    def test_data_that_are_away_when_a_sweep_goes_on(self):
        """It is refused, and no trial fails."""
        away, output = self.folder / "away", self.folder / "lost_data"
        shutil.copytree(self.digits, away)
        process = subprocess.Popen(runs.command(*self.words(output, SEARCH, 1)[:-len(TRAINING) - 3], away, "--validation",
                                                self.held_out, *TRAINING), stdout=subprocess.DEVNULL)
        runs.wait_for(lambda: len(lines(output, "outcome")) > 0)
        process.kill()
        process.wait()
        away.rename(self.folder / "moved")
        said = runs.run("sweep", "--resume", "--output", output, status=1)
        self.assertIn(f'cannot open "{away}": No such file', said)
        (self.folder / "moved").rename(away)
        runs.run("sweep", "--resume", "--output", output)
        self.assertEqual({row["state"] for row in table(output)}, {"ended"})

    def test_what_a_program_has_printed_when_all_are_stopped(self):
        """It saves and ends well, but its result is not the one that counts."""
        output = self.folder / "half"
        script = f'trap "exit 0" TERM; echo loss 0.9; touch {self.folder}/begun; sleep 2 & wait; echo loss 0.1'
        words = ["--count", "1", "--metric", "loss", "--output", output, "--x", "1..5", "--", "sh", "-c", script, "{parameters}"]
        process = subprocess.Popen(runs.command("sweep", *words), stdout=subprocess.DEVNULL)
        runs.wait_for((self.folder / "begun").exists)
        process.terminate()
        process.wait(60)
        self.assertEqual(lines(output, "outcome"), [])
        runs.run("sweep", "--resume", "--output", output)
        self.assertEqual([row["result"] for row in table(output)], [0.1])
        # The printed command names the file of the trial's parameters.
        self.assertEqual(shlex.split(runs.run("sweep", "best", output).splitlines()[-1])[-1],
                         str(output / "trials/0000.parameters.json"))
        self.assertEqual(json.loads((output / "trials/0000.parameters.json").read_text()), table(output)[0]["parameters"])

    def test_a_trial_leaves_no_process(self):
        """Neither one that is stopped, nor one whose sweep was killed and goes on."""
        for number, end in enumerate((lambda process, _: process.send_signal(signal.SIGINT),
                                      lambda _, output: runs.run("sweep", "stop", output, "0"))):
            output, seconds = self.folder / f"left_{number}", f"90{number}{os.getpid()}"
            process = self.sweep_of_script(output, f"sleep {seconds}; echo result 1")
            runs.wait_for(lambda: sleepers(seconds))
            end(process, output)
            process.wait(60)
            runs.wait_for(lambda: not sleepers(seconds))
        output, seconds = self.folder / "left_killed", f"909{os.getpid()}"
        script = f"test -e {output}/again || {{ touch {output}/again; sleep {seconds}; }}; echo result 1"
        process = self.sweep_of_script(output, script)
        runs.wait_for(lambda: sleepers(seconds))
        process.kill()
        process.wait()
        runs.run("sweep", "--resume", "--output", output)
        self.assertFalse(sleepers(seconds))
        self.assertEqual([row["result"] for row in table(output)], [1])

    def sweep_of_script(self, output, script):
        return subprocess.Popen(runs.command("sweep", "--output", output, "--count", "1", "--x", "1..5", "--", "sh", "-c",
                                             script, "name", "{x}"), stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL)

    def test_working_folder(self):
        """The command means the same from wherever the sweep goes on."""
        home, elsewhere = self.folder / "home", self.folder / "elsewhere"
        for folder in (home, elsewhere):
            folder.mkdir()
        (home / "offset").write_text("5")
        words = ["--search", "grid", "--x", "1..2", "--", "sh", "-c", "echo result $1$(cat offset || echo no)", "name", "{x}"]
        self.assertIn("sweeps/sweep-001", runs.run("sweep", *words, folder=home))
        output = home / "sweeps/sweep-001"
        (output / "log.jsonl").unlink()
        runs.run("sweep", "--resume", "--output", "../home/sweeps/sweep-001", folder=elsewhere)
        self.assertEqual([row["result"] for row in table(output)], [15, 25])
        self.assertIn(f'run it in "{home}"', runs.run("sweep", "best", output, folder=elsewhere))
        self.assertNotIn("run it in", runs.run("sweep", "best", output, folder=home))
        before = (output / "log.jsonl").read_text()
        output = output.rename(elsewhere / "moved")
        (home / "offset").unlink()
        (home / "sweeps").rmdir()
        home.rmdir()
        printed = runs.run("sweep", "--resume", "--output", output, folder=elsewhere, status=1)
        self.assertIn(f'"{home}", is not there', printed)
        self.assertEqual((output / "log.jsonl").read_text(), before)

    def test_two_sweeps_at_once(self):
        """Each has a folder of its own."""
        home = self.folder / "two_at_once"
        home.mkdir()
        words = runs.command("sweep", "--search", "grid", "--x", "1..3", "--", "echo", "result", "{x}")
        with open(home / "out", "w", encoding="utf-8") as out:
            both = [subprocess.Popen(words, cwd=home, stdout=out, stderr=out) for _ in range(4)]
        self.assertEqual([process.wait() for process in both], [0] * 4)
        for number in range(1, 5):
            self.assertEqual(len(table(home / f"sweeps/sweep-00{number}")), 3)

    def test_a_thousand_trials_are_listed_in_a_moment(self):
        output = self.folder / "thousand"
        runs.run("sweep", "--search", "random", "--count", "1000", "--trials", "4", "--metric", "loss", "--output", output,
                 "--x", "0.5..9.5", "--y", "a,b,c", "--", "echo", "loss", "{x}")

        def processor_seconds():
            before = os.times()
            listed = runs.run("sweep", "show", output)
            after = os.times()
            self.assertIn("1000 trials: 1000 ended", listed)
            return sum(after[2:4]) - sum(before[2:4])
        self.assertLess(min(processor_seconds() for _ in range(3)), 0.2)

    def test_a_restart_that_changes_later_trials(self):
        """A trial that is started again may have another result: the table is then that of a sweep that had it at
        once."""
        there = self.folder / "there"
        script = f'test "$LOCKSTEP_TRIAL" != 2 || test -e {there} || exit 1; echo "loss $1"'

        def sweep(name):
            output = self.folder / name
            runs.run("sweep", "--metric", "loss", "--count", "24", "--lag", "1", "--output", output, "--x", "0.5..9.5",
                     "--", "sh", "-c", script, "name", "{x}")
            return output, table(output)

        restarted, before = sweep("restarted")
        self.assertEqual([row["trial"] for row in before if row["state"] == "failed"], [2])
        there.touch()
        runs.run("sweep", "restart", restarted, "2")
        runs.run("sweep", "--resume", "--output", restarted)
        _, fresh = sweep("fresh")
        self.assertNotEqual([row["parameters"] for row in fresh], [row["parameters"] for row in before])
        self.assertEqual(table(restarted), fresh)


if __name__ == "__main__":
    unittest.main()
