"""onnxruntime gives the scores of `lockstep predict` for every built-in network, on real images; import gives the
weights back, bit for bit; the code that is written builds the same network.

usage: onnx_export_test.py PATH-OF-lockstep PATH-OF-lockstep_exported_code ARCHIVE-OF-DIGITS
Needs onnx, onnxruntime, torch, safetensors and Pillow.
"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy
import onnx
import torch
from safetensors.torch import load_file, save_file

from exchange import (Lockstep, check, pixels_of, predicted, run_onnx, sha256, softmax, write_images)

# Every type of layer, and the options that are written in a way of their own; recurrent layers. The C++ code of both
# is compiled when the tests are built.
EVERY, STEPS = (Path(__file__).with_name("networks") / name for name in ("every.json", "steps.json"))

# Network, image size, colour. The larger ones need seconds each.
NETWORKS = [("lenet", (28, 28), "grey"), ("mlp", (28, 28), "grey"), ("squeezenet", (67, 60), "rgb"),
            ("squeezenet1_1", (64, 64), "rgb"), ("resnet18", (64, 70), "rgb"), ("mobilenet_v2", (64, 64), "rgb"),
            ("alexnet", (70, 95), "rgb")]
LARGE = [("resnet50", (64, 64), "rgb"), ("alexnet_2012", (67, 67), "rgb"), ("vgg16", (224, 224), "rgb")]


def without_metadata(path, into):
    model = onnx.load(path)
    del model.metadata_props[:]
    onnx.save(model, into)


def weights_hash(path, counts=True):
    """Of names, types, shapes and bits, in any order; `counts`: also of the counts of batches."""
    tensors = sorted(item for item in load_file(path).items() if counts or not item[0].endswith("num_batches_tracked"))
    parts = (f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode() + tensor.numpy().tobytes()
             for name, tensor in tensors)
    return hashlib.sha256(b"".join(parts)).hexdigest()


def give_life(path):
    """Statistics and weights of batch norms that are not those of the start, so that mistakes show."""
    torch.manual_seed(6)
    tensors = load_file(path)
    for name, tensor in tensors.items():
        if name.endswith("running_var") or (tensor.dim() == 1 and name.endswith(".weight")):
            tensor.uniform_(0.5, 1.5)
        elif name.endswith("running_mean") or (tensor.dim() == 1 and name.endswith(".bias")):
            tensor.uniform_(-0.2, 0.2)
        elif name.endswith("num_batches_tracked"):
            tensor.fill_(7)
    save_file(tensors, path)


def check_python(folder, name, values, expected):
    """The module in NAME.py loads NAME.safetensors strictly and computes the same."""
    scope = {}
    exec(compile((folder / f"{name}.py").read_text(), f"{name}.py", "exec"), scope)
    network = scope["Network"]()
    network.load_state_dict(load_file(folder / f"{name}.safetensors"), strict=True)
    with torch.no_grad():
        logits = network.eval()(torch.from_numpy(values)).numpy()
    difference = numpy.abs(logits - expected).max() / max(1, numpy.abs(expected).max())
    assert difference < 1e-5, f"{name}.py differs by {difference}"


def check_cpp(program, folder, name, values, expected):
    """The same for the compiled C++ code of the networks that this test has compiled."""
    save_file({"x": torch.from_numpy(numpy.ascontiguousarray(values))}, folder / "x.safetensors")
    subprocess.run([program, name, folder / f"{name}.safetensors", folder / "x.safetensors", folder / "y.safetensors"],
                   check=True)
    logits = load_file(folder / "y.safetensors")["y"].numpy()
    difference = numpy.abs(logits - expected).max() / max(1, numpy.abs(expected).max())
    assert difference < 1e-5, f"{name}.cpp differs by {difference}"


def check_network(lockstep, folder, network, size, color):
    name = Path(network).stem
    file, images = folder / f"{name}.onnx", folder / "images"
    options = ["--image-size", "x".join(map(str, size)), "--color", color, "--normalize", "0.4,0.3", "--classes", 7]
    lockstep("export", network, folder / f"{name}.safetensors", *options)
    give_life(folder / f"{name}.safetensors")
    lockstep("export", network, file, "--weights", folder / f"{name}.safetensors", *options[:-2])
    lockstep("export", network, folder / f"{name}.py", *options)
    lockstep("import", file, "--output", folder / "again.json")
    assert weights_hash(folder / "again.safetensors") == weights_hash(folder / f"{name}.safetensors"), name
    again = json.loads((folder / "again.json").read_text())
    assert again["input"]["normalize"] == ",".join(["0.4,0.3"] * (1 if color == "grey" else 3)), again["input"]
    onnx.checker.check_model(str(file), full_check=True)
    paths, ours = predicted(lockstep("predict", folder / "again.json", images, "--weights",
                                     folder / "again.safetensors", "--json"))
    pixels = pixels_of(paths, "L" if color == "grey" else "RGB", size)
    logits = run_onnx(file, pixels)
    assert numpy.std(ours) > 1e-6, f"{name}: all scores are the same"
    check(f"{name} {size}", softmax(logits), ours)
    values = (pixels / 255 - numpy.float32(0.4)) / numpy.float32(0.3)
    check_python(folder, name, values, logits)
    # Without our metadata, the operators alone give the same weights.
    without_metadata(file, folder / "plain.onnx")
    for left in folder.glob("again.*"):
        left.unlink()
    if network.endswith(".json"):
        return values, logits
    if name != "alexnet":  # whose adaptive pooling of this size has no operator in ONNX
        lockstep("import", folder / "plain.onnx", "--output", folder / "again.json")
        assert weights_hash(folder / "again.safetensors", counts=False) == weights_hash(
            folder / f"{name}.safetensors", counts=False), f"plain {name}"
        for left in folder.glob("again.*"):
            left.unlink()
    return values, logits


def check_run(lockstep, folder, digits):
    """A trained run: classes, its own normalisation, folding, scores, input that is already normalised."""
    run, file = folder / "run", folder / "run.onnx"
    lockstep("train", digits, "--network", "digits_cnn", "--output", run, "--max-epochs", 1, "--mini-batch-size", 16,
             "--normalize", "mean-std")
    lockstep("export", run, file)
    paths, ours = predicted(lockstep("predict", run, digits, "--json"))
    pixels = pixels_of(paths, "L", (28, 28))
    logits = run_onnx(file, pixels)
    check("a run", softmax(logits), ours)
    classes = {entry.key: entry.value for entry in onnx.load(file).metadata_props}["classes"]
    assert json.loads(classes) == [str(digit) for digit in range(10)], classes
    lockstep("export", run, folder / "folded.onnx", "--fold-batch-norm", "--scores")
    folded = onnx.load(folder / "folded.onnx")
    assert not [node for node in folded.graph.node if node.op_type == "BatchNormalization"]
    check("folded, with scores", run_onnx(folder / "folded.onnx", pixels), ours)
    lockstep("import", folder / "folded.onnx", "--output", folder / "folded.json")
    _, ours_folded = predicted(lockstep("predict", folder / "folded.json", digits, "--weights",
                                        folder / "folded.safetensors", "--json"))
    check("folded, imported", ours_folded, ours)
    printed = lockstep("import", file, "--output", folder / "back.json")
    next_command = [line for line in printed.splitlines() if line.startswith("next: lockstep predict ")][0]
    assert next_command.endswith(f" --classes {folder}/back.classes.txt"), printed
    assert sha256(folder / "back.safetensors") == sha256(run / "model.safetensors")
    assert (folder / "back.classes.txt").read_text().split() == [str(digit) for digit in range(10)]
    mean, deviation = map(float, json.loads((folder / "back.json").read_text())["input"]["normalize"].split(","))
    lockstep("export", run, folder / "bare.onnx", "--normalized-input")
    check("normalised input", run_onnx(folder / "bare.onnx", ((pixels / 255 - mean) / deviation).astype("float32")),
          logits)
    lockstep("export", run, folder / "weights.safetensors")
    assert sha256(folder / "weights.safetensors") == sha256(run / "model.safetensors")
    lockstep("export", run, folder / "graph.json")
    assert json.loads((folder / "graph.json").read_text()) == json.loads((folder / "back.json").read_text())


def check_graphs(lockstep, folder):
    """The layer graph of a network says of its input what its file says and what is asked for, and no more."""
    def written(network, **options):
        lockstep("export", network, folder / "written.json", *(part for name, value in options.items()
                                                               for part in (f"--{name.replace('_', '-')}", value)))
        graph = json.loads((folder / "written.json").read_text())
        return graph.get("input", {}) if isinstance(graph, dict) else {}

    assert written("squeezenet") == {}, written("squeezenet")
    asked = {"image-size": "64x64", "resize": "crop", "resize-to": "72x72", "color": "rgb", "normalize": "imagenet"}
    found = written("squeezenet", **{name.replace("-", "_"): value for name, value in asked.items()})
    assert found == asked, found
    own = {"color": "rgb", "normalize": "imagenet", "resize-to": "72x72"}
    (folder / "own.json").write_text(json.dumps({**json.loads(EVERY.read_text()), "input": own}))
    assert written(folder / "own.json") == own, written(folder / "own.json")
    found = written(folder / "own.json", image_size="29x46", normalize="0.5,0.25")
    assert found == {**own, "image-size": "29x46", "normalize": "0.5,0.25"}, found


def check_many_channels(lockstep, folder):
    """A run whose normalisation is a long text."""
    import sequences  # noqa: PLC0415

    run = folder / "wide"
    sequences.write_ts(folder / "wide.ts", 60, seed=1, channels=64)
    lockstep("train", folder / "wide.ts", "--network", "lstm_classifier", "--output", run, "--max-epochs", 1,
             "--mini-batch-size", 16, "--normalize", "mean-std")
    for end in ("json", "onnx"):
        lockstep("export", run, folder / f"wide.{end}")
    normalize = json.loads((folder / "wide.json").read_text())["input"]["normalize"]
    assert len(normalize.split(",")) == 128, normalize
    lockstep("import", folder / "wide.onnx", "--output", folder / "wide_again.json")
    assert weights_hash(folder / "wide_again.safetensors") == weights_hash(run / "model.safetensors")
    assert json.loads((folder / "wide_again.json").read_text())["input"]["normalize"] == normalize


def check_sequences(lockstep, program, folder, network, name, options):
    """Of any length; PyTorch's module of the same name and weights is the reference."""
    file = folder / f"{name}.onnx"
    for end in ("onnx", "safetensors", "py"):
        lockstep("export", network, folder / f"{name}.{end}", *options)
    lockstep("import", file, "--output", folder / "again.json")
    assert weights_hash(folder / "again.safetensors") == weights_hash(folder / f"{name}.safetensors"), name
    for left in folder.glob("again.*"):
        left.unlink()
    for steps in (29, 5):
        values = numpy.random.default_rng(2).standard_normal((3, 12, steps)).astype(numpy.float32)
        logits = run_onnx(file, values)
        check_python(folder, name, values, logits)
        if program:
            check_cpp(program, folder, name, values, logits)
    print(f"{name}: as in PyTorch{' and C++' if program else ''}", flush=True)


def main():
    program, code, archive = sys.argv[1:]
    os.environ["LOCKSTEP_DIGITS"] = archive
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "flow"))
    import runs  # noqa: PLC0415

    lockstep = Lockstep(program)
    with tempfile.TemporaryDirectory(prefix="lockstep-interop-") as name:
        folder = Path(name)
        write_images(folder / "images")
        for network, size, color in [*NETWORKS, *(LARGE if runs.IS_LONG else [])]:
            check_network(lockstep, folder, network, size, color)
        values, logits = check_network(lockstep, folder, str(EVERY), (29, 46), "rgb")
        check_cpp(code, folder, "every", values, logits)
        runs.write_digits({folder / "digits": 100})
        check_run(lockstep, folder, folder / "digits")
        check_graphs(lockstep, folder)
        check_many_channels(lockstep, folder)
        check_sequences(lockstep, code, folder, STEPS, "steps", ["--sequence", "12x29"])
        for network in ("lstm_classifier", "conv_classifier"):
            check_sequences(lockstep, None, folder, network, network, [])


if __name__ == "__main__":
    main()
