"""Sequences made for tests: noisy waves whose frequency is the class, of unequal length."""

import math
import random


def waves(count, seed, classes=3, channels=2, longest=23, shortest=1):
    """(label, channels of texts) of each."""
    draw = random.Random(seed)
    for number in range(count):
        label, length, phase = number % classes, draw.randint(shortest, longest), draw.random()
        yield label, [[f"{math.sin((label + 1) * (t + c) / 2 + phase) + draw.gauss(0, 0.2):.5f}" for t in range(length)]
                      for c in range(channels)]


def write_ts(path, count, seed, classes=3, **kind):
    lines = ["# made for a test", "@timeStamps false", "@classLabel true "
             + " ".join(f"class{i}" for i in range(classes)), "@data"]
    for label, rows in waves(count, seed, classes, **kind):
        lines.append(":".join([",".join(row) for row in rows] + [f"class{label}"]))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")


def write_csv(folder, count, seed, **kind):
    for number, (label, rows) in enumerate(waves(count, seed, **kind)):
        file = folder / f"class{label}" / f"{number}.csv"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(",".join(step) + "\n" for step in zip(*rows)))
