"""One trial of the peer of bench/trials, in a process of its own: from PNG files to the accuracy on held-out images."""

import argparse
import json
import time
from pathlib import Path

import peer
import peer_trial


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--trial", type=int, required=True)
    parser.add_argument("--epochs", type=int, required=True)
    options = parser.parse_args()
    rate, seed = 0.002 * (1 + options.trial % 16), options.trial // 16  # the same in bench/trials.cpp
    images, labels = peer.read_folder(options.folder)
    start = time.time()
    accuracy = peer_trial.train(images, labels, rate=rate, momentum=0.9, seed=seed, epochs=options.epochs)
    print(json.dumps({"trial": options.trial, "accuracy": accuracy, "seconds": time.time() - start}))


main()
