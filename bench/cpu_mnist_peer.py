"""One rank of PyTorch's side of the bench mnist-99, started by torchrun: the recipe of mnist-99-options.json with
DistributedDataParallel over gloo."""

import argparse
import json
from pathlib import Path

import torch
import torch.distributed as dist
from safetensors.torch import save_file
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import peer

HERE = Path(__file__).resolve().parent
LAYOUT = torch.channels_last  # the faster one for this network
SHAPE = (1, 28, 28)


def read(folder, part):
    return peer.read_idx(folder / f"{part}-images-idx3-ubyte.gz").unsqueeze(1), peer.read_idx(
        folder / f"{part}-labels-idx1-ubyte.gz").long()


def shifted(images, most):
    """Each image moved by up to `most` pixels, zeros where it leaves."""
    count, _, height, width = images.shape
    padded = nn.functional.pad(images, [most] * 4)
    down, right = torch.randint(0, 2 * most + 1, (2, count, 1))
    rows = (down + torch.arange(height)).unsqueeze(2)
    columns = (right + torch.arange(width)).unsqueeze(1)
    return padded[torch.arange(count).view(-1, 1, 1), 0, rows, columns].unsqueeze(1)


def rate_at(recipe, step, total):
    rate = recipe["learning-rate"] * peer.cosine(step, total)
    return rate * min(1, (step + 1) / recipe["warmup-steps"])


def train(model, images, labels, recipe):
    """Until the recipe's steps are made; gives how many images all ranks trained on."""
    parallel = DistributedDataParallel(model, broadcast_buffers=False, gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(parallel.parameters(), recipe["learning-rate"], recipe["momentum"],
                                weight_decay=recipe["weight-decay"],
                                nesterov=recipe["nesterov"], foreach=True)
    ranks = dist.get_world_size()
    own_size = recipe["mini-batch-size"] // ranks
    total, step, trained = recipe["max-steps"], 0, 0
    most = int(recipe["augment"].removeprefix("shift="))
    order = torch.Generator().manual_seed(torch.initial_seed())  # the same on all ranks
    torch.manual_seed(torch.initial_seed() + 1 + dist.get_rank())
    while step < total:
        own = torch.randperm(len(labels), generator=order)[dist.get_rank()::ranks]
        for batch in own.split(own_size)[:total - step]:
            optimizer.param_groups[0]["lr"] = rate_at(recipe, step, total)
            step, trained = step + 1, trained + len(batch) * ranks
            optimizer.zero_grad()
            inputs = shifted(images[batch], most).float().div_(255).to(memory_format=LAYOUT)
            with torch.autocast("cpu", torch.bfloat16, enabled=recipe["precision"] == "bf16-mixed"):
                logits = parallel(inputs)
            nn.functional.cross_entropy(logits.float(), labels[batch]).backward()
            optimizer.step()
    return trained


def accuracy(model, images, labels):
    model.eval()
    with torch.no_grad():
        right = sum((model(part.float().div_(255)).argmax(1) == target).sum().item()
                    for part, target in zip(images.split(500), labels.split(500)))
    return right / len(labels)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("mnist", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--seed", type=int, required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    dist.init_process_group("gloo")
    recipe = json.loads((HERE / "mnist-99-options.json").read_text())
    model = peer.from_graph(HERE / "mnist-99.json", SHAPE).to(memory_format=LAYOUT)
    trained = train(model, *read(options.mnist, "train"), recipe)
    if dist.get_rank() == 0:
        options.output.mkdir(parents=True)
        save_file({name: tensor.contiguous() for name, tensor in model.state_dict().items()},
                  options.output / "model.safetensors")
        right = accuracy(model, *read(options.mnist, "t10k"))
        result = {"accuracy": right, "images": trained, "flops": peer.training_flops(model, SHAPE),
                  "layout": "channels_last"}
        (options.output / "result.json").write_text(json.dumps(result))
    dist.destroy_process_group()


main()
