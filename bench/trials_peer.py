"""One trial of the peer of bench/trials, in a process of its own: PyTorch from PNG files to a trained network and its
accuracy on held-out images.

Written to be as fast as PyTorch's own documentation lets it be: one thread, as two processes share two cores;
channels_last; images decoded once. """

import argparse
import json
import time
from pathlib import Path

import torch
from torch import nn

import peer


def input_of(images):
    return images.float().div_(255).to(memory_format=torch.channels_last)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--trial", type=int, required=True)
    parser.add_argument("--epochs", type=int, required=True)
    options = parser.parse_args()
    rate, seed = 0.002 * (1 + options.trial % 16), options.trial // 16  # the same in bench/trials.cpp

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    images, labels = peer.read_folder(options.folder)
    drawn = torch.randperm(len(labels))
    held_out, training = drawn[:len(labels) // 10], drawn[len(labels) // 10:]
    model = peer.digits_cnn().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), rate, 0.9, weight_decay=1e-4, foreach=True)
    steps = (len(training) + 127) // 128
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.epochs * steps)
    start = time.time()
    for _ in range(options.epochs):
        model.train()
        for chosen in training[torch.randperm(len(training))].split(128):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(input_of(images[chosen])), labels[chosen]).backward()
            optimizer.step()
            schedule.step()
        model.eval()
        with torch.no_grad():
            correct = sum(int((model(input_of(images[chosen])).argmax(1) == labels[chosen]).sum())
                          for chosen in held_out.split(128))
    print(json.dumps({"trial": options.trial, "accuracy": correct / len(held_out), "seconds": time.time() - start}))


main()
