"""The peer of bench/sweep: Optuna chooses the parameters, and PyTorch trains in joblib's processes, which are reused.

As fast as the documentation of the three lets it be: the images are decoded once and mapped into all processes; each
trains on one thread, with channels_last. Prints the seconds of the trials, without the start of the processes."""

import argparse
import json
import time
from pathlib import Path

import joblib
import optuna
import torch
from torch import nn

import peer


def input_of(images):
    return images.float().div_(255).to(memory_format=torch.channels_last)


def train(images, labels, rate, momentum):
    """Accuracy on the last 1,000 images after one epoch of the others."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    images, labels = torch.from_numpy(images), torch.from_numpy(labels)
    drawn = torch.randperm(len(labels))
    held_out, training = drawn[:len(labels) // 10], drawn[len(labels) // 10:]
    model = peer.digits_cnn().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), rate, momentum, weight_decay=1e-4, foreach=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, (len(training) + 127) // 128)
    for chosen in training.split(128):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(input_of(images[chosen])), labels[chosen]).backward()
        optimizer.step()
        schedule.step()
    model.eval()
    with torch.no_grad():
        correct = sum(int((model(input_of(images[chosen])).argmax(1) == labels[chosen]).sum())
                      for chosen in held_out.split(128))
    return correct / len(held_out)


def numbered(number, *arguments):
    return number, train(*arguments)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, required=True)
    choice = parser.parse_args()
    images, labels = (tensor.numpy() for tensor in peer.read_folder(choice.folder))
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.RandomSampler(seed=1))
    asked = {}

    def trials():
        for _ in range(choice.count):
            trial = study.ask()
            asked[trial.number] = trial
            yield joblib.delayed(numbered)(trial.number, images, labels, trial.suggest_float("rate", 0.001, 0.1, log=True),
                                           trial.suggest_float("momentum", 0.5, 0.95))

    # The processes start and load PyTorch; only the trials count.
    joblib.Parallel(n_jobs=2)(joblib.delayed(torch.set_num_threads)(1) for _ in range(8))
    start = time.monotonic()
    for number, accuracy in joblib.Parallel(n_jobs=2, return_as="generator_unordered", mmap_mode="c")(trials()):
        study.tell(asked[number], accuracy)
    print(json.dumps({"seconds": time.monotonic() - start, "best": study.best_value}))


if __name__ == "__main__":
    main()
