"""`lockstep import` reads what torch.onnx.export writes of torchvision's networks and of recurrent ones; `lockstep
predict` then gives their scores. Hostile files end with one error.

usage: onnx_import_test.py PATH-OF-lockstep
Needs torch, torchvision, onnx, onnxscript, onnxruntime, safetensors and Pillow.
"""

import contextlib
import io
import json
import os
import shutil
import sys
import tempfile
import warnings
from pathlib import Path

import numpy

import torch
import torchvision
from onnx import TensorProto, helper, numpy_helper
from safetensors.torch import load_file
from torch import nn

from exchange import Lockstep, check, pixels_of, predicted, softmax, write_images

IS_LONG = bool(os.environ.get("LOCKSTEP_LONG"))
# Network, image size, whether by today's exporter (else by the one that traces). Each pair costs seconds.
NETWORKS = [("resnet18", 64, True), ("squeezenet1_0", 67, False), ("mobilenet_v2", 64, True), ("alexnet", 224, False)]
MORE = [("resnet18", 64, False), ("squeezenet1_0", 67, True), ("mobilenet_v2", 64, False), ("alexnet", 224, True),
        ("vgg16", 224, True), ("vgg16", 224, False)]


class Steps(nn.Module):
    """Two recurrent layers and what is usual after them."""

    def __init__(self, kind, by_state):
        super().__init__()
        self.rnn = kind(12, 20, 2, batch_first=True)
        self.fc = nn.Linear(20, 9)
        self.by_state = by_state

    def forward(self, x):
        outputs, state = self.rnn(x.transpose(1, 2))
        return self.fc(state[-1] if self.by_state else outputs[:, -1])


class Mixed(nn.Module):
    """Layers in forms that the networks of torchvision do not have."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.gelu = nn.GELU()
        self.norm = nn.BatchNorm2d(8)
        self.pool = nn.AvgPool2d(2, count_include_pad=True, padding=1)
        self.pad = nn.ZeroPad2d(1)
        self.conv2 = nn.Conv2d(8, 6, 3, stride=2, bias=False)
        self.norm2 = nn.BatchNorm2d(6)
        self.head = nn.Linear(6, 7)

    def forward(self, x):
        x = self.pool(self.norm(self.gelu(self.conv((x - 0.5) / 0.25))))
        x = torch.sigmoid(self.norm2(self.conv2(self.pad(x)))) + torch.tanh(self.conv2(self.pad(x)))
        return torch.log_softmax(self.head(x.mean((2, 3))), 1)


def export(module, values, path, today, **more):
    """By today's default exporter, or by the older one."""
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module, (values,), path, **({} if today else {"dynamo": False}), **more)


def given_life(module):
    """Statistics and weights that are not those of the start, so that mistakes show."""
    torch.manual_seed(5)
    for layer in module.modules():
        if isinstance(layer, (nn.BatchNorm2d, nn.BatchNorm1d)):
            nn.init.uniform_(layer.running_mean, -0.2, 0.2)
            nn.init.uniform_(layer.running_var, 0.5, 1.5)
            nn.init.uniform_(layer.weight, 0.5, 1.5)
            nn.init.uniform_(layer.bias, -0.2, 0.2)
    return module.eval()


def check_images(lockstep, folder, name, module, size, today):
    path = folder / f"{name}.onnx"
    values = torch.rand(2, 3, size, size)
    export(module, values, path, today)
    graph = folder / f"{name}.json"
    lockstep("import", path, "--output", graph)
    normalize = [] if "normalize" in graph.read_text() else ["--normalize", "none"]
    paths, ours = predicted(lockstep("predict", graph, folder / "images", "--weights", graph.with_suffix(".safetensors"),
                                     "--json", *normalize))
    with torch.no_grad():
        logits = module(torch.from_numpy(pixels_of(paths, "RGB", (size, size)) / 255)).numpy()
    assert numpy.std(softmax(logits)) > 1e-6
    check(f"{name}, {'today' if today else 'older'}", softmax(logits), ours)
    tensors = load_file(graph.with_suffix(".safetensors"))
    for file in folder.glob(f"{name}.*"):
        file.unlink()
    return tensors


def check_torchvision(lockstep, folder):
    torch.manual_seed(3)
    for name, size, today in [*NETWORKS, *(MORE if IS_LONG else [])]:
        module = given_life(getattr(torchvision.models, name)(weights=None, num_classes=11))
        tensors = check_images(lockstep, folder, name, module, size, today)
        # The names of tensors are those of the state dict, where the exporter kept them.
        if name == "alexnet" or today:
            unknown = set(tensors) - set(module.state_dict()) - {key.replace(".weight", ".bias")
                                                                 for key in module.state_dict()}
            assert not unknown, f"{name}: {unknown}"


def check_recurrent(lockstep, folder):
    torch.manual_seed(4)
    for kind, by_state, today in [(nn.LSTM, False, True), (nn.GRU, True, False), *(
            [(nn.LSTM, False, False), (nn.GRU, True, True)] if IS_LONG else [])]:
        name = f"{kind.__name__}-{today}"
        module, path = Steps(kind, by_state).eval(), folder / f"{name}.onnx"
        values = torch.randn(2, 12, 7)
        export(module, values, path, today,
               **({"dynamic_shapes": ({0: "batch"},)} if today else {"dynamic_axes": {"x": {0: "batch"}},
                                                                    "input_names": ["x"]}))
        lockstep("import", path, "--output", folder / f"{name}.json")
        # The module that is written for the imported network has PyTorch's own layers.
        lockstep("export", folder / f"{name}.json", folder / f"{name}.py", "--sequence", "12x7", "--classes", 9)
        scope = {}
        exec((folder / f"{name}.py").read_text(), scope)
        again = scope["Network"]()
        again.load_state_dict(load_file(folder / f"{name}.safetensors"), strict=True)
        with torch.no_grad():
            check(name, again.eval()(values).numpy(), module(values).numpy())


def small_model(nodes, tensors=(), inputs=(1, 3, 8, 8), outputs=("y",), version=20):
    """A model of these nodes from x to y."""
    graph = helper.make_graph(
        list(nodes), "graph", [helper.make_tensor_value_info("x", TensorProto.FLOAT, inputs)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in tensors])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)])


def head(value="f"):
    """A flatten and a linear layer, from `value`."""
    return [helper.make_node("Flatten", [value], ["flat"], name="flat"),
            helper.make_node("Gemm", ["flat", "w"], ["y"], name="head", transB=1)]


WEIGHT = ("w", numpy.zeros((4, 192), numpy.float32))


# For a Pad of one pixel on each side.
PADDED = [("pads", numpy.array([0, 0, 1, 1, 0, 0, 1, 1])), ("k", numpy.zeros((3, 3, 3, 3), numpy.float32))]


def shared_model(layers, features=1200):
    """Linear layers that name the same weight."""
    nodes = [helper.make_node("Flatten", ["x"], ["flat"]),
             helper.make_node("Gemm", ["flat", "first"], ["v0"], transB=1),
             *(helper.make_node("Gemm", [f"v{i}", "shared"], [f"v{i + 1}"], transB=1) for i in range(layers)),
             helper.make_node("Gemm", [f"v{layers}", "last"], ["y"], transB=1)]
    return small_model(nodes, [(name, numpy.zeros(shape, numpy.float32)) for name, shape in (
        ("first", (features, 192)), ("shared", (features, features)), ("last", (4, features)))])


def external(location, offset="0", length=str(4 * 192 * 4)):
    model = small_model(head("x"), [WEIGHT])
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        tensor.external_data.add(key=key, value=value)
    return model


def changed(change):
    model = small_model(head("x"), [WEIGHT])
    change(model)
    return model


def set_dims(*dims):
    def change(model):
        del model.graph.initializer[0].dims[:]
        model.graph.initializer[0].dims.extend(dims)
    return change


def field(number, text):
    """A part of a message of protobuf."""
    length, size = len(text), b""
    while length > 127:
        size += bytes([length & 127 | 128])
        length >>= 7
    return bytes([number << 3 | 2]) + size + bytes([length]) + text


def deep_model(depth):
    """Branches in branches, deeper than Python's protobuf writes them."""
    node = field(4, b"Relu")
    for _ in range(depth):
        node = field(1, b"x") + field(2, b"f") + field(4, b"If") + field(5, field(1, b"then_branch") + field(6, field(1, node)))
    model = small_model(head(), [WEIGHT])
    return field(7, field(1, node) + model.graph.SerializeToString()) + field(8, b"\x10\x14")


def check_refusals(lockstep, folder):
    """One error each, which names what is wrong, and nothing is written."""
    good = small_model(head("x"), [WEIGHT]).SerializeToString()
    (folder / "secret").write_bytes(bytes(4096))
    (folder / "models").mkdir()
    (folder / "models/link").symlink_to("../secret")
    (folder / "models/data").write_bytes(bytes(100))
    cases = {
        "HardSwish": (small_model([helper.make_node("HardSwish", ["x"], ["f"], name="/act/HardSwish"), *head()],
                                  [WEIGHT]), '1 operator has no layer in Lockstep: HardSwish "/act/HardSwish"'),
        "two": (small_model([helper.make_node("Elu", ["x"], ["e"], name="a"),
                             helper.make_node("HardSwish", ["x"], ["h"], name="b"),
                             helper.make_node("Add", ["e", "h"], ["f"]), *head()], [WEIGHT]),
                'Elu "a": Lockstep has no such layer; HardSwish "b": Lockstep has no such layer'),
        "cycle": (small_model([helper.make_node("Add", ["x", "b"], ["a"], name="first"),
                               helper.make_node("Relu", ["a"], ["b"]),
                               helper.make_node("Relu", ["b"], ["f"]), *head()], [WEIGHT]),
                  'Add "first" reads "b", which no operator before it gives'),
        "deep": (deep_model(5_000), 'If that gives "f": Lockstep has no such layer'),
        "outside": (external("../secret"), "which is not in the folder of the ONNX file"),
        "absolute": (external("/etc/passwd"), "which is not in the folder of the ONNX file"),
        "link": (external("link"), "which is not a file in the folder of the ONNX file"),
        "folder": (external("."), "which is not a file in the folder of the ONNX file"),
        "missing": (external("none"), "No such file"),
        "short": (external("data"), "which has 100 bytes"),
        "negative": (external("data", offset="-4"), 'external data with "offset" "-4"'),
        "length": (external("data", length="100"), "its shape needs 3,072"),
        "huge": (changed(set_dims(1 << 40, 1 << 40)), "which is not possible"),
        "large": (changed(set_dims(1 << 20, 192)), "its shape needs"),
        "minus": (changed(set_dims(-4, 192)), "which is not possible"),
        "shape": (changed(set_dims(3, 256)), "its weight takes 256 features"),
        "old": (small_model(head("x"), [WEIGHT], version=6), "version 6 of ONNX's operators"),
        "outputs": (small_model(head("x"), [WEIGHT], outputs=("y", "flat")), "has 2 outputs"),
        "domain": (small_model([helper.make_node("Relu", ["x"], ["f"], domain="com.example"), *head()], [WEIGHT]),
                   'of the domain "com.example"'),
        "padding": (small_model([helper.make_node("MaxPool", ["x"], ["f"], name="pool", kernel_shape=[2, 2],
                                                  pads=[1, 0, 0, 0]), *head()], [WEIGHT]),
                    'MaxPool "pool": its padding is 1 above, 0 below'),
        "padded": (small_model([helper.make_node("Pad", ["x", "pads"], ["p"]),
                                helper.make_node("Sub", ["p", "c"], ["s"], name="shift"),
                                helper.make_node("Conv", ["s", "k"], ["f"]), *head()],
                               [WEIGHT, *PADDED, ("c", numpy.full((1,), 0.5, numpy.float32))]),
                   'Sub "shift": there is a Pad before it'),
        "padded mean": (small_model([helper.make_node("Pad", ["x", "pads"], ["p"]),
                                     helper.make_node("ReduceMean", ["p", "axes"], ["f"], name="mean"), *head()],
                                    [WEIGHT, *PADDED, ("axes", numpy.array([2, 3]))]),
                        'ReduceMean "mean": there is a Pad before it'),
        "cut": (small_model([helper.make_node("Pad", ["x", "pads"], ["p"]),
                             helper.make_node("Slice", ["p", "begin", "end", "axes"], ["f"], name="cut"), *head()],
                            [WEIGHT, *PADDED, ("begin", numpy.array([0, 0])), ("end", numpy.array([8, 8])),
                             ("axes", numpy.array([2, 3]))]),
                'Slice "cut": there is a Pad before it'),
        "softmax": (small_model([helper.make_node("Softmax", ["x"], ["f"], name="all", axis=1), *head()], [WEIGHT],
                                version=11), 'Softmax "all": it goes over all axes of [batch,3,8,8]'),
        "uneven mean": (small_model([helper.make_node("AveragePool", ["x"], ["f"], name="pool", kernel_shape=[2, 2],
                                                      strides=[2, 2], pads=[1, 1, 2, 2], count_include_pad=1),
                                     *head()], [WEIGHT]),
                        'AveragePool "pool": its padding is not equal on both sides'),
        "shared": (shared_model(300), "too many layers share the same tensors"),
        "open": (small_model(head("x"), [WEIGHT], inputs=("n", 3, "h", "w")), "--image-size HxW"),
        "truncated": (good[:len(good) // 2], '/models/bad.onnx" is not a complete ONNX file: '),
        "text": (b"not a model at all", '/models/bad.onnx" is not a complete ONNX file: '),
        "empty": (b"", '/models/bad.onnx" is not a complete ONNX file: it is empty'),
        "parts": (field(7, b"\x0a\x00" * 2_000_001), "more than 2,000,000 parts"),
    }
    path, wrong = folder / "models/bad.onnx", []
    for name, (model, expected) in cases.items():
        path.write_bytes(model if isinstance(model, bytes) else model.SerializeToString())
        text = lockstep.fails("import", path, "--output", folder / "bad.json")
        if expected not in text or text.count("lockstep: ") != 1 or list(folder.glob("bad.*")):
            wrong.append(f"{name}: {text}")
    assert not wrong, "\n".join(wrong)
    print(f"{len(cases)} files are refused", flush=True)


def check_normalisations(lockstep, folder):
    """Of pixels from 0 to 1 and from 0 to 255, in the units of `normalize`, pixels / 255."""
    def constant(name, *numbers):
        return name, numpy.array(numbers, numpy.float32).reshape(1, -1, 1, 1)

    mean, deviation = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    bytes_mean = tuple(255 * number for number in mean)
    cases = {"centred": ([("Sub", (0.45,))], (0.45,) * 3, (1,) * 3),
             "torchvision": ([("Sub", mean), ("Div", deviation)], mean, deviation),
             "both": ([("Sub", (0.5,)), ("Mul", (2,))], (0.5,) * 3, (0.5,) * 3),
             "bytes": ([("Sub", bytes_mean)], mean, (1 / 255,) * 3),
             "scaled": ([("Div", (127.5,)), ("Sub", (1,))], (0.5,) * 3, (0.5,) * 3)}
    for name, (steps, expected_mean, expected_deviation) in cases.items():
        value, nodes, tensors = "x", [], [WEIGHT]
        for place, (op, numbers) in enumerate(steps):
            tensors.append(constant(f"c{place}", *numbers))
            nodes.append(helper.make_node(op, [value, f"c{place}"], [f"v{place}"]))
            value = f"v{place}"
        path = folder / f"{name}.onnx"
        path.write_bytes(small_model([*nodes, *head(value)], tensors).SerializeToString())
        lockstep("import", path, "--output", folder / f"{name}.json")
        found = json.loads((folder / f"{name}.json").read_text())["input"]["normalize"].split(",")
        assert numpy.allclose([float(number) for number in found[::2]], expected_mean, atol=1e-5), (name, found)
        assert numpy.allclose([float(number) for number in found[1::2]], expected_deviation, atol=1e-5), (name, found)


def check_command(lockstep, folder):
    """Nothing is overwritten, open sizes can be given, and a file of external data is read."""
    path = folder / "open.onnx"
    path.write_bytes(small_model(head("x"), [WEIGHT], inputs=("n", 3, "h", "w")).SerializeToString())
    lockstep("import", path, "--output", folder / "open.json", "--image-size", "8x8")
    assert "exists already" in lockstep.fails("import", path, "--output", folder / "open.json")
    assert "must name a layer graph" in lockstep.fails("import", path, "--output", folder / "open.onnx")
    for end, expected in (("xyz", "end it in .onnx, .safetensors, .json, .py, .cpp"), ("json.bak", "does not say")):
        assert expected in lockstep.fails("export", "lenet", folder / f"a.{end}")
    assert "--scores is for .onnx files" in lockstep.fails("export", "lenet", folder / "a.py", "--scores")
    shutil.copy(path, folder / "data")
    model = external("data", offset="0")
    (folder / "data").write_bytes(numpy.arange(4 * 192, dtype=numpy.float32).tobytes())
    path.write_bytes(model.SerializeToString())
    lockstep("import", path, "--output", folder / "outer.json")
    weights = load_file(folder / "outer.safetensors")
    assert weights["head.weight" if "head.weight" in weights else "linear.weight"][3, 191] == 4 * 192 - 1, weights


def main():
    lockstep = Lockstep(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="lockstep-interop-") as name:
        folder = Path(name)
        write_images(folder / "images")
        check_refusals(lockstep, folder)
        check_normalisations(lockstep, folder)
        check_command(lockstep, folder)
        check_recurrent(lockstep, folder)
        for today in (True, False):
            check_images(lockstep, folder, "mixed", given_life(Mixed()), 20, today)
        check_torchvision(lockstep, folder)


if __name__ == "__main__":
    main()
