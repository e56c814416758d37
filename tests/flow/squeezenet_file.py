"""A file of weights that the program takes for torchvision's squeezenet1_1, because its SHA-256 begins with the same 8
digits and it has the same size to a hundredth of a megabyte. The real one cannot be in this repository. The weights are
random; the last two of them were searched until the hash fitted (2^32 trials, some minutes)."""

import array
import hashlib
import json
import random
import struct

NAME = "squeezenet1_1-b8a52dc0.pth"
HASH = "b8a52dc0"
LAST = bytes.fromhex("9eeb363abc01003a")  # the last two weights
HEADER_BYTES = 16_000
FIRE = [(3, 64, 16, 64), (4, 128, 16, 64), (6, 128, 32, 128), (7, 256, 32, 128), (9, 256, 48, 192), (10, 384, 48, 192),
        (11, 384, 64, 256), (12, 512, 64, 256)]


def shapes():
    """Name and shape of each tensor, as torchvision's squeezenet1_1 has them."""
    yield "features.0", (64, 3, 3, 3)
    for place, inputs, squeezed, expanded in FIRE:
        yield f"features.{place}.squeeze", (squeezed, inputs, 1, 1)
        yield f"features.{place}.expand1x1", (expanded, squeezed, 1, 1)
        yield f"features.{place}.expand3x3", (expanded, squeezed, 3, 3)
    yield "classifier.1", (1000, 512, 1, 1)


def content(last=LAST):
    """The bytes of the file, safetensors."""
    draw = random.Random(1).random
    header, values = {}, array.array("f")
    for name, shape in shapes():
        count, inputs = shape[0] * shape[1] * shape[2] * shape[3], shape[1] * shape[2] * shape[3]
        bound = (6 / inputs) ** 0.5
        for kind, size, numbers in (("weight", list(shape), ((draw() * 2 - 1) * bound for _ in range(count))),
                                    ("bias", [shape[0]], (0.0 for _ in range(shape[0])))):
            begin = len(values) * 4
            values.extend(numbers)
            header[f"{name}.{kind}"] = {"dtype": "F32", "shape": size, "data_offsets": [begin, len(values) * 4]}
    text = json.dumps(header).encode().ljust(HEADER_BYTES)
    return struct.pack("<Q", HEADER_BYTES) + text + values.tobytes()[:-len(last)] + last


def check(data):
    """Fails if this Python makes another file."""
    found = hashlib.sha256(data).hexdigest()
    assert found.startswith(HASH), f"the test's file has the hash {found}, not {HASH}...: {__file__}"
    return data
