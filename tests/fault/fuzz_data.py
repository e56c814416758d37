"""The data of fuzz_weights.py: images and sequences that it makes, some of them damaged."""
import gzip
import math
import os
import random
import shutil
import struct
import tarfile
import zlib


def png(width, height, channels, pixels):
    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    row = width * channels
    raw = b"".join(b"\0" + pixels[y * row:(y + 1) * row] for y in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 0 if channels == 1 else 2, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header)
            + chunk(b"IDAT", zlib.compress(raw, 1)) + chunk(b"IEND", b""))


def image(rng, width, height, channels, label):
    cx, cy = rng.random() * width, rng.random() * height
    out = bytearray()
    for y in range(height):
        for x in range(width):
            wave = math.sin((x - cx) * (0.3 + 0.25 * label)) + math.cos((y - cy) * (0.9 - 0.2 * label))
            for c in range(channels):
                out.append(max(0, min(255, int(128 + 50 * wave + 20 * math.sin(c + label + x) + rng.random() * 30))))
    return png(width, height, channels, bytes(out))


def write(path, body):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb" if isinstance(body, bytes) else "w") as f:
        f.write(body)


def make_images(work, rng, data):
    def folder(name, classes, count, size_of, channels):
        root = os.path.join(work, "data", name)
        for label in range(classes):
            for i in range(count + label):
                w, h = size_of()
                write(os.path.join(root, "class %d" % label, "%03d.png" % i), image(rng, w, h, channels, label))
        return root
    data["grey"] = folder("grey", 4, 19, lambda: (28, 28), 1)
    data["rgb"] = folder("rgb", 3, 17, lambda: (33, 33), 3)
    data["sizes"] = folder("sizes", 3, 15, lambda: (rng.randint(18, 44), rng.randint(18, 44)), 3)
    data["bad"] = folder("bad", 3, 15, lambda: (24, 24), 1)
    write(os.path.join(data["bad"], "class 0", "005.png"), b"")
    whole = open(os.path.join(data["bad"], "class 1", "007.png"), "rb").read()
    write(os.path.join(data["bad"], "class 1", "007.png"), whole[:len(whole) // 2])
    write(os.path.join(data["bad"], "class 2", "003.png"), b"this is no image")
    data["test"] = folder("held", 4, 6, lambda: (28, 28), 1)
    data["tar"] = os.path.join(work, "data", "grey.tar")
    with tarfile.open(data["tar"], "w") as tar:
        tar.add(data["grey"], "grey")


def make_idx(work, rng, data):
    """Images in IDX files, as MNIST's."""
    def digit(label):
        return bytes(max(0, min(255, int(120 + 60 * math.sin(x * (1 + label)) + rng.random() * 60)))
                     for y in range(28) for x in range(28))
    n = 90
    labels = bytes(i % 5 for i in range(n))
    pixels = b"".join(digit(label) for label in labels)
    data["idx"] = os.path.join(work, "data", "idx")
    os.makedirs(data["idx"], exist_ok=True)
    for kind in ("train", "t10k"):
        with gzip.open(os.path.join(data["idx"], kind + "-images-idx3-ubyte.gz"), "wb") as f:
            f.write(struct.pack(">IIII", 2051, n, 28, 28) + pixels)
        with gzip.open(os.path.join(data["idx"], kind + "-labels-idx1-ubyte.gz"), "wb") as f:
            f.write(struct.pack(">II", 2049, n) + labels)


def make_sequences(work, rng, data):
    def series(label, steps, channels):
        return [[round(math.sin(t * (0.3 + 0.3 * label) + c) + rng.random() * 0.5, 4) for t in range(steps)]
                for c in range(channels)]
    lines = ["@problemName fuzz", "@timeStamps false", "@missing false", "@univariate false", "@dimensions 3",
             "@equalLength false", "@classLabel true a b c", "@data"]
    for i in range(53):
        channels = series(i % 3, rng.randint(3, 14), 3)
        lines.append(":".join(",".join(str(v) for v in channel) for channel in channels) + ":" + "abc"[i % 3])
    data["ts"] = os.path.join(work, "data", "fuzz.ts")
    write(data["ts"], "\n".join(lines) + "\n")
    data["csv"] = os.path.join(work, "data", "csv")
    for i in range(41):
        s = series(i % 2, rng.randint(2, 11), 4)
        rows = "\n".join(",".join(str(c[t]) for c in s) for t in range(len(s[0])))
        write(os.path.join(data["csv"], "k%d" % (i % 2), "%02d.csv" % i), rows + "\n")


def copy_photos(work, photos, data):
    data["photos"] = os.path.join(work, "data", "photos")
    for label in sorted(os.listdir(photos))[:4]:
        os.makedirs(os.path.join(data["photos"], label), exist_ok=True)
        for name in sorted(os.listdir(os.path.join(photos, label)))[:24]:
            shutil.copy(os.path.join(photos, label, name), os.path.join(data["photos"], label, name))


def make_data(work, photos):
    """Paths by the names that combinations use; always the same data."""
    rng = random.Random("data")
    data = {}
    make_images(work, rng, data)
    make_idx(work, rng, data)
    make_sequences(work, rng, data)
    if photos:
        copy_photos(work, photos, data)
    return data
