"""The peers of bench/inference: torchvision's network in PyTorch with a DataLoader, or in onnxruntime with the same one.
Prints one line of JSON: images/s without the first mini-batch, and the peak memory in MB of this process and its loaders.
"""

import argparse
import io
import json
import os
import resource
import time
from pathlib import Path

import torch
import torchvision
from PIL import Image
from safetensors.torch import load_file, save_file

BATCH = 64
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
MODELS = {"resnet18": torchvision.models.resnet18, "resnet50": torchvision.models.resnet50,
          "squeezenet": torchvision.models.squeezenet1_0}


class Files(torch.utils.data.Dataset):
    """JPEG files, stretched to a square as Lockstep does and normalised."""

    def __init__(self, folder, size):
        self.paths, self.size = sorted(path for path in Path(folder).rglob("*") if path.is_file()), size

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        image = Image.open(self.paths[index]).convert("RGB").resize((self.size, self.size), Image.BILINEAR)
        tensor = torchvision.transforms.functional.to_tensor(image)
        return torchvision.transforms.functional.normalize(tensor, MEAN, DEVIATION, inplace=True)


def write_weights(network, path):
    torch.manual_seed(1)
    model = MODELS[network](num_classes=1000)
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            torch.nn.init.uniform_(module.weight, 0.5, 1.5)
            torch.nn.init.uniform_(module.bias, -0.1, 0.1)
            module.running_mean.uniform_(-0.1, 0.1)
            module.running_var.uniform_(0.5, 1.5)
    save_file({name: tensor.contiguous() for name, tensor in model.state_dict().items()}, path)


def trained(network, path):
    model = MODELS[network](num_classes=1000)
    model.load_state_dict(load_file(path))
    return model.eval()


def torch_scores(model, options):
    if options.channels_last:
        model = model.to(memory_format=torch.channels_last)
    if options.compile:
        model = torch.compile(model)

    def scores(images):
        if options.channels_last:
            images = images.contiguous(memory_format=torch.channels_last)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=options.precision == "bf16-mixed"):
            logits = model(images)
        return torch.softmax(logits.double(), 1)
    return scores


def onnx_scores(model, options):
    import onnxruntime
    file = io.BytesIO()
    torch.onnx.export(model, (torch.zeros(1, 3, options.size, options.size),), file, dynamo=False, opset_version=17,
                      input_names=["images"], dynamic_axes={"images": {0: "batch"}})
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = options.threads
    session = onnxruntime.InferenceSession(file.getvalue(), settings, providers=["CPUExecutionProvider"])
    return lambda images: torch.softmax(torch.from_numpy(session.run(None, {"images": images.numpy()})[0]).double(), 1)


def peak_megabytes():
    """Of this process and of its loaders, which share no memory that counts."""
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    children = 0
    for child in Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split():
        lines = Path(f"/proc/{child}/status").read_text().splitlines()
        children += sum(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))
    return (own + children) / 1024


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=("weights", "torch", "onnx"))
    parser.add_argument("network", choices=sorted(MODELS))
    parser.add_argument("weights", type=Path)
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--precision", choices=("32-true", "bf16-mixed"), default="32-true")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--loaders", type=int, default=0)
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--compile", action="store_true")
    options = parser.parse_args()
    if options.kind == "weights":
        return write_weights(options.network, options.weights)
    torch.set_num_threads(options.threads)
    files = Files(options.folder, options.size)
    loader = torch.utils.data.DataLoader(files, BATCH, num_workers=options.loaders, persistent_workers=options.loaders > 0)
    model = trained(options.network, options.weights)
    with torch.inference_mode():
        scores = (torch_scores if options.kind == "torch" else onnx_scores)(model, options)
        warm = torch.stack([files[i] for i in range(min(BATCH, len(files)))])
        rest = len(files) % BATCH  # torch.compile compiles for each size
        for images in (warm, warm[:rest]) if rest else (warm,):
            scores(images)
        start, classes, memory = time.monotonic(), [], 0
        for images in loader:
            classes.append(scores(images).argmax(1))
            memory = max(memory, peak_megabytes())
        seconds = time.monotonic() - start
    print(json.dumps({"rate": len(files) / seconds, "memory": memory, "classes": torch.cat(classes)[:5].tolist()}))


if __name__ == "__main__":
    main()
