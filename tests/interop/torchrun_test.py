#!/usr/bin/env python3
"""The real torchrun starts our ranks; lockstep run starts ranks of torch.distributed.

usage: torchrun_test.py PROGRAM DIGITS CUSTOM_LOOP GLOO_RANK     with the Python that has PyTorch
"""

import itertools
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

os.environ["LOCKSTEP_PROGRAM"], os.environ["LOCKSTEP_DIGITS"], CUSTOM_LOOP, GLOO_RANK = sys.argv[1:5]
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "flow"))
import runs
import same_weights_test

TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]

SUM = """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
value = torch.full((3,), float(dist.get_rank() + 1))
dist.all_reduce(value)
print("sum", value.tolist(), flush=True)
dist.destroy_process_group()
"""


# Rank 1 is PyTorch's, the others are ours.
MIXED = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
for op, value in ((dist.ReduceOp.SUM, dist.get_rank() + 1.0), (dist.ReduceOp.MAX, float(dist.get_rank()))):
    vector = torch.full((1000,), value)
    dist.all_reduce(vector, op=op)
    print("python rank", dist.get_rank(), op, vector.min().item(), vector.max().item(), flush=True)

model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 4))
weight, bias = start = [parameter.detach().clone() for parameter in model.parameters()]  # rank 0's, which is ours

def loss_of(weight, bias, rank):
    input = (torch.arange(48.0) + 7 * rank).sin().view(6, 8)
    target = (torch.arange(24.0) + 3 * rank).cos().view(6, 4)
    return (torch.nn.functional.linear(input, weight, bias) - target).square().mean()

for step in range(3):
    rank = dist.get_rank()
    output = model((torch.arange(48.0) + 7 * rank).sin().view(6, 8))
    (output - (torch.arange(24.0) + 3 * rank).cos().view(6, 4)).square().mean().backward()
    alone = [tensor.detach().requires_grad_() for tensor in (weight, bias)]
    sum(loss_of(*alone, rank) for rank in range(3)).div(3).backward()
    weight, bias = (tensor.detach() - 0.1 * tensor.grad for tensor in alone)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= 0.1 * parameter.grad
            parameter.grad = None
ended = [parameter.detach() for parameter in model.parameters()]
print("python rank 1: ddp", *(f"{value.item():.9g}" for parameter in ended
                              for value in (parameter.sum().double(), parameter.abs().max().double())), flush=True)
print("as of one process:", start[0].sum().item() > 4 and
      all(torch.allclose(a, b, atol=1e-6) for a, b in zip(ended, (weight, bias))), flush=True)
dist.destroy_process_group()
"""


class Torchrun(runs.TestFolders, unittest.TestCase):
    def check_ranks(self, count, *options):
        """That this many ranks have the weights of one process."""
        with tempfile.TemporaryDirectory(dir=self.folder) as name:
            ranks, alone = pathlib.Path(name) / "torchrun", pathlib.Path(name) / "alone"
            runs.train(self.digits, alone, *options)
            done = subprocess.run([*TORCHRUN, "--no-python", "--nproc-per-node", str(count),
                                   *runs.command("train", self.digits, "--output", ranks, *options)],
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  timeout=120, check=False)
            self.assertEqual(done.returncode, 0, done.stdout)
            self.assertEqual(runs.weights(ranks), runs.weights(alone))
            self.assertEqual(done.stdout.count("model saved in"), 1, "only rank 0 speaks")

    def test_torchrun_starts_our_ranks(self):
        self.check_ranks(2, *runs.SMALL)

    def test_groups_of_batch_norm(self):
        few = [("by default", 5), ("mini-batch", 3), ("one that does not divide", 16)]
        every = itertools.product(same_weights_test.GROUPS, [2, 3, 5, 8, 16])
        for name, ranks in runs.some(few, [case for case in every if case not in few]):
            with self.subTest(name, ranks=ranks):
                self.check_ranks(ranks, *runs.SMALL, *same_weights_test.GROUPS[name], "--max-steps", "3", "--workers", "1")

    def test_torchrun_starts_ranks_that_evaluate(self):
        runs.train(self.digits, self.folder / "model", *runs.SMALL, "--max-steps", "3")
        words = runs.command("evaluate", self.folder / "model", self.held_out, "--json")
        done = subprocess.run([*TORCHRUN, "--no-python", "--nproc-per-node", "2", *words], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, text=True, timeout=120, check=False)
        self.assertEqual(done.stdout, runs.run(*words[1:]))

    def test_torchrun_starts_the_workers_of_a_pool(self):
        def printed(*words):
            done = subprocess.run([*words, CUSTOM_LOOP, str(self.digits), "--epochs", "2"], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, text=True, timeout=120, check=False)
            self.assertEqual(done.returncode, 0, words)
            return done.stdout

        alone = printed()
        self.assertRegex(
            alone, r"^Epoch: 1, Loss: [0-9.]+\nEpoch: 2, Loss: [0-9.]+\naccuracy .* weights [0-9a-f]{16}\n$")
        self.assertEqual(printed(*TORCHRUN, "--no-python", "--nproc-per-node", "2"), alone,
                         "only rank 0 speaks, and the weights are the same")

    def test_ranks_of_both_kinds_in_one_gloo_group(self):
        (self.folder / "mixed.py").write_text(MIXED)
        script = f'[ $RANK = 1 ] && exec "{sys.executable}" "{self.folder / "mixed.py"}" || exec "{GLOO_RANK}"'
        done = subprocess.run([*TORCHRUN, "--no-python", "--nproc-per-node", "3", "sh", "-c", script],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        for line in ["lockstep rank 0: sum 6 max 2", "lockstep rank 2: sum 6 max 2"]:
            self.assertIn(line, done.stdout)
        self.assertRegex(done.stdout, r"python rank 1 .*SUM.* 6.0 6.0")
        self.assertRegex(done.stdout, r"python rank 1 .*MAX.* 2.0 2.0")
        # A DistributedDataParallel of Python's trains with ours: the weights of rank 0 at the start, the same ones
        # everywhere at the end.
        ended = re.findall(r"rank (\d): ddp (.*)", done.stdout)
        self.assertEqual(sorted(rank for rank, _ in ended), ["0", "1", "2"], done.stdout)
        self.assertEqual(len({numbers for _, numbers in ended}), 1, done.stdout)
        self.assertIn("as of one process: True", done.stdout)

    def test_lockstep_run_starts_python_ranks(self):
        printed = runs.run("run", "-n", 2, sys.executable, "-c", SUM)
        self.assertIn("sum [3.0, 3.0, 3.0]\n", printed)
        self.assertIn("[rank 1] sum [3.0, 3.0, 3.0]\n", printed)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
