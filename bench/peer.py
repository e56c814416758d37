"""PyTorch's side: the same networks, and the same order of samples, written anew from their description."""

import gzip
import math

import numpy
import torch
from torch import nn

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15


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


NETWORKS = {"digits_cnn": digits_cnn, "lenet": lenet}


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
