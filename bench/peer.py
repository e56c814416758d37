"""PyTorch's side: the same networks, and the same order of samples, written anew from their description."""

import gzip
import json
import math
from pathlib import Path

import numpy
import torch
from torch import nn

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15


def read_folder(root):
    """Class folders read with Pillow: bytes [n,C,H,W], and labels."""
    from PIL import Image
    images, labels = [], []
    for label, folder in enumerate(sorted(path for path in root.iterdir() if path.is_dir())):
        for path in sorted(folder.iterdir()):
            images.append(numpy.array(Image.open(path)))
            labels.append(label)
    stacked = torch.from_numpy(numpy.stack(images))
    return stacked.unsqueeze(1) if stacked.dim() == 3 else stacked.permute(0, 3, 1,
                                                                           2).contiguous(), torch.tensor(labels)


def digits_cnn(classes=10):
    def block(inputs, kernel, padding):
        return [nn.Conv2d(inputs, 20, kernel, padding=padding), nn.BatchNorm2d(20), nn.ReLU()]
    return nn.Sequential(*block(1, 5, 0), *block(20, 3, 1), *block(20, 3, 1), nn.Flatten(), nn.Linear(11520, classes))


def lenet(classes=10):
    model = nn.Sequential(
        nn.Conv2d(1, 20, 5), nn.MaxPool2d(2), nn.Conv2d(20, 50, 5), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(800, 500), nn.ReLU(), nn.Linear(500, classes))
    for module in model:
        if isinstance(module, (nn.Conv2d, nn.Linear)):
            nn.init.xavier_normal_(module.weight)
            nn.init.zeros_(module.bias)
    return model


def resnet18(classes=10):
    from torchvision import models
    return models.resnet18(num_classes=classes)


def squeezenet(classes=10):
    from torchvision import models
    return models.squeezenet1_0(num_classes=classes)


NETWORKS = {"digits_cnn": digits_cnn, "lenet": lenet, "resnet18": resnet18, "squeezenet": squeezenet}


def layer_of(entry, classes):
    """A layer of a graph in JSON; what it takes is found at its first forward."""
    kind = entry["type"]
    if kind == "conv2d":
        return nn.LazyConv2d(entry["filters"], entry["kernel"], entry.get("stride", 1), entry.get("padding", 0),
                             bias=entry.get("bias", True))
    if kind == "linear":
        return nn.LazyLinear(classes if entry["features"] == "classes" else entry["features"])
    if kind == "max_pool":
        return nn.MaxPool2d(entry["kernel"])
    return {"batch_norm": nn.LazyBatchNorm2d, "relu": nn.ReLU, "flatten": nn.Flatten}[kind]()


def from_graph(path, shape, classes=10):
    """The network of a layer graph in the short form, for images of this shape (channels, height, width)."""
    model = nn.Sequential(*(layer_of(entry, classes) for entry in json.loads(path.read_text())))
    with torch.no_grad():
        model.eval()(torch.zeros(1, *shape))
    return model.train()


def network(name, shape):
    """One of NETWORKS, or the layer graph in a file, for images of this shape."""
    return from_graph(Path(name), shape) if name.endswith(".json") else NETWORKS[name]()


def training_flops(model, shape):
    """Floating-point operations to train on one image: convolutions and linear layers three times (the result, the
    gradients of input and of weight), but for the first one's gradient of its input, which nobody needs. All else is
    left out."""
    multiply_adds = []

    def count(module, _, output):
        per_output = module.weight[0].numel()
        multiply_adds.append(output[0].numel() * per_output)

    hooks = [module.register_forward_hook(count) for module in model.modules()
             if isinstance(module, (nn.Conv2d, nn.Linear))]
    training = model.training
    with torch.no_grad():
        model.eval()(torch.zeros(1, *shape))
    model.train(training)
    for hook in hooks:
        hook.remove()
    return 2 * (3 * sum(multiply_adds) - multiply_adds[0])


def mixed(value):
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
    return value ^ (value >> 31)


def seed_of(parts):
    state = GOLDEN * len(parts) & MASK
    for part in parts:
        state = mixed((state + GOLDEN + mixed((part + GOLDEN) & MASK)) & MASK)
    return state


def permutation(count, seed):
    """Fisher-Yates with SplitMix64 (Steele et al. 2014) and Lemire's bounded numbers (2019)."""
    order = list(range(count))
    state = seed
    for i in range(count, 1, -1):
        while True:
            state = (state + GOLDEN) & MASK
            product = mixed(state) * i
            if product & MASK >= i or product & MASK >= (1 << 64) % i:
                break
        j = product >> 64
        order[i - 1], order[j] = order[j], order[i - 1]
    return order


def read_idx(path):
    data = gzip.decompress(path.read_bytes())
    dimensions = data[3]
    shape = [int.from_bytes(data[4 + 4 * i:8 + 4 * i], "big") for i in range(dimensions)]
    return torch.from_numpy(numpy.frombuffer(data, numpy.uint8, offset=4 + 4 * dimensions).reshape(shape).copy())


def cosine(step, total_steps):
    return 0.5 * (1 + math.cos(math.pi * step / total_steps))
