"""Files and networks of Lockstep against Python: safetensors, torch.nn.Sequential and torchvision.

usage: safetensors_test.py PATH-OF-networks-PROGRAM     (needs torch, torchvision and safetensors)
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
import torchvision
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "flow"))
import runs  # noqa: E402


def block(inputs, kernel, padding):
    return [nn.Conv2d(inputs, 20, kernel, padding=padding), nn.BatchNorm2d(20), nn.ReLU()]


MODELS = {
    "digits_cnn": lambda: nn.Sequential(*block(1, 5, 0), *block(20, 3, 1), *block(20, 3, 1), nn.Flatten(),
                                        nn.Linear(11520, 10)),
    "lenet": lambda: nn.Sequential(
        nn.Conv2d(1, 20, 5), nn.MaxPool2d(2), nn.Conv2d(20, 50, 5), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(800, 500), nn.ReLU(), nn.Linear(500, 10)),
    "mlp": lambda: nn.Sequential(nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(),
                                 nn.Linear(128, 10)),
    "resnet18": lambda: torchvision.models.resnet18(num_classes=12),
    "resnet50": lambda: torchvision.models.resnet50(num_classes=12),
    "mobilenet_v2": lambda: torchvision.models.mobilenet_v2(num_classes=12),
    "squeezenet": lambda: torchvision.models.squeezenet1_0(num_classes=12),
    "squeezenet1_1": lambda: torchvision.models.squeezenet1_1(num_classes=12),
}


def check_network(folder, name):
    path = folder / f"{name}.safetensors"
    model = MODELS[name]()
    state = load_file(path)
    model.load_state_dict(state, strict=True)
    data = path.read_bytes()
    header = json.loads(data[8:8 + int.from_bytes(data[:8], "little")])
    assert list(header) == list(model.state_dict()), f"{name}: other names or order"
    for key, tensor in model.state_dict().items():
        assert tensor.dtype == state[key].dtype and tensor.shape == state[key].shape, key
    example = load_file(folder / f"{name}.example.safetensors")
    with torch.no_grad():
        scores = model.eval()(example["images"])
    difference = (scores - example["scores"]).abs().max().item()
    assert difference < 1e-5 * max(1.0, scores.abs().max().item()), f"{name}: scores differ by {difference}"
    print(f"{name}: {len(state)} tensors, scores differ by at most {difference:.1e}")


def check_start(folder, name):
    """Weights start with torchvision's spread: compares standard deviations of all large tensors."""
    torch.manual_seed(0)
    ours = load_file(folder / f"{name}.safetensors")
    for key, tensor in MODELS[name]().state_dict().items():
        if tensor.numel() >= 5000:
            ratio = (ours[key].std() / tensor.std()).item()
            assert 0.93 < ratio < 1.07, f"{name}: {key} starts with {ratio:.3f} of torchvision's spread"


def check_copy(folder, program):
    numbers = torch.arange(15).reshape(3, 5)
    types = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16,
             torch.float32, torch.float64]
    tensors = {str(t): numbers.to(t) for t in types}
    tensors |= {"flags": numbers > 7, "scalar": torch.tensor(2.5), "empty": torch.zeros(0, 4), "é \"x\"": torch.rand(7)}
    save_file(tensors, folder / "python.safetensors", metadata={"format": "pt", "note": "line\n2"})
    subprocess.run([program, "copy", folder / "python.safetensors", folder / "copy.safetensors"], check=True)
    copied = load_file(folder / "copy.safetensors")
    assert copied.keys() == tensors.keys()
    for key, tensor in tensors.items():
        assert copied[key].dtype == tensor.dtype and torch.equal(copied[key], tensor), key
    with safe_open(folder / "copy.safetensors", "pt") as file:
        assert file.metadata() == {"format": "pt", "note": "line\n2"}
    print(f"copy: {len(tensors)} tensors equal")


def main():
    program = sys.argv[1]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        started_alike = runs.some(["resnet18", "mobilenet_v2", "squeezenet1_1"], ["resnet50", "squeezenet"])
        networks = ["digits_cnn", "lenet", "mlp", *started_alike]
        subprocess.run([program, "write", folder, *networks], check=True)
        for network in networks:
            check_network(folder, network)
        for network in started_alike:
            check_start(folder, network)
        check_copy(folder, program)


if __name__ == "__main__":
    main()
