"""torchvision's ImageFolder and a DataLoader of two workers: a JPEG folder to batches of float images. Prints a line of
JSON: images, seconds."""

import json
import sys
import time

import torch
from torchvision import datasets, transforms


def main():
    folder, height, width = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(1)
    # Images stay in bytes, as Lockstep's do, so that no conversion to float is counted.
    dataset = datasets.ImageFolder(folder,
                                   transforms.Compose([transforms.Resize((height, width)), transforms.PILToTensor()]))
    loader = torch.utils.data.DataLoader(dataset, 64, shuffle=True, num_workers=2, persistent_workers=True,
                                         prefetch_factor=4)
    for _ in loader:  # the first epoch starts the workers and warms the files
        pass
    start = time.perf_counter()
    images = sum(len(labels) for _, labels in loader)
    print(json.dumps({"images": images, "seconds": time.perf_counter() - start}))


if __name__ == "__main__":
    main()
