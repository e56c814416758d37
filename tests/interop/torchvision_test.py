"""Torchvision's own networks and the AlexNet of 2012 with weights saved by Python, and ImageNet's weights for
SqueezeNet: our logits are theirs.

usage: torchvision_test.py PATH-OF-networks-PROGRAM PATH-OF-lockstep FOLDER-OF-NETWORKS
Needs torch, torchvision and safetensors. $LOCKSTEP_TEST_DATA has the trained SqueezeNet and the photographs; without
them that part is left out with a message.
"""

import collections
import csv
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import torch
import torchvision
from PIL import Image
from safetensors.torch import load_file, save_file

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "flow"))
import runs  # noqa: E402
import squeezenet_file  # noqa: E402

MOST_DIFFERENCE = 1e-4
CLASSES = 11
# Of two the file is torch.save's, one of them as it comes out of DataParallel and a training loop.
NETWORKS = {"alexnet": ("alexnet", 67), "squeezenet": ("squeezenet1_0", 67), "squeezenet1_1": ("squeezenet1_1", 67),
            "resnet18": ("resnet18", 65),
            "resnet50": ("resnet50", 65), "mobilenet_v2": ("mobilenet_v2", 65), "vgg16": ("vgg16", 33),
            "alexnet_2012": (None, 67)}


class AlexNet2012(torch.nn.Sequential):
    """Of Krizhevsky, Sutskever and Hinton 2012, with the names of Caffe's bvlc_alexnet, for images of 67 to 98 places a
    side; torchvision has none."""

    def __init__(self, num_classes):
        conv, norm = torch.nn.Conv2d, lambda: torch.nn.LocalResponseNorm(5, alpha=1e-4, beta=0.75, k=1)
        layers = {"conv1": conv(3, 96, 11, stride=4), "relu1": torch.nn.ReLU(), "norm1": norm(),
                  "pool1": torch.nn.MaxPool2d(3, 2),
                  "conv2": conv(96, 256, 5, padding=2, groups=2), "relu2": torch.nn.ReLU(), "norm2": norm(),
                  "pool2": torch.nn.MaxPool2d(3, 2),
                  "conv3": conv(256, 384, 3, padding=1), "relu3": torch.nn.ReLU(),
                  "conv4": conv(384, 384, 3, padding=1, groups=2), "relu4": torch.nn.ReLU(),
                  "conv5": conv(384, 256, 3, padding=1, groups=2), "relu5": torch.nn.ReLU(),
                  "pool5": torch.nn.MaxPool2d(3, 2), "flatten": torch.nn.Flatten(),
                  "fc6": torch.nn.Linear(256, 4096), "relu6": torch.nn.ReLU(), "fc7": torch.nn.Linear(4096, 4096),
                  "relu7": torch.nn.ReLU(), "fc8": torch.nn.Linear(4096, num_classes)}
        super().__init__(collections.OrderedDict(layers))


def save(name, model, path):
    state = model.state_dict()
    if name == "squeezenet1_1":  # with equal biases as expand() makes them: one number, at a stride of 0
        bias = torch.full((1,), 0.3)
        model.classifier[1].bias.data.copy_(bias)
        torch.save({**state, "classifier.1.bias": bias.expand(CLASSES)}, path)
    elif name == "resnet18":
        torch.save({"epoch": 3, "state_dict": torch.nn.DataParallel(model).state_dict(), "loss": 0.5}, path)
    elif name == "mobilenet_v2":  # as before PyTorch 1.6
        torch.save(state, path, _use_new_zipfile_serialization=False)
    else:
        save_file(state, path)


def check_network(program, folder, name):
    builder, side = NETWORKS[name]
    torch.manual_seed(3)
    model = (getattr(torchvision.models, builder) if builder else AlexNet2012)(num_classes=CLASSES).eval()
    for key, value in model.named_buffers():
        if key.endswith("running_mean"):
            value.normal_(0, 0.1)
        elif key.endswith("running_var"):
            value.uniform_(0.5, 1.5)
    images = torch.rand(3, 3, side, side + 3) * (1 if builder else 255)  # the norms of AlexNet2012 are for such pixels
    weights, inputs, outputs = (folder / f"{name}.{kind}" for kind in ("weights", "images", "scores"))
    save(name, model, weights)
    save_file({"images": images}, inputs)
    subprocess.run([program, "scores", name, str(CLASSES), weights, inputs, outputs], check=True)
    weights.unlink()
    with torch.no_grad():
        expected = model(images)
    difference = (load_file(outputs)["scores"] - expected).abs().max().item()
    assert expected.std().item() > 1e-3, f"{name}: all scores are the same"
    assert difference < MOST_DIFFERENCE, f"{name}: logits differ by {difference}"
    print(f"{name}: logits differ by at most {difference:.1e}", flush=True)


def check_published(lockstep):
    """The table of published weights is torchvision's own."""
    listed = json.loads(subprocess.run([lockstep, "weights", "list", "--json"], check=True, capture_output=True,
                                       text=True).stdout)
    for one in listed:
        weights = torchvision.models.get_model_weights(NETWORKS[one["network"]][0]).DEFAULT
        metrics, input_of = weights.meta["_metrics"]["ImageNet-1K"], weights.transforms()
        assert one["address"] == weights.url, one
        assert one["top1"] == metrics["acc@1"] and one["top5"] == metrics["acc@5"], (one, metrics)
        assert one["megabytes"] == weights.meta["_file_size"], (one, weights.meta["_file_size"])
        assert one["classes"] == len(weights.meta["categories"]), one
        side = {"image-size": input_of.crop_size[0], "resize-to": input_of.resize_size[0]}
        assert one["input"] == {"resize": "crop", "color": "rgb", "normalize": "imagenet",
                                **{name: f"{pixels}x{pixels}" for name, pixels in side.items()}}, one
        assert (input_of.mean, input_of.std) == ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]), input_of
    print(f"{len(listed)} published files are those of torchvision {torchvision.__version__}", flush=True)


def check_published_input(lockstep, photos, folder):
    """Photographs are fitted, cut and normalised as torchvision does for published weights, which are recognised by
    their hash. torchvision rounds the size that it fits to and the cut to whole pixels, so scores differ a little."""
    weights = folder / "published"
    weights.write_bytes(squeezenet_file.check(squeezenet_file.content()))
    model = torchvision.models.squeezenet1_1().eval()
    model.load_state_dict(load_file(weights))
    transform = torchvision.models.SqueezeNet1_1_Weights.DEFAULT.transforms()
    printed = subprocess.run([lockstep, "predict", "squeezenet1_1", *photos, "--weights", weights, "--format", "json"],
                             check=True, capture_output=True, text=True).stdout
    for path, row in zip(photos, json.loads(printed), strict=True):
        with torch.no_grad():
            expected = model(transform(Image.open(path).convert("RGB")).unsqueeze(0)).softmax(1)[0]
        difference = (torch.tensor(list(row["scores"].values())) - expected).abs().max().item()
        assert difference < 0.02 and int(row["label"]) == expected.argmax(), f"{path}: scores differ by {difference}"
    print(f"published weights: {len(photos)} photographs have torchvision's classes", flush=True)


def check_trained(program, lockstep, networks, data, folder):
    """The logits of squeezenet1_0-reference.safetensors, and its answer for each photograph."""
    reference = load_file(data / "squeezenet1_0-reference.safetensors")
    weights = data / "squeezenet1_0-imagenet.safetensors"
    network = networks / "squeezenet_deep_compression.json"
    save_file(
        {"images": reference["input"].permute(0, 3, 1,
                                              2).float(
                                                  ).sub(
                                                      torch.tensor([123.0, 117.0, 104.0]).view(1, 3, 1, 1)).contiguous(
                                                          )}, folder / "crops")
    subprocess.run([program, "scores", network, "1000", weights, folder / "crops", folder / "logits"], check=True)
    difference = (load_file(folder / "logits")["scores"] - reference["logits"]).abs().max().item()
    assert difference < 1e-3, f"trained SqueezeNet: logits differ by {difference}"
    with tarfile.open(data / "imagenet-sample.tar") as tar:
        tar.extractall(folder)
    photos = sorted(path for path in (folder / "imagenet").iterdir() if path.suffix == ".JPEG")
    printed = subprocess.run([lockstep, "predict", network, *photos, "--weights", weights], check=True,
                             capture_output=True, text=True).stdout
    check_published_input(lockstep, photos[:12], folder)
    rows = list(csv.DictReader(io.StringIO(printed)))
    others = [path.name for path, row, right in zip(photos, rows, reference["top1_shared"].tolist(), strict=True)
              if int(row["label"]) != right]
    assert not others, f"trained SqueezeNet: {len(others)} of {len(photos)} answers differ: {others}"
    print(f"trained SqueezeNet: logits differ by at most {difference:.1e}, all {len(photos)} answers are the same")


def main():
    program, lockstep, networks = (Path(argument) for argument in sys.argv[1:])
    with tempfile.TemporaryDirectory() as name:
        few = ["squeezenet1_1", "resnet18", "mobilenet_v2", "alexnet_2012"]  # each kind of layer and of file
        for network in runs.some(few, [network for network in NETWORKS if network not in few]):
            check_network(program, Path(name), network)
        check_published(lockstep)
        data = Path(os.environ.get("LOCKSTEP_TEST_DATA", ""))
        if (data / "squeezenet1_0-imagenet.safetensors").exists():
            check_trained(program, lockstep, networks, data, Path(name))
        else:
            runs.skip("the trained SqueezeNet",
                      "set LOCKSTEP_TEST_DATA to a folder that has squeezenet1_0-imagenet.safetensors and what goes "
                      "with it")


if __name__ == "__main__":
    main()
