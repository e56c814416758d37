"""One rank of torch.distributed over gloo: all_reduce of the sizes of bench/ranks, rank 0 prints the slowest rank's
seconds as JSON."""

import json
import sys
import time

import torch
import torch.distributed as dist

torch.set_num_threads(1)
dist.init_process_group("gloo")
found = []
for size, rounds in json.loads(sys.argv[1]):
    vector = torch.zeros(size // 4)
    dist.all_reduce(vector)
    dist.barrier()
    start = time.perf_counter()
    for _ in range(rounds):
        dist.all_reduce(vector)
    seconds = torch.tensor([(time.perf_counter() - start) / rounds], dtype=torch.float64)
    dist.all_reduce(seconds, op=dist.ReduceOp.MAX)
    found.append({"bytes": size, "all_reduce_seconds": seconds.item()})
if dist.get_rank() == 0:
    print(json.dumps(found), flush=True)
dist.destroy_process_group()
