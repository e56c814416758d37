"""Images a second of training, Lockstep against a waiting PyTorch DDP job, A B A B.

Lockstep's figure is the one of its event log: all steps but the first, decoding included. PyTorch's images are decoded
into memory beforehand, and its first step of each trial is not counted either. PyTorch's layout is the faster one of a
warm-up in the same run. """

import dataclasses
import io
import shutil
import statistics
import tarfile
from pathlib import Path

import common
from cpu_link import RANKS, Peer
from cpu_report import RATIO, SHARE, TWO_OVER_ONE, Limits, Result, spread, test_data

TRIALS = 5
CIFAR_OF_A_CLASS = 1000
PLANTS_OF_A_CLASS = 32
PLANTS_SIDE = 227


def prepared(name, make):
    """A folder made once by `make(folder)`."""
    folder = common.WORK / name
    if not folder.with_suffix(".done").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        make(folder)
        folder.with_suffix(".done").touch()
    return folder


def first_of_each_class(archive, prefix, count):
    """(class/name, bytes) of the first files of each class, in the archive's order."""
    taken = {}
    with tarfile.open(archive) as tar:
        for member in tar:
            path = Path(member.name)
            if member.isfile() and member.name.startswith(prefix) and taken.get(path.parent.name, 0) < count:
                taken[path.parent.name] = taken.get(path.parent.name, 0) + 1
                yield Path(path.parent.name, path.name), tar.extractfile(member).read()


def write_into(folder, name, data):
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_bytes(data)


def make_cifar(folder):
    for name, data in first_of_each_class(test_data("cifar10-jpg.tar.gz"), "cifar10/train/", CIFAR_OF_A_CLASS):
        write_into(folder, name, data)


def make_plants(folder):
    from PIL import Image
    for name, data in first_of_each_class(test_data("plants-jpg.tar"), "plants/", PLANTS_OF_A_CLASS):
        image = Image.open(io.BytesIO(data))
        side = min(image.size)
        left, top = ((length - side) // 2 for length in image.size)
        small = io.BytesIO()
        image.crop((left, top, left + side, top + side)).resize((PLANTS_SIDE,
                                                                 PLANTS_SIDE)).save(small, "JPEG", quality=90)
        write_into(folder, name, small.getvalue())


@dataclasses.dataclass(frozen=True)
class Workload:
    network: str
    data: object           # a function that gives the path
    mini_batch: int
    steps: int             # that count, of Lockstep in one trial: about 3 s on two cores of 100 GFLOP/s each
    peer_steps: int        # ... and of PyTorch
    precision: str = "32-true"
    one_worker: bool = False  # Lockstep with one worker too

    @property
    def gemm(self):
        return "bf16_gemm" if self.precision == "bf16-mixed" else "sgemm"


def digits():
    return common.digits_folder()


def mnist():
    return test_data("mnist/train-images-idx3-ubyte.gz")


def cifar():
    return prepared("cifar10-10000", make_cifar)


def plants():
    return prepared("plants-227", make_plants)


WORKLOADS = {
    "digits_cnn": Workload("digits_cnn", digits, 128, 100, 40),
    "digits_cnn-bf16": Workload("digits_cnn", digits, 128, 100, 60, precision="bf16-mixed"),
    "lenet": Workload("lenet", mnist, 64, 250, 80, one_worker=True),
    "wide": Workload(str(common.ROOT / "bench" / "wide.json"), digits, 128, 12, 8),
    "resnet18": Workload("resnet18", cifar, 128, 10, 8),
    "resnet18-bf16": Workload("resnet18", cifar, 128, 10, 10, precision="bf16-mixed"),
    "squeezenet": Workload("squeezenet", plants, 32, 2, 2),
    "squeezenet-bf16": Workload("squeezenet", plants, 32, 5, 4, precision="bf16-mixed"),
}


def ours(options, workload, workers, steps):
    output = common.WORK / "cpu-run"
    shutil.rmtree(output, ignore_errors=True)
    events = common.train(
        options.lockstep, workload.data(), output, "--network", workload.network, "--precision", workload.precision,
        "--execution", "cpu", "--workers", workers,
        "--mini-batch-size", workload.mini_batch, "--max-steps", steps + 1, "--max-epochs", 1000, "--validation-split",
        0, "--optimizer", "sgdm",
        "--learning-rate", 0.01, "--momentum", 0.9, "--weight-decay", 1e-4, "--lr-schedule", "constant")
    shutil.rmtree(output)
    return common.values_of(events, "end")[0]["images_per_second"]


def theirs(peer, layout, steps):
    return peer.ask(layout=layout, steps=steps)["images_per_second"]


def faster_layout(peer, steps):
    rates = {layout: theirs(peer, layout, max(1, steps // 4)) for layout in ("contiguous", "channels_last")}
    print("  PyTorch's layouts, images/s: " + ", ".join(f"{layout} {rate:,.0f}" for layout, rate in rates.items()),
          flush=True)
    return max(rates, key=rates.get)


def alternate(sides, trials):
    """{side: images/s of each trial}; a side is a name and a function."""
    found = {name: [] for name in sides}
    for _ in range(trials):
        for name, trial in sides.items():
            found[name].append(trial())
            print(f"  {name}: {found[name][-1]:,.0f} images/s, load {common.load_average()}", flush=True)
    return found


TWO, ONE, TORCH = f"Lockstep, {RANKS} workers", "Lockstep, 1 worker", f"PyTorch DDP, {RANKS} gloo ranks"


@dataclasses.dataclass(frozen=True)
class Measured:
    rates: dict   # {side: images/s of each trial}
    layout: str   # PyTorch's
    flops: float  # to train on one image


def measured(options, workload, trials):
    steps, peer_steps = (max(1, count // 5) if options.quick else count
                         for count in (workload.steps, workload.peer_steps))
    with Peer("train", "--network", workload.network, "--data", workload.data(), "--mini-batch", workload.mini_batch,
              "--precision", workload.precision) as peer:
        layout = faster_layout(peer, peer_steps)
        sides = {TWO: lambda: ours(options, workload, RANKS, steps), TORCH: lambda: theirs(peer, layout, peer_steps)}
        if workload.one_worker:
            sides[ONE] = lambda: ours(options, workload, 1, steps // 2)
        return Measured(alternate(sides, trials), layout, peer.hello["flops"])


def run(name, options):
    workload = WORKLOADS[name]
    trials = 1 if options.quick else TRIALS
    workload.data()
    limits = Limits(options.lockstep, "multiply_add", workload.gemm)
    found = measured(options, workload, trials)
    limits.again()
    middle = {side: statistics.median(rates) for side, rates in found.rates.items()}
    share = 100 * found.flops / 1e9 / limits.found[workload.gemm]["one"]  # of one image a second on one core
    names, cores = {TORCH: f"{TORCH}, {found.layout}"}, {ONE: 1}
    rows = [[names.get(side, side), common.middle_and_spread(rates, 0),
             f"{share * middle[side] / cores.get(side, RANKS):.1f} %"]
            for side, rates in found.rates.items()]
    figures = {TWO_OVER_ONE: middle[TWO] / middle[ONE]} if workload.one_worker else {}
    figures |= {RATIO: middle[TWO] / middle[TORCH], SHARE: share * middle[TWO] / RANKS}
    return Result(
        trials=f"{trials} alternating trials, mini-batches of {workload.mini_batch}, {found.flops / 1e6:,.1f} MFLOP an "
               "image",
        spread="spread " + ", ".join(f"{side} {spread(rates)}" for side, rates in found.rates.items()),
        tables=common.table(["side", "images/s, median (smallest to largest)", f"share of {workload.gemm}"], rows)
        + "\n" + limits.table(),
        figures=figures, limit=f"the {workload.gemm} rate of {RANKS} cores")
