"""--sample-order distributed-sampler against torch.utils.data.DistributedSampler and DataLoader: the same indices on
every rank in every step.

usage: sampler_test.py PROGRAM-OF-sampler.cpp     (needs torch)
"""

import subprocess
import sys

from torch.utils.data import DataLoader, DistributedSampler

# Samples, replicas, mini-batch of a replica, seed, epoch, shuffled.
CASES = [(10, 1, 4, 0, 0, True), (90, 3, 8, 0, 1, True), (91, 3, 8, 5, 0, True), (91, 4, 8, 5, 7, True),
         (3, 8, 2, 1, 0, True), (1000, 7, 16, 123, 2, True), (50_000, 8, 128, 2**31, 3, True),
         (91, 4, 8, 5, 7, False)]


def pytorch(count, replicas, each, seed, epoch, shuffle):
    """For each step the samples of all ranks, rank by rank."""
    ranks = []
    for rank in range(replicas):
        sampler = DistributedSampler(range(count), num_replicas=replicas, rank=rank, shuffle=shuffle, seed=seed)
        sampler.set_epoch(epoch)
        ranks.append([batch.tolist() for batch in DataLoader(range(count), batch_size=each, sampler=sampler)])
    return [sum(step, []) for step in zip(*ranks, strict=True)]


def main():
    failed = 0
    for case in CASES:
        printed = subprocess.run([sys.argv[1], *(str(int(number)) for number in case)], check=True,
                                 stdout=subprocess.PIPE, text=True).stdout
        found = [[int(index) for index in line.split()] for line in printed.splitlines()]
        passes = found == pytorch(*case)
        failed += not passes
        print("ok  " if passes else "FAIL", case, flush=True)
    return 1 if failed else 0


sys.exit(main())
