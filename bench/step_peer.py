"""One rank of the peer of bench/step: PyTorch DistributedDataParallel from PNG files to a trained model. Started by
torchrun.

Written to be as fast as PyTorch's own documentation lets it be: one thread a rank, no broadcast of buffers (rank 0's
are saved), gradients as views of the buckets, persistent loader workers, channels_last and an in-memory cache on
request. """

import argparse
import json
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from safetensors.torch import save_file
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import peer

SEED = 0


class CachedFolder(torch.utils.data.Dataset):
    """Class folders read with Pillow; an image is decoded when first asked for and kept as bytes. Gives whole
    mini-batches."""

    def __init__(self, root):
        import numpy
        from PIL import Image
        self.read = lambda path: torch.from_numpy(numpy.array(Image.open(path)))
        self.paths, labels = [], []
        for label, folder in enumerate(sorted(os.listdir(root))):
            names = sorted(os.listdir(f"{root}/{folder}"))
            self.paths += [f"{root}/{folder}/{name}" for name in names]
            labels += [label] * len(names)
        self.labels = torch.tensor(labels)
        self.kept = torch.empty((len(labels), *self.read(self.paths[0]).shape), dtype=torch.uint8)
        self.ready = bytearray(len(labels))

    def __len__(self):
        return len(self.paths)

    def __getitems__(self, indices):
        for i in indices:
            if not self.ready[i]:
                self.kept[i] = self.read(self.paths[i])
                self.ready[i] = 1
        chosen = torch.tensor(indices)
        return self.kept[chosen].unsqueeze(1).float().div_(255), self.labels[chosen]


def make_loader(options, batch_of_rank):
    if options.data == "cached":
        dataset, collate = CachedFolder(options.folder), lambda batch: batch
    else:
        from torchvision import datasets, transforms
        dataset = datasets.ImageFolder(options.folder,
                                       transforms.Compose([transforms.Grayscale(), transforms.ToTensor()]))
        collate = None
    sampler = torch.utils.data.DistributedSampler(dataset, shuffle=True, seed=SEED)
    return sampler, torch.utils.data.DataLoader(dataset, batch_of_rank, sampler=sampler, collate_fn=collate,
                                                num_workers=options.workers,
                                                persistent_workers=options.workers > 0)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("output", type=Path)
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--mini-batch", type=int, required=True)
    parser.add_argument("--precision", choices=("32-true", "bf16-mixed"), required=True)
    parser.add_argument("--data", choices=("image-folder", "cached"), required=True)
    parser.add_argument("--workers", type=int, required=True)
    parser.add_argument("--channels-last", action="store_true")
    options = parser.parse_args()

    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    dist.init_process_group("gloo")
    layout = torch.channels_last if options.channels_last else torch.contiguous_format
    model = peer.digits_cnn().to(memory_format=layout)
    parallel = DistributedDataParallel(model, broadcast_buffers=False, gradient_as_bucket_view=True)
    sampler, loader = make_loader(options, options.mini_batch // dist.get_world_size())
    optimizer = torch.optim.SGD(model.parameters(), 0.01, 0.9, weight_decay=1e-4, foreach=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.epochs * len(loader))
    first_step = None
    trained = 0
    for epoch in range(options.epochs):
        sampler.set_epoch(epoch)
        for images, labels in loader:
            images = images.to(memory_format=layout)
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16, enabled=options.precision == "bf16-mixed"):
                logits = parallel(images)
            loss = nn.functional.cross_entropy(logits.float(), labels)
            loss.backward()
            optimizer.step()
            schedule.step()
            if first_step is None:
                first_step = time.time()
            else:
                trained += len(labels) * dist.get_world_size()
    last_step = time.time()
    if dist.get_rank() == 0:
        options.output.mkdir(parents=True)
        save_file({name: tensor.contiguous() for name, tensor in model.state_dict().items()},
                  options.output / "model.safetensors")
        (options.output / "times.json").write_text(json.dumps({"first_step": first_step, "last_step": last_step,
                                                               "images": trained, "loss": loss.item()}))
    dist.destroy_process_group()


main()
