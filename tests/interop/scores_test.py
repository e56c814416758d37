"""PyTorch takes our trained weights strictly and gives the scores that `lockstep predict` gives; TensorBoard reads the
run.

usage: scores_test.py PATH-OF-lockstep ARCHIVE-OF-DIGITS
Needs torch, torchvision, safetensors, Pillow and tensorboard.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy
import torch
import torchvision
from PIL import Image
from safetensors.torch import load_file
from torch import nn

MOST_DIFFERENCE = 1e-5


def block(inputs, kernel, padding):
    return [nn.Conv2d(inputs, 20, kernel, padding=padding), nn.BatchNorm2d(20), nn.ReLU()]


def digits_cnn():
    return nn.Sequential(*block(1, 5, 0), *block(20, 3, 1), *block(20, 3, 1), nn.Flatten(), nn.Linear(11520, 10))


def write_noise(folder):
    """Colour images of four classes, 48x40."""
    random = numpy.random.default_rng(1)
    for label in range(4):
        (folder / f"class{label}").mkdir(parents=True)
        for number in range(10):
            pixels = random.integers(0, 128, (40, 48, 3), dtype=numpy.uint8)
            pixels[:, label * 12:(label + 1) * 12] += 100
            Image.fromarray(pixels).save(folder / f"class{label}" / f"{number}.png")


def run(program, *arguments):
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(map(str, arguments))}\nended with {done.returncode}:\n{done.stderr}"
    return done.stdout


def images_of(paths, mode, normalize):
    arrays = [numpy.atleast_3d(numpy.asarray(Image.open(path).convert(mode))) for path in paths]
    mean, deviation = normalize
    return (torch.from_numpy(numpy.stack(arrays)).permute(0, 3, 1, 2).to(torch.float32) / 255 - mean) / deviation


def check(program, folder, network, model, data, mode, options, normalize=(0.0, 1.0)):
    output = folder / network
    run(program, "train", data, "--network", network, "--output", output, "--workers", 2, "--mini-batch-size", 16,
        *options)
    predicted = json.loads(run(program, "predict", output, data, "--format", "json"))
    state = load_file(output / "model.safetensors")
    model.load_state_dict(state, strict=True)
    data = (output / "model.safetensors").read_bytes()
    header = json.loads(data[8:8 + int.from_bytes(data[:8], "little")])
    assert list(header) == list(model.state_dict(
        )), f"{network}: the header has other names, another order, or more than tensors"
    with torch.no_grad():
        scores = torch.softmax(model.eval()(images_of([one["file"] for one in predicted], mode, normalize)).double(), 1)
    ours = torch.tensor([list(one["scores"].values()) for one in predicted], dtype=torch.float64)
    difference = (scores - ours).abs().max().item()
    assert ours.std().item() > 1e-4, f"{network}: all scores are the same"
    assert difference < MOST_DIFFERENCE, f"{network}: scores differ by {difference}"
    print(f"{network}: {len(predicted)} images, scores differ by at most {difference:.1e}", flush=True)
    return output


def main():
    program, archive = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="lockstep-interop-") as name:
        folder = Path(name)
        os.environ["LOCKSTEP_DIGITS"] = archive
        sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "flow"))
        import runs  # noqa: PLC0415

        digits, noise = folder / "data/digits", folder / "data/noise"
        runs.write_digits({digits: 120})
        write_noise(noise)
        output = check(program, folder, "digits_cnn", digits_cnn(), digits, "L",
                       ["--max-epochs", 2, "--normalize", "0.25,0.5"], (0.25, 0.5))
        check(program, folder, "resnet18", torchvision.models.resnet18(num_classes=4), noise, "RGB", ["--max-steps", 2])
        if runs.IS_LONG:
            check(program, folder, "squeezenet", torchvision.models.squeezenet1_0(num_classes=4), noise, "RGB",
                  ["--max-steps", 2, "--learning-rate", 0.001])
        tensorboard = Path(__file__).with_name("tensorboard_test.py")
        subprocess.run([sys.executable, tensorboard, output], check=True)


if __name__ == "__main__":
    main()
