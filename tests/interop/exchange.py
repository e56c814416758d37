"""What the tests of export and import share."""

import hashlib
import json
import subprocess
from pathlib import Path

import numpy
import onnxruntime
from PIL import Image

MOST_DIFFERENCE = 1e-4


class Lockstep:
    def __init__(self, program):
        self.program = program

    def fails(self, *arguments):
        """What the program prints on standard error when it ends with an error."""
        done = self.start(arguments)
        assert done.returncode in (1, 2), f"{arguments} ended with {done.returncode}:\n{done.stderr}"
        return done.stderr

    def __call__(self, *arguments):
        done = self.start(arguments)
        assert done.returncode == 0, f"{arguments} ended with {done.returncode}:\n{done.stderr}"
        return done.stdout

    def start(self, arguments):
        return subprocess.run([self.program, *map(str, arguments)], capture_output=True, text=True, check=False)


def write_images(folder, count=4, size=(61, 83)):
    """Colour images of noise over a pattern, so that the outputs differ."""
    random = numpy.random.default_rng(1)
    folder.mkdir()
    for number in range(count):
        pixels = random.integers(0, 100, (*size, 3), dtype=numpy.uint8)
        pixels[number * 10:number * 10 + 25, :, number % 3] += 150
        Image.fromarray(pixels).save(folder / f"{number}.png")


def pixels_of(paths, mode, size):
    """float32 [b,C,H,W] from 0 to 255, resized as Lockstep does."""
    height, width = size
    arrays = []
    for path in paths:
        image = Image.open(path).convert(mode)
        if image.size != (width, height):
            image = image.resize((width, height), Image.Resampling.BILINEAR)
        arrays.append(numpy.atleast_3d(numpy.asarray(image)))
    return numpy.stack(arrays).transpose(0, 3, 1, 2).astype(numpy.float32)


def run_onnx(path, values):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: values})[0]


def softmax(logits):
    exponents = numpy.exp(logits.astype(float) - logits.max(1, keepdims=True))
    return exponents / exponents.sum(1, keepdims=True)


def predicted(text):
    """The files and the scores [b,classes] in what predict --json prints."""
    rows = json.loads(text)
    return [row["file"] for row in rows], numpy.array([list(row["scores"].values()) for row in rows])


def sha256(path):
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def check(name, theirs, ours):
    difference = numpy.abs(theirs - ours).max()
    assert theirs.shape == ours.shape, f"{name}: {theirs.shape} and {ours.shape}"
    assert difference < MOST_DIFFERENCE, f"{name}: differs by {difference}"
    print(f"{name}: differs by at most {difference:.1e}", flush=True)
