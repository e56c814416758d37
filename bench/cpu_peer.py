"""One rank of PyTorch's side of `lockstep bench`, started by torchrun: DistributedDataParallel over gloo that runs
steps on command, or all_reduce.

As fast as PyTorch's documentation lets it be: one thread a rank, no broadcast of buffers, gradients as views of the
buckets, an optimizer over all tensors at once, images decoded once into memory, and both layouts to choose from. """

import argparse
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import cpu_link
import peer

LAYOUTS = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}


def read_data(path):
    if path.is_dir():
        return peer.read_folder(path)
    return peer.read_idx(path).unsqueeze(1), peer.read_idx(
        path.with_name(path.name.replace("images-idx3", "labels-idx1"))).long()


class Trainer:
    """One network in one layout."""

    def __init__(self, options, data, layout):
        torch.manual_seed(0)
        self.layout = LAYOUTS[layout]
        self.bf16 = options.precision == "bf16-mixed"
        network = peer.network(options.network, data[0].shape[1:]).to(memory_format=self.layout)
        self.model = DistributedDataParallel(network, broadcast_buffers=False, gradient_as_bucket_view=True)
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.01, 0.9, weight_decay=1e-4, foreach=True)
        self.images, self.labels = data
        self.mini_batch = options.mini_batch
        self.batches = self.endless_batches(options.mini_batch // dist.get_world_size())

    def endless_batches(self, size):
        generator = torch.Generator().manual_seed(0)  # the same order on all ranks
        while True:
            own = torch.randperm(len(self.labels), generator=generator)[dist.get_rank()::dist.get_world_size()]
            yield from (batch for batch in own.split(size) if len(batch) == size)

    def step(self):
        batch = next(self.batches)
        images = self.images[batch].float().div_(255).to(memory_format=self.layout)
        self.optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=self.bf16):
            logits = self.model(images)
        nn.functional.cross_entropy(logits.float(), self.labels[batch]).backward()
        self.optimizer.step()

    def timed(self, steps):
        """Images a second over all ranks, after one step that is not counted."""
        self.step()
        start = time.perf_counter()
        for _ in range(steps):
            self.step()
        return steps * self.mini_batch / (time.perf_counter() - start)


def serve_training(options):
    data = read_data(options.data)
    shape = data[0].shape[1:]
    trainers = {}

    def answer(command):
        layout = command["layout"]
        if layout not in trainers:
            trainers[layout] = Trainer(options, data, layout)
        return {"images_per_second": trainers[layout].timed(command["steps"])}

    cpu_link.serve(options.port, {"flops": peer.training_flops(peer.network(options.network, shape), shape)}, answer)


def serve_all_reduce(options):
    tensors = {}

    def answer(command):
        tensor = tensors.setdefault(command["bytes"], torch.zeros(command["bytes"] // 4))
        dist.barrier()
        start = time.perf_counter()
        for _ in range(command["repeats"]):
            dist.all_reduce(tensor)
        return {"seconds": (time.perf_counter() - start) / command["repeats"]}

    cpu_link.serve(options.port, {}, answer)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("job", choices=("train", "all-reduce"))
    parser.add_argument("--network", help=f"{', '.join(peer.NETWORKS)}, or a layer graph in JSON")
    parser.add_argument("--data", type=Path, help="class folders, or an IDX file of images")
    parser.add_argument("--mini-batch", type=int)
    parser.add_argument("--precision", choices=("32-true", "bf16-mixed"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    (serve_training if options.job == "train" else serve_all_reduce)(options)
    dist.destroy_process_group()


main()
