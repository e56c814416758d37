"""Sequences made for tests: noisy waves whose frequency is the class, of unequal length."""

import math
import random


def write_ts(path, count, seed, classes=3, channels=2, longest=23, shortest=1):
    draw = random.Random(seed)
    lines = ["# made for a test", "@timeStamps false", "@classLabel true " + " ".join(f"class{i}" for i in range(classes)), "@data"]
    for number in range(count):
        label, length, phase = number % classes, draw.randint(shortest, longest), draw.random()
        rows = [[math.sin((label + 1) * (t + c) / 2 + phase) + draw.gauss(0, 0.2) for t in range(length)] for c in range(channels)]
        lines.append(":".join([",".join(f"{value:.5f}" for value in row) for row in rows] + [f"class{label}"]))
    path.write_text("\n".join(lines) + "\n")
