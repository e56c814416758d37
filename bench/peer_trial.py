"""A trial of the peers of bench/trials and bench/sweep: PyTorch trains digits_cnn and tests it on held-out digits.

Written to be as fast as PyTorch's own documentation lets it be: one thread, as two processes share two cores;
channels_last; images decoded once."""

import torch
from torch import nn

import peer

MINI_BATCH = 128


def input_of(images):
    return images.float().div_(255).to(memory_format=torch.channels_last)


def accuracy_of(model, images, labels, held_out):
    model.eval()
    with torch.no_grad():
        correct = sum(int((model(input_of(images[chosen])).argmax(1) == labels[chosen]).sum())
                      for chosen in held_out.split(MINI_BATCH))
    return correct / len(held_out)


def train(images, labels, *, rate, momentum, seed=0, epochs=1):
    """Accuracy on a tenth of the images, which is tested after each epoch of the others."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    drawn = torch.randperm(len(labels))
    held_out, training = drawn[:len(labels) // 10], drawn[len(labels) // 10:]
    model = peer.digits_cnn().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), rate, momentum, weight_decay=1e-4, foreach=True)
    steps = (len(training) + MINI_BATCH - 1) // MINI_BATCH
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * steps)
    for _ in range(epochs):
        model.train()
        for chosen in training[torch.randperm(len(training))].split(MINI_BATCH):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(input_of(images[chosen])), labels[chosen]).backward()
            optimizer.step()
            schedule.step()
        accuracy = accuracy_of(model, images, labels, held_out)
    return accuracy
