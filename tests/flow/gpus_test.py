#!/usr/bin/env python3
"""Several GPUs in one run, with stand-ins whose tensors lie on the CPU (stand_in/gpus.cpp): the same weights as on the
CPU for any number of GPUs and workers.

LOCKSTEP_STAND_IN names the folder of the stand-ins for the CUDA plug-in and for NVIDIA's driver, LOCKSTEP_FIT_ON_POOL
the tests of training in tasks, LOCKSTEP_CUSTOM_LOOP the example.

Long because the tests share what the CPU has trained. """

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import unittest

import runs
import sequences

STAND_IN = pathlib.Path(os.environ.get("LOCKSTEP_STAND_IN", runs.ROOT / "build/release/tests/flow/stand_in"))
FIT_ON_POOL = pathlib.Path(os.environ.get("LOCKSTEP_FIT_ON_POOL",
                                          runs.ROOT / "build/release/bin/lockstep_fit_on_pool_test"))
CUSTOM_LOOP = pathlib.Path(os.environ.get("LOCKSTEP_CUSTOM_LOOP",
                                          runs.ROOT / "build/release/bin/lockstep_example_custom_loop"))
PLACES = {"one": ["--execution", "gpu"], "all four": ["--execution", "multi-gpu"],
          "the pool of this machine": ["--execution", "parallel"], "two": ["--devices", "3,1"],
          "two workers each": ["--execution", "multi-gpu", "--workers", "8"],
          "four workers on one": ["--devices", "2", "--workers", "4"]}
# On a GPU a batch norm normalises over one shard.
ON_CPU = ["--execution", "cpu", "--batch-norm-group", "1"]
GRADIENT_BYTES = 4 * 26_000  # about, of digits_cnn
SETTINGS = {
    "digits_cnn": [],
    "64-true, clipped, accumulated": ["--precision", "64-true", "--gradient-clip", "0.5", "--accumulate", "2"],
    "bf16-mixed, augmented, adamw": ["--precision", "bf16-mixed", "--augment", "flip,shift", "--optimizer", "adamw",
                                     "--normalize", "mean-std"],
    "averaged": ["--exchange", "average", "--averaging-frequency", "3", "--shards", "8", "--mini-batch-size", "4"],
}

# Two layers that are larger than the largest bucket, so that there are two buckets at least.
LARGE = [{"type": "flatten"}, {"type": "linear", "features": 1100}, {"type": "relu"},
         {"type": "linear", "features": 1000}, {"type": "relu"}, {"type": "linear", "features": 1100}, {"type": "relu"},
         {"type": "linear", "features": "classes"}]


# A colour JPEG and a grey one of 16x16 pixels; other numbers in their quantization tables make other images of them.
SEED_FOLDER = pathlib.Path(__file__).parents[1] / "fuzz/seeds/jpeg"
SEEDS = [(SEED_FOLDER / name).read_bytes() for name in ("420.jpg", "grey.jpg")]


def write_photos(folder, count):
    """`count` JPEGs in each of two classes, and one that no GPU decodes."""
    for label, first in (("a", 3), ("b", 40)):
        (folder / label).mkdir(parents=True)
        for number in range(count):
            seed = SEEDS[number % len(SEEDS)]
            table = seed.index(b"\xff\xdb") + 5
            photo = bytearray(seed)
            photo[table:table + 8] = bytes(first + (number * 7 + place) % 30 for place in range(8))
            (folder / label / f"{number:03}.jpg").write_bytes(photo)
    shutil.copy(SEED_FOLDER / "ink.jpg", folder / "a" / "ink.jpg")


class Gpus(runs.TestFolders, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        # The program looks for its engine, and that for the plug-in, beside itself.
        cls.program = cls.folder / "bin" / "lockstep"
        cls.program.parent.mkdir()
        shutil.copy(runs.PROGRAM, cls.program)
        shutil.copy(runs.PROGRAM.with_name("lockstep-engine"), cls.program.parent)
        shutil.copy(STAND_IN / "liblockstep_cuda.so", cls.program.parent)
        cls.own_program, runs.PROGRAM = runs.PROGRAM, cls.program
        (cls.folder / "tmp").mkdir()
        cls.trained = {}  # options -> what train() has given
        cls.environment = {"TMPDIR": str(cls.folder / "tmp"),
                           "LD_LIBRARY_PATH": f"{STAND_IN}:{os.environ.get('LD_LIBRARY_PATH', '')}"}

    @classmethod
    def tearDownClass(cls):
        runs.PROGRAM = cls.own_program
        super().tearDownClass()

    def run_here(self, *arguments, status=0):
        return runs.run(*arguments, status=status, environment=self.environment)

    def train(self, name, *options, status=0, data=None):
        output = self.folder / name
        data = [data] if data else [self.digits, "--validation", self.held_out]
        printed = self.run_here("train", *data, "--output", output, *options, status=status)
        return output, printed

    def train_once(self, *options):
        """The same for all tests that ask for it."""
        if options not in self.trained:
            self.trained[options] = self.train(f"once {len(self.trained)}", *options)
        return self.trained[options]

    def on_cpu(self):
        return self.train_once(*ON_CPU, *runs.SMALL)[0]

    def test_any_number_of_gpus_gives_the_weights_of_the_cpu(self):
        for setting, options in SETTINGS.items():
            # In these two ways batch norms have no groups on a CPU either, and the option is refused.
            cpu = ["--execution", "cpu"] if {"--accumulate", "average"} & set(options) else ON_CPU
            on_cpu, _ = self.train_once(*cpu, *runs.SMALL, *options)
            few = PLACES if setting == "digits_cnn" else ["two", "two workers each"]
            for place in runs.some(few, [place for place in PLACES if place not in few]):
                with self.subTest(setting=setting, place=place):
                    output, _ = self.train_once(*PLACES[place], *runs.SMALL, *options)
                    self.assertEqual(runs.weights(output), runs.weights(on_cpu))

    def test_processes_with_a_gpu_each_give_the_weights_of_the_cpu(self):
        for workers in (1, 2):
            output = self.folder / f"processes {workers}"
            self.run_here("run", "-n", 4, runs.PROGRAM, "train", self.digits, "--validation", self.held_out, "--output",
                          output, *runs.SMALL, "--workers", workers)
            self.assertIn("gpu 0", runs.plan_line(output, "device"))
            self.assertEqual(runs.plan_line(output, "workers").split()[0], str(4 * workers))
            self.assertEqual(runs.weights(output), runs.weights(self.on_cpu()))
        answers = [self.run_here(*command, "evaluate", output, self.held_out, "--json")
                   for command in ([], ["run", "-n", 3, runs.PROGRAM])]
        self.assertEqual(answers[0], answers[1])

    def test_the_exchange_beside_backward_changes_no_bit(self):
        network = self.folder / "large.json"
        network.write_text(json.dumps(LARGE))
        options = [*runs.SMALL, "--network", network, "--max-steps", "4"]
        on_cpu, _ = self.train("beside cpu", *ON_CPU, *options)
        places = {"1": ["--devices", "0"], "2": ["--devices", "3,1"], "4": ["--execution", "multi-gpu"]}
        ways = {"beside": ["--cuda-graphs", "off"], "after": ["--cuda-graphs", "off", "--overlap=false"],
                "recorded": ["--cuda-graphs", "on"]}

        def check(output, ranks, way):
            self.assertEqual(runs.weights(output), runs.weights(on_cpu))
            several = runs.of_kind(output, "shards")[-1]["values"]["buckets"] > 1
            self.assertEqual(several, way == "beside" and ranks > 1)
            hidden = [event["values"]["hidden_exchange_seconds"] for event in runs.of_kind(output, "step")]
            self.assertTrue(hidden)
            if not several:
                self.assertEqual(set(hidden), {0})

        for ranks, place in places.items():
            for way, more in ways.items():
                with self.subTest(gpus=ranks, way=way):
                    check(self.train(f"{way} on {ranks}", *place, *options, *more)[0], int(ranks), way)
        for ranks in (2, 4):
            with self.subTest(processes=ranks):
                output = self.folder / f"beside in {ranks}"
                self.run_here("run", "-n", ranks, runs.PROGRAM, "train", self.digits, "--validation", self.held_out,
                              "--output", output, *options, "--cuda-graphs", "off")
                check(output, ranks, "beside")
        with self.subTest("workers of one GPU"):
            check(self.train("beside shared", *PLACES["two workers each"], *options)[0], 4, "beside")

    def test_processes_without_a_gpu_load_data_for_those_that_have_one(self):
        """Also into the memory of a GPU, and where a loader stops in the middle."""
        settings = {"every epoch": ["--memory-share", "0", "--resident", "off", "--augment", "shift"],
                    "parts": ["--memory-share", "0", "--resident", "off", "--resize-to", "20x20", "--augment",
                              "random-crop"],
                    "kept": ["--resident", "off"], "resident": ["--resident", "on"]}
        for name, options in settings.items():
            with self.subTest(name):
                of_data = [option for option in options if option not in ("--resident", "on", "off")]
                on_cpu, _ = self.train_once(*ON_CPU, *runs.SMALL, *of_data)
                output = self.folder / f"loaded {name}"
                printed = self.run_here("run", "-n", 6, runs.PROGRAM, "train", self.digits, "--validation", self.held_out,
                                        "--output", output, *runs.SMALL, *options)
                self.assertEqual(runs.weights(output), runs.weights(on_cpu))
                self.assertRegex(runs.plan_line(output, "workers"), "^4 .* of each of 4 ranks")
                self.assertEqual(runs.plan_line(output, "data loaders"),
                                 "2 no GPU is left for processes 4, 5 of the launcher; they decode images for the ranks "
                                 "of their machines")
                decoded = {int(rank): int(count) for count, rank in re.findall(r"decoded (\d+) images? for rank (\d)",
                                                                               printed)}
                self.assertEqual(set(decoded), {0, 1}, printed)
                self.assertGreater(sum(decoded.values()), 0, printed)

    def test_a_loader_that_stands_still_holds_nobody_up(self):
        output = self.folder / "standing"
        launcher = subprocess.Popen(runs.command("run", "-n", 5, runs.PROGRAM, "train", self.digits, "--validation",
                                                 self.held_out, "--output", output, *runs.SMALL, "--max-epochs", "20",
                                                 "--memory-share", "0", "--resident", "off"),
                                    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                    env={**os.environ, **self.environment})
        runs.wait_for(lambda: runs.steps_done(output) > 20)
        children = pathlib.Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text().split()
        loader = next(int(child) for child in children
                      if b"RANK=4\0" in pathlib.Path(f"/proc/{child}/environ").read_bytes())
        os.kill(loader, signal.SIGSTOP)
        runs.wait_for(lambda: runs.of_kind(output, "end"))
        os.kill(loader, signal.SIGCONT)
        printed = launcher.communicate(timeout=60)[0]
        self.assertEqual(launcher.returncode, 0, printed)

    def test_the_plan_names_the_gpus_and_who_shares_them(self):
        output, _ = self.train_once(*PLACES["two workers each"], *runs.SMALL)
        self.assertEqual(runs.plan_line(output, "device"), "gpu 0,1,2,3 asked for")
        self.assertEqual(runs.plan_line(output, "workers"), "8 asked for; 2 share each GPU")
        owners = runs.of_kind(output, "shards")[0]["values"]["owners"]
        self.assertEqual(owners, list(range(8)))
        self.assertIn("gpu 0,1", self.run_here("plan", self.digits, "--devices", "0,1"))

    def test_images_on_the_gpu_and_recorded_shards_change_no_weight(self):
        on_cpu = self.on_cpu()
        self.assertEqual(runs.plan_line(on_cpu, "images on the GPU"), "")
        self.assertEqual(runs.plan_line(on_cpu, "CUDA graphs"), "")
        recorded, side_by_side = "yes one shard after the other", "yes a worker's shards at the same time"
        for name, options, images, graphs in (
            ("resident", ["--cuda-graphs", "off"], "all", "no --cuda-graphs off"),
            ("on the host", ["--resident", "off", "--cuda-graphs", "off"], "none --resident off",
             "no --cuda-graphs off"),
            ("recorded", [], "all", recorded),
            ("recorded from the host", ["--resident", "off"], "none", recorded),
            ("recorded on four", ["--cuda-graphs", "on", "--execution", "multi-gpu"], "all", recorded),
            ("side by side", ["--cuda-graphs", "side-by-side"], "all", side_by_side),
            ("side by side on two", ["--cuda-graphs", "side-by-side", "--devices", "0,2"], "all", side_by_side),
            ("shared", ["--devices", "2", "--workers", "2"], "all", "no several workers share a GPU"),
        ):
            with self.subTest(name=name):
                output, printed = self.train_once("--execution", "gpu", *runs.SMALL, *options)
                self.assertEqual(runs.weights(output), runs.weights(on_cpu))
                self.assertTrue(runs.plan_line(output, "images on the GPU").startswith(images))
                self.assertEqual(runs.plan_line(output, "CUDA graphs"), graphs)
                self.assertEqual("images brought to the GPU" in printed, images == "all")

    def test_jpegs_decoded_on_gpus_give_the_same_weights_for_any_number(self):
        photos = self.folder / "photos"
        write_photos(photos, 40)
        few = ["--decode", "gpu", "--network", "lenet", "--image-size", "18x17", "--mini-batch-size", "16",
               "--max-epochs", "2", "--augment", "flip", "--resize", "crop"]
        first, _ = self.train("decoded", "--execution", "gpu", *few, data=photos)
        self.assertEqual(runs.plan_line(first, "decode"), "gpu JPEG by stand-in for nvJPEG; several levels off Pillow's")
        self.assertIn("; jpeg stand-in for nvJPEG", runs.plan_line(first, "arithmetic"))
        exact, _ = self.train("decoded exactly", "--execution", "gpu", *few, "--decode", "exact", data=photos)
        self.assertNotEqual(runs.weights(first), runs.weights(exact))
        cache = ["--memory-share", "0", "--cache", self.folder / "decoded images"]
        places = [("all four", PLACES["all four"]), ("two workers", ["--devices", "1", "--workers", "2"]),
                  ("every epoch anew", ["--execution", "gpu", "--memory-share", "0"]),
               ("into a cache", ["--execution", "gpu", *cache]),
                  ("from the cache", ["--execution", "multi-gpu", *cache])]
        for place, where in runs.some(places,
                                      [(place, where) for place, where in PLACES.items() if place != "all four"]):
            with self.subTest(place=place):
                output, _ = self.train(f"decoded {place}", *where, *few, data=photos)
                self.assertEqual(runs.weights(output), runs.weights(first))
        processes = self.folder / "decoded processes"
        self.run_here("run", "-n", 4, runs.PROGRAM, "train", photos, "--output", processes, *few)
        self.assertEqual(runs.weights(processes), runs.weights(first))
        # The cache of an exact run is another file.
        output, _ = self.train("exact beside it", "--execution", "gpu", *few, *cache, "--decode", "exact", data=photos)
        self.assertEqual(runs.weights(output), runs.weights(exact))

        stopped, _ = self.train("decoded part", "--execution", "gpu", *few, "--max-time", "0.001", data=photos)
        again = ["train", photos, "--output", stopped, "--resume"]
        self.assertIn("--decode exact differs from the run's gpu", self.run_here(*again, "--decode", "exact", status=2))
        self.assertIn("this one is on the CPU", self.run_here(*again, "--execution", "cpu", status=1))
        self.run_here(*again, "--devices", "3,1")
        self.assertEqual(runs.weights(stopped), runs.weights(first))

        # A model is of use without a GPU too, where images are decoded exactly.
        scores = {name: self.run_here("predict", run, photos, "--execution", where)
                  for name, run, where in (("gpu", first, "gpu"), ("cpu", first, "cpu"),
                                           ("several", first, "multi-gpu"))}
        self.assertEqual(scores["gpu"], scores["several"])
        self.assertNotEqual(scores["gpu"], scores["cpu"])

    def test_a_machine_without_nvjpeg_refuses_to_decode_on_the_gpu(self):
        without = {**self.environment, "STAND_IN_WITHOUT_NVJPEG": "1"}
        printed = runs.run("train", self.digits, "--decode", "gpu", "--output", self.folder / "without nvjpeg",
                           status=1, environment=without)
        self.assertIn("lockstep: --decode gpu is impossible: there is no nvJPEG\n  hint: use --decode exact",
                      printed)

    def test_what_keeps_images_on_the_host_is_named(self):
        plan = self.run_here("plan", self.digits, "--execution", "gpu", "--augment", "flip")
        self.assertIn("--augment changes the images on the host", plan)
        _, printed = self.train("refused", "--execution", "gpu", "--augment", "flip", "--resident", "on", *runs.SMALL,
                                status=2)
        self.assertIn("--resident on is impossible: --augment changes the images on the host", printed)
        refused = self.run_here("plan", self.digits, "--devices", "1", "--workers", "2", "--cuda-graphs", "on",
                                status=2)
        self.assertIn("--cuda-graphs is impossible: several workers share a GPU", refused)

    def test_trials_of_a_sweep_wait_for_the_memory_of_their_gpu(self):
        """However much memory the machine has."""
        sweep = self.folder / "sweep"
        runs.run("sweep", "--search", "random", "--count", "3", "--trials", "3", "--learning-rate", "0.0005..0.002:log",
                 "--output", sweep, "--", "train", self.digits, "--validation", self.held_out, "--execution", "gpu",
                 "--resident", "off", *runs.SMALL, environment={**self.environment, "STAND_IN_FREE_BYTES": "1000000"})
        results = [json.loads((sweep / f"trials/000{trial}/result.json").read_text()) for trial in range(3)]
        for one in results:
            under_way = [other for other in results if other["started"] <= one["started"] < other["ended"]]
            self.assertEqual(under_way, [one])
            self.assertEqual(one["reason"], "finished")

    def test_a_trial_on_several_gpus_waits_for_each(self):
        sweep, files = self.folder / "several", []
        for devices in ([0, 1], [1]):
            files.append(self.folder / f"on-{len(devices)}.json")
            files[-1].write_text(json.dumps({"devices": devices}))
        runs.run("sweep", "--search", "grid", "--trials", "2", "--workers", "2", "--config", ",".join(map(str, files)),
                 "--output", sweep, "--", "train", self.digits, "--validation", self.held_out, "--resident", "off", *runs.SMALL,
                 environment={**self.environment, "STAND_IN_FREE_BYTES": "1000000"})
        folders = [sweep / f"trials/000{trial}" for trial in range(2)]
        self.assertEqual(sorted(runs.of_kind(folder, "plan")[0]["values"]["devices"] for folder in folders), [[0, 1], [1]])
        first, second = sorted((json.loads((folder / "result.json").read_text()) for folder in folders),
                               key=lambda result: result["started"])
        self.assertLessEqual(first["ended"], second["started"])

    def test_a_run_with_images_on_the_gpu_goes_on_without(self):
        output, _ = self.train("resident part", "--execution", "gpu", "--resident", "on", "--max-time", "0.001", *runs.SMALL)
        again = ["train", self.digits, "--output", output, "--resume"]
        self.run_here(*again, "--resident", "off", "--cuda-graphs", "off", "--max-time", "0.001")
        self.run_here(*again, "--execution", "cpu")
        self.assertEqual(runs.weights(output), runs.weights(self.on_cpu()))

    def test_a_stopped_run_goes_on_on_other_gpus(self):
        output, _ = self.train("part", "--execution", "multi-gpu", "--max-time", "0.001", *runs.SMALL)
        again = ["train", self.digits, "--output", output, "--resume"]
        # Without a word about the place it goes on where it was.
        for where in ([], ["--execution", "gpu", "--workers", "2"]):
            self.run_here(*again, *where, "--max-time", "0.001")
            self.assertEqual(runs.of_kind(output, "end")[-1]["values"]["reason"], "max-time")
        self.assertEqual([len(plan["values"]["devices"]) for plan in runs.of_kind(output, "plan")], [4, 4, 2])
        self.run_here(*again, "--devices", "2", "--workers", "1")
        self.assertEqual(runs.weights(output), runs.weights(self.on_cpu()))

    def test_a_run_on_named_gpus_goes_on_on_the_cpu(self):
        output, _ = self.train("named", "--devices", "3,1", "--max-time", "0.001", *runs.SMALL)
        self.run_here("train", self.digits, "--output", output, "--resume", "--execution", "cpu")
        self.assertEqual(runs.weights(output), runs.weights(self.on_cpu()))

    def test_training_in_tasks_of_a_pool(self):
        """The tests of fit and of custom loops in groups of threads and of processes, whose workers have a GPU
        each here."""
        program = self.program.parent / FIT_ON_POOL.name
        shutil.copy(FIT_ON_POOL, program)
        done = subprocess.run([program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=runs.SECONDS_PER_RUN, env={**os.environ, **self.environment})
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_a_custom_loop_sends_its_gradients_from_gpu_to_gpu(self):
        """Between threads by copies (on_pool/custom_loop_test.cpp), between processes over the link, which counts here.
"""
        program = self.program.parent / CUSTOM_LOOP.name
        shutil.copy(CUSTOM_LOOP, program)
        log = self.folder / "sent"
        on_gpus = {**os.environ, **self.environment, "STAND_IN_LINK_LOG": str(log)}

        def custom_loop(program, *where, environment=None):
            command = [program, self.digits, "--epochs", "1", *where]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment,
                                  timeout=runs.SECONDS_PER_RUN)
            return done.stdout

        on_cpu = custom_loop(CUSTOM_LOOP, "--workers", "1")
        for workers in ("1", "2", "3"):
            with self.subTest(threads=workers):
                self.assertEqual(custom_loop(program, "--workers", workers, environment=on_gpus), on_cpu)
        self.assertFalse(log.exists())
        for processes in ("2", "3"):
            with self.subTest(processes=processes):
                log.unlink(missing_ok=True)
                self.assertEqual(custom_loop(program, "--processes", processes, environment=on_gpus), on_cpu)
                sent = dict(line.split() for line in log.read_text().splitlines())
                self.assertEqual(len(sent), int(processes))
                # In each of two steps a rank sends its shards' sums but for its own part, and its part of the whole.
                for bytes_sent in sent.values():
                    self.assertGreater(int(bytes_sent), 2 * GRADIENT_BYTES)

    def same_on_several(self, name, *options, data=None):
        on_cpu, _ = self.train(f"{name} cpu", *ON_CPU, *options, data=data)
        on_gpus, _ = self.train(f"{name} gpus", "--execution", "multi-gpu", *options, data=data)
        self.assertEqual(runs.weights(on_gpus), runs.weights(on_cpu))

    def test_a_kept_backbone_is_the_same_on_several(self):
        small = ["--network", "squeezenet", *runs.SMALL, "--image-size", "33x33", "--max-epochs", "1"]
        first, _ = self.train("first", *ON_CPU, *small)
        self.same_on_several("transfer", *small, "--weights", first / "model.safetensors", "--head", "new", "--freeze",
                             "features.*", "--keep-features", "always")

    def test_carried_states_are_the_same_on_several(self):
        waves = self.folder / "waves.ts"
        sequences.write_ts(waves, 40, seed=1)
        self.same_on_several("sequences", "--tbptt-length", "4", "--max-epochs", "2", "--mini-batch-size", "8",
                             data=waves)

    def test_scores_are_the_same_on_several(self):
        run = self.on_cpu()
        # In mini-batches of 32 a CPU has as many shards as a GPU.
        answers = [json.loads(self.run_here("evaluate", run, self.held_out, "--json", "--mini-batch-size", "32", *where))
                   for where in (["--execution", "cpu"], *PLACES.values())]
        for answer in answers[1:]:
            self.assertEqual(answer, answers[0])

    def test_what_cannot_be_is_said_before_anything_is_made(self):
        output, printed = self.train("uneven", "--execution", "multi-gpu", "--workers", "6", *runs.SMALL, status=2)
        self.assertIn("6 workers cannot share 4 GPUs evenly", printed)
        self.assertIn("--workers 4 or 8", printed)
        self.assertFalse(output.exists())

    def test_a_rank_that_fails_ends_the_run_with_its_own_words(self):
        _, printed = self.train("diverged", "--execution", "multi-gpu", *runs.SMALL, "--learning-rate", "1e30",
                                status=1)
        self.assertIn("loss", printed)


if __name__ == "__main__":
    unittest.main()
