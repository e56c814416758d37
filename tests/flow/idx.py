"""IDX files, the format of MNIST, made of folders of digits (8-bit grey PNG files), in the order in which the program
takes those."""

import gzip
import struct
import zlib


def pixels_of(png):
    """Height, width and rows of an 8-bit grey PNG file."""
    at, packed, size = 8, b"", None
    while at < len(png):
        length, kind = struct.unpack_from(">I4s", png, at)
        data = png[at + 8:at + 8 + length]
        if kind == b"IHDR":
            width, height, depth, colour, _, _, interlaced = struct.unpack(">IIBBBBB", data)
            assert (depth, colour, interlaced) == (8, 0, 0)
            size = height, width
        packed += data if kind == b"IDAT" else b""
        at += 12 + length
    height, width = size
    lines, rows = zlib.decompress(packed), [bytes(width)]
    for y in range(height):
        line = lines[y * (width + 1):(y + 1) * (width + 1)]
        rows.append(unfiltered(line[0], line[1:], rows[-1]))
    return height, width, b"".join(rows[1:])


def unfiltered(kind, line, above):
    """A row of one byte a pixel. https://www.w3.org/TR/png-3/#9Filters"""
    row = bytearray(line)
    for x, value in enumerate(line):
        left, up, corner = row[x - 1] if x else 0, above[x], above[x - 1] if x else 0
        near = min((left, up, corner), key=lambda one: abs(left + up - corner - one))
        row[x] = (value + (0, left, up, (left + up) // 2, near)[kind]) & 255
    return bytes(row)


def write_idx(digits, folder, name="train"):
    """The images' file is gzip'ed, that of the labels is not."""
    files = sorted(digits.glob("*/*.png"))
    images = [pixels_of(file.read_bytes()) for file in files]
    height, width, _ = images[0]
    assert all(image[:2] == (height, width) for image in images)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}-images-idx3-ubyte.gz").write_bytes(
        gzip.compress(struct.pack(">IIII", 0x803, len(files), height, width) + b"".join(image[2] for image in images)))
    (folder / f"{name}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 0x801, len(files))
                                                       + bytes(int(file.parent.name) for file in files))
