#!/usr/bin/env python3
"""--resume: the same bits as a run that was never stopped, and clear refusals."""

import json
import shlex
import shutil
import unittest

import idx
import runs
import sequences

STEPS_PER_EPOCH = 7  # of 203 images in mini-batches of 32


class Resume(runs.TestFolders, unittest.TestCase):
    def train_run(self, output, *options, status=0, folder=None):
        return runs.train(folder or self.digits, output, "--validation", self.held_out, *runs.SMALL, "--max-epochs",
                          "3", *options, status=status)

    def stopped(self, name, *options, max_time="0.001"):
        """A run that --max-time stopped after its first step."""
        output = self.folder / name
        self.train_run(output, "--max-time", max_time, *options)
        self.assertEqual(runs.of_kind(output, "end")[-1]["values"]["reason"], "max-time")
        return output

    def test_max_time_in_the_middle_of_an_epoch(self):
        whole = self.folder / "whole"
        self.train_run(whole, "--workers", "1")
        self.assertEqual(runs.of_kind(whole, "end")[0]["step"], 3 * STEPS_PER_EPOCH)
        parts = self.stopped("parts", "--workers", "2", "--checkpoint-every", "5")
        printed = ""
        for attempt in range(3):
            self.assertEqual([runs.checkpoint_step(path) for path in runs.checkpoints(parts)], [attempt + 1])
            if attempt < 2:
                printed = self.train_run(parts, "--resume", "--max-time", "0.001", "--workers", str(attempt + 1))
                self.assertIn(f"continuing after step {attempt + 1}", printed)
        runs.train(self.digits, parts, "--resume", "--workers", "3", "--checkpoint-every", "5")
        self.assertEqual(runs.weights(parts), runs.weights(whole))
        self.assertEqual({event["attempt"] for event in runs.events(parts)}, {0, 1, 2, 3})

    def test_other_arithmetic_goes_on_too(self):
        for name, options in {"adamw": ["--optimizer", "adamw", "--gradient-clip", "0.5"],
                              "dropout": ["--network", "squeezenet", "--image-size", "33x33", "--max-epochs", "1"],
                              "mean-std": ["--normalize", "mean-std", "--augment", "flip,shift", "--precision",
                                           "bf16-mixed"]}.items():
            with self.subTest(name):
                whole = self.folder / f"{name}-whole"
                self.train_run(whole, *options, "--workers", "3")
                parts = self.stopped(f"{name}-parts", *options, "--workers", "1")
                runs.train(self.digits, parts, "--resume", "--workers", "2")
                self.assertEqual(runs.weights(parts), runs.weights(whole))

    def test_a_run_of_before_groups_of_batch_norm_goes_on_with_one_shard(self):
        whole = self.folder / "shard-groups"
        self.train_run(whole, "--batch-norm-group", "1")
        parts = self.stopped("shard-groups-parts", "--batch-norm-group", "1")
        manifest = json.loads((parts / "options.json").read_text())
        self.assertEqual(manifest["plan"]["step"].pop("batch_norm_group"), 1)
        (parts / "options.json").write_text(json.dumps(manifest))
        runs.train(self.digits, parts, "--resume", "--workers", "3")
        self.assertEqual(runs.weights(parts), runs.weights(whole))

    def test_finished(self):
        output = self.folder / "finished"
        self.train_run(output)
        before, log = runs.weights(output), len(runs.events(output))
        printed = self.train_run(output, "--resume", "--workers", "1")
        self.assertIn("is finished: 21 steps", printed)
        self.assertEqual((runs.weights(output), len(runs.events(output))), (before, log))
        self.assertIn("already contains a run", self.train_run(output, status=2))
        self.assertEqual(runs.weights(output), before)

    def test_options_that_must_not_change(self):
        output = self.stopped("options")
        for option, value in {"seed": "5", "mini-batch-size": "33", "learning-rate": "0.5", "shards": "4",
                              "network": "mlp", "augment": "flip", "optimizer": "adam",
                              "max-epochs": "4", "validation-split": "0.3", "precision": "64-true",
                              "image-size": "13x13"}.items():
            with self.subTest(option):
                printed = runs.train(self.digits, output, "--resume", f"--{option}", value, status=2)
                self.assertIn(f"--{option} {value} differs from the run's", printed)
                self.assertIn("must not change at resume", printed)
        printed = runs.train(self.digits, output, "--resume", "--nesterov", status=2)
        self.assertIn("--nesterov", printed)
        free = ["--workers", "3", "--checkpoint-every", "4", "--hash-every", "1", "--patience", "4", "--memory-share",
                "0.1", "--timing", "--verbose", "--execution", "cpu"]
        runs.train(self.digits, output, "--resume", *free)

    def test_data_named_from_another_folder(self):
        output, here = self.folder / "elsewhere", self.folder / "elsewhere data"
        here.mkdir()
        for name, data in (("images", self.digits), ("held out", self.held_out)):
            (here / name).symlink_to(data)
        options = ["--validation", "held out", "--test", "held out", *runs.SMALL]
        runs.run("train", "images", "--output", output, *options, "--max-time", "0.001", folder=here)
        for folder, data in ((self.folder, self.digits), (here, "images")):
            runs.run("train", data, "--output", output, "--resume", "--max-time", "0.001", folder=folder)
        runs.run("report", output, folder=self.folder)
        self.assertTrue((output / "report.html").exists())

    def test_what_max_time_ends_is_validated(self):
        output = self.stopped("validated")
        validation, = runs.of_kind(output, "validation")
        self.assertEqual((validation["step"], validation["values"]["samples"]), (1, 40))
        self.assertEqual(json.loads((output / "result.json").read_text())["accuracy"], validation["values"]["accuracy"])
        self.assertFalse((output / "best.safetensors").exists())  # it decides nothing
        output = self.stopped("validated each step", "--validate-every", "1")
        validation, = runs.of_kind(output, "validation")  # that was due
        self.assertTrue(validation["values"]["best"])
        self.assertEqual(runs.sha256(output / "best.safetensors"), runs.sha256(output / "model.safetensors"))

    def test_a_resume_without_the_folder_of_the_data(self):
        """The run knows it."""
        output = self.stopped("no data")
        printed = runs.run("train", "--resume", "--output", output, status=2)
        self.assertIn("lockstep train needs a FOLDER\n", printed)
        hint = next(line for line in printed.splitlines() if line.startswith("  hint: "))
        self.assertIn("continuing after step 1", runs.run(*shlex.split(hint.removeprefix("  hint: lockstep "))))

    def test_weights_of_a_finished_run_that_are_gone(self):
        output = self.folder / "gone"
        self.train_run(output, "--max-epochs", "1")
        scores = runs.run("evaluate", output, self.held_out)
        (output / "model.safetensors").unlink()
        printed = runs.run("evaluate", output, self.held_out, status=1)
        self.assertIn("which the run wrote at its end, is gone", printed)
        last = runs.checkpoints(output)[-1] / "model.safetensors"
        self.assertIn(f"name '{last}' instead" if " " in str(last) else f"name {last} instead", printed)
        self.assertEqual(runs.run("evaluate", last, self.held_out), scores)

    def test_a_run_that_lost_its_options(self):
        output = self.stopped("no-options")
        kept = (output / "options.json").read_bytes()
        (output / "options.json").unlink()
        self.assertIn("has a checkpoint but no options.json", runs.train(self.digits, output, "--resume", status=1))
        self.assertEqual(len(runs.checkpoints(output)), 1)
        (output / "options.json").write_bytes(kept)
        runs.train(self.digits, output, "--resume")

    def test_a_run_keeps_its_instructions(self):
        whole, options = self.folder / "avx2-whole", ["--isa", "avx2", "--max-epochs", "1"]
        self.train_run(whole, *options)
        for ranks in (1, 2):
            with self.subTest(ranks=ranks):
                parts = self.stopped(f"avx2-{ranks}", *options)
                for isa in ("auto", "avx512"):  # not every processor has the second, and says so
                    printed = runs.train(self.digits, parts, "--resume", "--isa", isa, status=2)
                    self.assertRegex(printed,
                                     f"--isa {isa} differs from the run's avx2, and must not change at resume|this "
                                     "processor has no such unit")
                launcher = ("run", "-n", ranks, runs.PROGRAM) if ranks > 1 else ()
                printed = runs.run(*launcher, "train", self.digits, "--output", parts, "--resume")
                self.assertNotIn("the arithmetic differs", printed)
                self.assertIn("isa avx2; ", runs.plan_line(parts, "arithmetic"))
                self.assertEqual(runs.weights(parts), runs.weights(whole))
        self.assertIn("--isa avx2 differs from the run's auto",
                      runs.train(self.digits, self.stopped("auto-isa"), "--resume", "--isa", "avx2", status=2))

    def test_a_run_that_had_not_begun(self):
        whole, output = self.folder / "begun", self.folder / "not-begun"
        self.train_run(whole, "--seed", "3")
        output.mkdir()
        for name in ("lock", "listing.jsonl", "listing.jsonl.part", "options.json.part"):  # what a kill may leave
            (output / name).write_text("[")
        for launcher in ((), ("run", "-n", 2, runs.PROGRAM)):
            printed = runs.run(*launcher, "train", self.digits, "--output", output, "--resume", status=1)
            self.assertIn("ended before it had written its options.json, so there is nothing to resume", printed)
            self.assertIn("hint: repeat its command without --resume", printed)
        self.train_run(output, "--seed", "3")
        self.assertEqual(runs.weights(output), runs.weights(whole))

    def test_a_finished_run_whose_end_was_not_said(self):
        told = ("reason", "accuracy", "loss", "best_accuracy", "best_step", "test_accuracy", "test_loss",
                "skipped_steps", "loss_scale", "weights_path")
        for ranks, more in ((1, ["--test", self.held_out]), (2, ["--precision", "fp16-mixed", "--max-steps", "3"])):
            with self.subTest(ranks=ranks):
                output = self.folder / f"unsaid-{ranks}"
                self.train_run(output, *more)
                before = runs.of_kind(output, "end")[0]
                result = output / "result.json"
                weights = json.loads(result.read_text())["weights_hash"]
                result.unlink()
                log = next((output / "events").iterdir())
                lines = log.read_text().splitlines(keepends=True)
                place = next(i for i, line in enumerate(lines) if '"kind":"end"' in line)
                # as a kill after the last checkpoint leaves it
                log.write_text("".join(lines[:place]) + lines[place][:20])
                (output / "curves.svg.part").write_text("<svg")
                (output / "notes.part").write_text("the user's own")
                launcher = ("run", "-n", ranks, runs.PROGRAM) if ranks > 1 else ()
                for _ in range(2):
                    self.assertIn("is finished: ",
                                  runs.run(*launcher, "train", self.digits, "--output", output, "--resume"))
                    self.assertEqual(json.loads(result.read_text())["weights_hash"], weights)
                    self.assertEqual([path.name for path in output.glob("*.part")], ["notes.part"])
                    ends = [event for event in runs.of_kind(output, "end")]
                    self.assertEqual(len(ends), 1)
                    self.assertEqual((ends[0]["step"], ends[0]["epoch"]), (before["step"], before["epoch"]))
                    self.assertEqual({name: ends[0]["values"].get(name) for name in told},
                                     {name: before["values"].get(name) for name in told})
                self.assertEqual(len(runs.of_kind(output, "validation")), 3 if ranks == 1 else 1,
                                 "nothing else was said anew")

    def test_a_run_that_was_stopped_where_its_patience_ends(self):
        # A rate that changes no answer: the second validation is no better than the first, and the third is not made.
        options = ["--network", "mlp", "--learning-rate", "1e-30", "--validate-every", "1", "--patience", "1"]
        whole, parts = self.folder / "patience-whole", self.stopped("patience-parts", *options)
        self.train_run(whole, *options)
        runs.train(self.digits, parts, "--resume", "--max-time", "0.001")
        self.assertEqual([(event["step"], event["values"]["reason"]) for event in runs.of_kind(parts, "end")],
                         [(1, "max-time"), (2, "max-time")])
        runs.train(self.digits, parts, "--resume")
        for output in (whole, parts):
            end = runs.of_kind(output, "end")[-1]
            self.assertEqual((end["step"], end["values"]["reason"]), (2, "patience"))
        self.assertEqual(runs.weights(parts), runs.weights(whole))

    def test_before_the_first_checkpoint_options_may_change(self):
        damaged = self.folder / "damaged"
        shutil.copytree(self.digits, damaged)
        (damaged / "3" / "empty.png").touch()
        output = self.folder / "before"
        self.assertIn("--on-bad-sample skip", self.train_run(output, folder=damaged, status=1))
        printed = runs.train(damaged, output, "--resume", "--on-bad-sample", "skip")
        self.assertIn("has no checkpoint yet, so it starts again", printed)
        self.train_run(self.folder / "at-once", "--on-bad-sample", "skip", folder=damaged)
        self.assertEqual(runs.weights(output), runs.weights(self.folder / "at-once"))

    def test_a_held_out_loss_that_is_no_number(self):
        output = self.folder / "nan"
        for options in (["--validate-every", "1", "--checkpoint-every", "1", "--learning-rate", "1e30"], ["--resume"]):
            self.assertIn("the loss became", self.train_run(output, *options, status=1) if options != ["--resume"]
                          else runs.train(self.digits, output, *options, status=1))
        self.assertFalse([event for event in runs.of_kind(output, "validation") if event["values"]["best"]
                          and event["values"]["loss"] == "nan"])

    def test_changed_training_folder(self):
        output = self.stopped("changed")
        changed = self.folder / "changed-digits"
        shutil.copytree(self.digits, changed)
        runs.train(changed, output, "--resume", "--max-time", "0.001")  # a copy elsewhere is the same data
        shutil.copy(next((changed / "0").iterdir()), changed / "3" / "new.png")
        printed = runs.train(changed, output, "--resume", status=2)
        self.assertIn("the training folder has changed", printed)
        self.assertIn(f'added since: "{changed}/3/new.png"\n', printed)
        (changed / "3" / "new.png").unlink()
        renamed = next((changed / "3").iterdir())
        renamed.rename(changed / "3" / "zzz.png")
        printed = runs.train(changed, output, "--resume", status=2)
        self.assertIn("the training folder has changed", printed)
        self.assertIn(f'added since: "{changed}/3/zzz.png"; removed since: "{self.digits}/3/{renamed.name}"', printed)
        (changed / "3" / "zzz.png").rename(renamed)
        runs.train(changed, output, "--resume")

    def test_changed_validation_folder(self):
        held_out = self.folder / "held-out"
        shutil.copytree(self.digits, held_out)
        output = self.stopped("changed-validation", "--validation", held_out)
        renamed = next((held_out / "3").iterdir())
        renamed.rename(held_out / "3" / "zzz.png")
        self.assertIn("the validation folder has changed",
                      runs.train(self.digits, output, "--validation", held_out, "--resume", status=2))
        (held_out / "3" / "zzz.png").rename(renamed)
        runs.train(self.digits, output, "--validation", held_out, "--resume")

    def refused(self, data, output):
        printed = runs.train(data, output, "--resume", status=2)
        self.assertIn("has changed since", printed)
        return printed

    def test_changed_files_of_several_samples(self):
        options = ["--recipe", "plain", "--network", "mlp", "--mini-batch-size", "8", "--max-time", "0.001"]
        data, output = self.folder / "idx", self.folder / "idx-run"
        idx.write_idx(self.digits, data)
        runs.train(data, output, *options)
        copy = self.folder / "idx-copy"
        shutil.copytree(data, copy)
        runs.train(copy, output, "--resume", "--max-time", "0.001")
        labels = copy / "train-labels-idx1-ubyte"
        labels.write_bytes(labels.read_bytes()[:-1] + b"\0")
        self.assertIn(f'other samples or labels since in "{copy}/train-images-idx3-ubyte.gz"\n',
                      self.refused(copy, output))

        data, output = self.folder / "cifar", self.folder / "cifar-run"
        data.mkdir()
        for number in (1, 2, 3):
            records = [bytes([label]) + bytes([20 * label + number]) * 3072 for label in range(10)]
            (data / f"data_batch_{number}.bin").write_bytes(b"".join(records) * 2)
        runs.train(data, output, *options)
        changed = data / "data_batch_2.bin"
        changed.write_bytes(b"\5" + changed.read_bytes()[1:])
        self.assertIn(f'other samples or labels since in "{changed}"\n', self.refused(data, output))

    def test_changed_files_of_sequences(self):
        options = ["--mini-batch-size", "8", "--max-time", "0.001"]
        for name, more in (("csv", []), ("csv-pieces", ["--tbptt-length", "4"])):
            with self.subTest(name):
                data, output = self.folder / name, self.folder / f"{name}-run"
                sequences.write_csv(data, 40, seed=3, shortest=9)
                runs.train(data, output, *options, *more)
                changed = data / "class1" / "4.csv"
                changed.write_text(changed.read_text().replace("0.", "1.", 1))
                self.assertIn(f'other samples or labels since in "{changed}"\n', self.refused(data, output))
                (data / "class1" / "more.csv").write_text(changed.read_text())
                printed = self.refused(data, output)
                self.assertIn(f'added since: "{data}/class1/more.csv"', printed)
                self.assertIn(f'"{changed}"', printed)

    def test_the_choice_of_precision_auto_is_kept(self):
        output = self.stopped("auto", "--precision", "auto")
        chosen = runs.of_kind(output, "plan")[-1]["values"]["precision"]
        self.assertIn(chosen, ["32-true", "bf16-mixed"])
        runs.train(self.digits, output, "--resume")
        self.assertEqual(runs.of_kind(output, "plan")[-1]["values"]["precision"], chosen)

    def test_nothing_to_resume(self):
        self.assertIn("there is no run folder", runs.train(self.digits, self.folder / "nowhere", "--resume", status=1))
        self.assertFalse((self.folder / "nowhere").exists())
        other = self.folder / "other"
        other.mkdir()
        (other / "letter.txt").write_text("not a run\n")
        self.assertIn("does not contain a run", runs.train(self.digits, other, "--resume", status=2))
        self.assertIn("not empty", runs.train(self.digits, other, status=2))
        self.assertEqual([path.name for path in other.iterdir()], ["letter.txt"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
