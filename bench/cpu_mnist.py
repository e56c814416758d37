"""MNIST to 99 % from a cold start: from the command to model.safetensors, five seeds, then the test set.

The recipe is mnist-99.json (network) and mnist-99-options.json (options of `lockstep train`); it was chosen on a tenth
of the training images held out, and its steps are fixed. The test set is read after the weights are written, by
`lockstep evaluate`. PyTorch DDP takes the same recipe from the same files. """

import json
import os
import shutil
import statistics
import subprocess
import sys
import time

import common
from cpu_link import RANKS
from cpu_report import RATIO, SHARE, Limits, Result, fail, spread, test_data

SEEDS = 5
PEER_SEEDS = 1
RECIPE = common.ROOT / "bench" / "mnist-99-options.json"
NETWORK = common.ROOT / "bench" / "mnist-99.json"
SCRIPT = common.ROOT / "bench" / "cpu_mnist_peer.py"
MODEL = "model.safetensors"


def timed(command, output, environment=None, is_complete=None):
    """Seconds from the command to the last writing of its model.

    is_complete: whether a command that has failed had done all its work before.
    """
    shutil.rmtree(output, ignore_errors=True)
    start = time.time()
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env=environment)
    if done.returncode != 0 and is_complete is not None and is_complete():
        # PyTorch's ranks sometimes abort while they shut down.
        print(f"  PyTorch's launcher ended with {done.returncode} after all its work was done; its figures count")
    elif done.returncode != 0:
        fail(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout[-2000:]}", "run it alone")
    return (output / MODEL).stat().st_mtime - start


def ours(options, seed, output):
    """Seconds, and accuracy in percent."""
    train, test = (test_data(f"mnist/{part}-images-idx3-ubyte.gz") for part in ("train", "t10k"))
    seconds = timed([options.lockstep, "train", train, "--config", RECIPE, "--network", NETWORK, "--execution", "cpu",
                     "--workers", RANKS,
                     "--validation-split", 0, "--seed", seed, "--output", output], output)
    command = [options.lockstep, "evaluate", output, test, "--execution", "cpu", "--json"]
    done = subprocess.run(list(map(str, command)), check=True, stdout=subprocess.PIPE, text=True)
    return seconds, 100 * json.loads(done.stdout)["accuracy"]


def theirs(seed, output):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", RANKS, SCRIPT,
               test_data("mnist"), output, "--seed", seed]
    result = output / "result.json"
    seconds = timed(command, output, os.environ | common.KEEP_MEMORY | {"OMP_NUM_THREADS": "1"},
                    lambda: result.exists() and (output / MODEL).exists())
    return seconds, json.loads(result.read_text())


def run(options):
    output = common.WORK / "cpu-mnist"
    seeds, peer_seeds = (1, 1) if options.quick else (SEEDS, PEER_SEEDS)
    limits = Limits(options.lockstep, "multiply_add", "sgemm")
    found, peers = [], []
    for seed in range(seeds):
        found.append(ours(options, seed, output))
        print(f"  Lockstep, seed {seed}: {found[-1][0]:.2f} s, {found[-1][1]:.2f} %, load {common.load_average()}",
              flush=True)
        if seed < peer_seeds:
            seconds, result = theirs(seed, output)
            peers.append((seconds, 100 * result["accuracy"]))
            print(f"  PyTorch, seed {seed}: {seconds:.2f} s, {peers[-1][1]:.2f} %, load {common.load_average()}",
                  flush=True)
    shutil.rmtree(output)
    limits.again()
    sides = {f"Lockstep, {RANKS} workers": found, f"PyTorch DDP, {RANKS} gloo ranks, {result['layout']}": peers}
    rows = [[side, len(trials), common.middle_and_spread([trial[0] for trial in trials]),
             f"{statistics.mean(trial[1] for trial in trials):.3f}",
             ", ".join(f"{trial[1]:.2f}" for trial in trials)] for side, trials in sides.items()]
    middle = statistics.median(seconds for seconds, _ in found)
    figures = {
        "mean test accuracy, %": statistics.mean(accuracy for _, accuracy in found),
        "seconds to the model, the slowest seed": max(seconds for seconds, _ in found),
        RATIO: statistics.median(seconds for seconds, _ in peers) / middle,
        SHARE: 100 * result["flops"] * result["images"] / 1e9 / middle / (RANKS * limits.found["sgemm"]["one"]),
    }
    columns = ["side", "seeds", "seconds to the model, median (smallest to largest)", "mean accuracy, %", "each seed"]
    tables = common.table(columns, rows) + "\n" + limits.table()
    return Result(f"{seeds} seeds of Lockstep and {peer_seeds} of PyTorch, {result['flops'] / 1e6:,.1f} MFLOP an image",
                  f"spread of the seconds {spread([seconds for seconds, _ in found])}", tables, figures,
                  f"the sgemm rate of {RANKS} cores, the start included")
