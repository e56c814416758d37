#!/usr/bin/env python3
"""What a sweep says before and beside its trials: a program that is not there, another sweep in the same folder, results
that another sweep may not have; what it keeps of trials that print much; and that words of earlier versions go on."""

import json
import subprocess
import unittest

import runs
from sweeps import lines, table

MARK = "another sweep may give another table, because of "


class SweepStart(runs.TestFolders, unittest.TestCase):
    def sweep(self, name, *words, status=0):
        return runs.run("sweep", "--search", "random", "--count", "3", "--output", self.folder / name, *words, status=status)

    def test_a_program_that_is_not_there(self):
        """It is one error, and not one of each trial."""
        for program, said in (("./nothere", 'there is no program "./nothere"'),
                              ("no-program-has-this-name", 'there is no program "no-program-has-this-name"')):
            printed = self.sweep("missing", "--x", "1..5", "--", program, status=1)
            self.assertIn(said, printed)
            self.assertEqual(printed.count("there is no program"), 1)
            self.assertFalse((self.folder / "missing").exists())

    def test_first_starts_of_several_sweeps_in_one_folder(self):
        """One of them is made, and the others are refused."""
        output, go = self.folder / "together", self.folder / "go"
        script = f"while ! test -e {go}; do sleep 0.05; done; echo result $1"

        def start(seed):
            with open(self.folder / f"said_{seed}", "w", encoding="utf-8") as said:
                return subprocess.Popen(runs.command("sweep", "--search", "random", "--count", "3", "--seed", seed, "--output",
                                                     output, "--x", "0.5..9.5", "--", "sh", "-c", script, "name", "{x}"),
                                        stdout=said, stderr=said)

        programs = {seed: start(str(seed)) for seed in range(4)}

        def refused():
            return [seed for seed, program in programs.items() if program.poll() is not None]

        runs.wait_for(lambda: len(refused()) == 3)
        for seed in refused():
            said = (self.folder / f"said_{seed}").read_text()
            self.assertEqual(programs[seed].returncode, 2, said)
            self.assertRegex(said, "another program works on the sweep|is another sweep: its --seed is")
            self.assertEqual(said.count("lockstep: "), 1, said)
        (winner,) = set(programs) - set(refused())
        go.touch()
        self.assertEqual(programs[winner].wait(), 0)
        self.assertEqual(json.loads((output / "sweep.json").read_text())["seed"], winner)
        self.assertEqual([row["state"] for row in table(output)], ["ended"] * 3)
        self.assertEqual(len(lines(output, "begin")), 3)

    def test_an_output_of_another_profile(self):
        """It is refused before anything is written or a login node is asked; the message has what was typed."""
        profiles = self.folder / "config/lockstep/clusters"
        profiles.mkdir(parents=True)
        (profiles / "far.json").write_text(json.dumps({"login": "nowhere.invalid"}))
        (profiles / "pool.json").write_text(json.dumps({}))
        (self.folder / "far:here").mkdir()

        def sweep(*words, status=2):
            return runs.run("sweep", *words, status=status, folder=self.folder,
                            environment={"XDG_CONFIG_HOME": str(self.folder / "config")})

        def of_file(*words, **more):
            (self.folder / "s.json").write_text(json.dumps({"command": ["echo", "result", "{x}"], "search": "grid",
                                                            "parameters": {"x": "1..2"}, **more}))
            return sweep(*words, "s.json")

        words = ["--search", "grid", "--x", "1..2", "--", "echo", "result", "{x}"]
        for profile, output, said, hint in (
                ("local", "far:search", ' is not of the profile "local" (--profile)', "search"),
                ("pool", "pool:search", ': the profile "pool" has no login node', "search"),
                ("far", "pool:search", ' is not of the profile "far" (--profile)', "far:search")):
            printed = sweep("--profile", profile, "--output", output, *words)
            self.assertEqual(printed, f"lockstep: --output {output}{said}\n  hint: --output {hint}\n")
            printed = of_file("--profile", profile, output=output)
            self.assertEqual(printed, f'lockstep: "output": "{output}" in "s.json"{said}\n  hint: "output": "{hint}"\n')
            self.assertFalse((self.folder / output).exists())
        for options in ({"output": "far:search"}, {}):
            printed = of_file(*([] if options else ["--output", "far:search"]), profile="pool", **options)
            self.assertIn('"profile": "pool" in "s.json" is not the profile of ', printed)
            self.assertIn("or add --profile far\n", printed)
        sweep("--output", "far:here", *words, status=0)  # a folder of this machine
        self.assertEqual(len(table(self.folder / "far:here")), 2)

    def test_hints_name_the_sweep_as_it_was_typed(self):
        """A command that comes through a login node says it by the variable."""
        self.sweep("hinted", "--x", "1..5", "--", "echo", "result", "{x}")
        self.assertIn(f"hint: lockstep sweep show far:{self.folder}/hinted lists them\n",
                      runs.run("sweep", "annotate", self.folder / "hinted", "99", "a note", status=1,
                               environment={"LOCKSTEP_SHOWN_AS": "far:"}))

    def test_a_command_without_output_again(self):
        """It begins another sweep, and names the one that is not complete."""
        home = self.folder / "again"
        home.mkdir()

        def sweep(*values, count=2):
            return runs.run("sweep", "--search", "random", "--count", count, *values, "--", "echo", "result", "{x}", folder=home)

        continues = "lockstep sweep --resume --output sweeps/sweep-00{}\n"
        self.assertIn("lockstep: the sweep is in sweeps/sweep-001\n", sweep("--x", "1..5"))
        self.assertNotIn("begins anew", sweep("--x", "1..5"), "both are complete")
        for number in (1, 2):
            (home / f"sweeps/sweep-00{number}/log.jsonl").unlink()
        self.assertNotIn("begins anew", sweep("--x", "1..6"), "another search")
        printed = sweep("--x", "1..5", count=3)
        self.assertIn("sweeps/sweep-002 is the same sweep and not complete; this one begins anew", printed)
        self.assertIn(continues.format(2), printed)
        self.assertIn("the sweep is in sweeps/sweep-004\n", printed)
        self.assertFalse((home / "sweeps/sweep-002/log.jsonl").exists(), "nothing has changed it")
        runs.run("sweep", "--resume", "--output", "sweeps/sweep-002", folder=home)
        self.assertIn(continues.format(1), sweep("--x", "1..5"))

    def test_a_file_that_has_changed(self):
        """What may change is taken from a file, too."""
        file, output = self.folder / "search.json", self.folder / "of_file"
        search = {"command": ["echo", "result", "{x}"], "parameters": {"x": "0.5..9.5"}, "count": 3}
        file.write_text(json.dumps(search))
        runs.run("sweep", file, "--output", output)
        before = table(output)
        file.write_text(json.dumps({**search, "count": 5}))
        runs.run("sweep", file, "--output", output)
        self.assertEqual(table(output)[:3], before)
        self.assertEqual(len(table(output)), 5)
        file.write_text(json.dumps({**search, "lag": 5}))
        self.assertIn("its --lag is 8", runs.run("sweep", file, "--output", output, status=2))

    def test_output_without_an_end(self):
        """The file has its beginning and its end, and the result is found."""
        script = "echo begin; echo loss $1; yes | head -c 10000000; echo end"
        self.sweep("prints", "--metric", "loss", "--x", "1..5", "--", "sh", "-c", script, "name", "{x}")
        rows = table(self.folder / "prints")
        self.assertEqual([row["result"] for row in rows], [row["parameters"]["x"] for row in rows])
        for row in rows:
            with open(self.folder / f"prints/trials/{row['trial']:04}.out", "rb") as file:
                self.assertEqual(file.read(11), b"begin\nloss ")
                file.seek(-6, 2)
                self.assertEqual(file.read(), b"y\nend\n")

    def test_a_metric_that_is_a_time(self):
        """It is marked wherever the table is shown."""
        words = ["--x", "1..5", "--", "echo", "run_seconds", "{x}"]
        output = self.folder / "timed"
        self.assertEqual(self.sweep("timed", "--metric", "run_seconds", *words).count(MARK + "--metric run_seconds"), 2)
        self.assertIn(MARK + "--metric run_seconds\n", runs.run("sweep", "show", output))
        runs.run("report", output)
        self.assertIn(MARK + "--metric run_seconds<", (output / "report.html").read_text())
        words[-2] = "loss"
        self.assertNotIn(MARK, self.sweep("untimed", "--metric", "loss", *words))
        self.assertNotIn(MARK, runs.run("sweep", "show", self.folder / "untimed"))

    def test_what_only_some_trials_cannot_do(self):
        """These are failed trials; a sweep whose trials are all refused is not begun. Options that `plan` lacks, a
        working folder that is elsewhere and a precision that is tried out are no obstacles."""
        def of_file(name, status, *words, **parameters):
            file, output = self.folder / f"{name}.json", self.folder / name
            file.write_text(json.dumps({"command": ["train", self.digits.name, *runs.SMALL, "--max-steps", "2", *words],
                                        "search": "grid", "working_folder": str(self.digits.parent),
                                        "parameters": parameters}))
            return output, runs.run("sweep", file, "--output", output, status=status)

        words = ["--averaging-frequency", "2", "--precision", "auto", "--join-timeout", "30"]
        output, _ = of_file("mixed", 0, *words, exchange=["tree", "average"])
        self.assertEqual([row["state"] for row in table(output)], ["failed", "ended"])
        for name, parameters in (("lists", {"optimizer": ["sgdm", "adam"]}), ("ranges", {"learning-rate": "0.01..0.1"})):
            output, printed = of_file(name, 2, *words, **parameters)
            self.assertEqual(printed.count("--averaging-frequency 2 has no effect with --exchange tree"), 1)
            self.assertIn("hint: add --exchange average", printed)
            self.assertFalse(output.exists())

    def test_an_empty_option_of_an_earlier_version(self):
        """A new sweep refuses it."""
        train = ["--learning-rate", "0.001..0.1:log", "--", "train", self.digits, "--validation", self.held_out, *runs.SMALL,
                 "--max-steps", "1"]
        self.assertIn("option --weights is empty", self.sweep("new", *train, "--weights", "", status=2))
        self.sweep("earlier", *train)
        spec = self.folder / "earlier/sweep.json"
        sweep = json.loads(spec.read_text())
        sweep["command"] += ["--weights", ""]
        spec.write_text(json.dumps(sweep))
        for count, trials_as in ((4, "threads"), (5, "processes")):
            runs.run("sweep", "--resume", "--output", spec.parent, "--count", count, "--trials-as", trials_as)
            self.assertEqual([row["state"] for row in table(spec.parent)], ["ended"] * count)

    def test_a_sweep_that_goes_on_keeps_its_mark(self):
        """Trials may have ended with what made the table another one."""
        output = self.folder / "kept"
        self.sweep("kept", "--x", "1..5", "--", "echo", "result", "{x}")
        spec = json.loads((output / "sweep.json").read_text())
        self.assertEqual(spec["not_reproducible"], [])
        (output / "sweep.json").write_text(json.dumps({**spec, "not_reproducible": ["--max-time"]}))
        self.assertIn(MARK + "--max-time\n", runs.run("sweep", "--resume", "--output", output, "--count", "4"))
        self.assertEqual(json.loads((output / "sweep.json").read_text())["not_reproducible"], ["--max-time"])
        copied = self.folder / "copied"
        self.assertNotIn(MARK, runs.run("sweep", output / "sweep.json", "--output", copied), "another sweep begins without it")
        self.assertEqual(json.loads((copied / "sweep.json").read_text())["not_reproducible"], [])

    def test_results_that_are_numbers_and_others(self):
        script = 'test "$LOCKSTEP_TRIAL" != 0 || echo loss +5; test "$LOCKSTEP_TRIAL" != 1 || echo loss 1e-400; ' \
                 'test "$LOCKSTEP_TRIAL" != 2 || echo loss 50%'
        self.sweep("numbers", "--metric", "loss", "--x", "1..5", "--", "sh", "-c", script, "name", "{x}")
        rows = table(self.folder / "numbers")
        self.assertEqual([row["result"] for row in rows], [5, 0, None])
        self.assertIn('no line of its output gives a value of "loss": "50%" is no number', rows[2]["error"])

    def test_what_waiting_costs_is_printed(self):
        """Of two places one waits where each trial depends on the one before; none does where trials are independent, also
        at the end."""
        def said(name, *options):
            return runs.run("sweep", "--count", "3", "--trials", "2", *options, "--output", self.folder / name, "--x",
                            "0.5..9.5", "--", "echo", "result", "{x}")
        self.assertRegex(said("waits", "--search", "tpe", "--lag", "0"),
                         r"with 2 trials side by side; waiting for earlier results took (less than )?\d+ % of it \(--lag, --free\)\n")
        self.assertNotIn("waiting for", said("hurries", "--search", "random", "--lag", "0"))


if __name__ == "__main__":
    unittest.main()
