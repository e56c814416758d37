"""The same short training with Lockstep and with PyTorch in double precision, from one file of weights: how far are the
results apart?

A bias in front of a batch norm has a gradient of 0 but for rounding, and adamw divides that noise by its own size, down
to epsilon. So there even PyTorch is not equal to itself when it adds the samples of a mini-batch in another order;
`compare` can measure that too.

PyTorch's side reads the PNG files with Pillow and uses torch.nn.Sequential, torch.optim, torch.optim.lr_scheduler and
clip_grad_norm_. It takes the samples in Lockstep's order, which bench/peer.py writes anew from its description. """

import dataclasses
import shutil
import tempfile
from pathlib import Path

import numpy
import peer
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from torch import nn

import common

STEPS = 20
MOST_DIFFERENCE = 1e-9


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    network: str
    options: dict = dataclasses.field(default_factory=dict)  # of `lockstep train`, without the dashes


@dataclasses.dataclass(frozen=True)
class Size:
    """Chosen so that 20 steps cross an epoch's end, and each epoch ends with a smaller mini-batch."""
    images_of_a_class: int
    mini_batch: int


FULL = Size(images_of_a_class=30, mini_batch=32)
QUICK = Size(images_of_a_class=9, mini_batch=8)

OPTIMIZERS = {
    "sgdm": {},
    "sgdm, momentum 0": {"momentum": 0},
    "sgdm, Nesterov": {"nesterov": True},
    "adam": {"optimizer": "adam"},
    "adam, betas and epsilon": {"optimizer": "adam", "beta1": 0.8, "beta2": 0.99, "epsilon": 1e-5},
    "adamw": {"optimizer": "adamw"},
    "adamw, epsilon 1e-6": {"optimizer": "adamw", "epsilon": 1e-6},
    "rmsprop": {"optimizer": "rmsprop"},
    "rmsprop, momentum 0.9": {"optimizer": "rmsprop", "momentum": 0.9, "alpha": 0.9, "learning-rate": 1e-4},
}

FEATURES = {
    "constant rate": {"lr-schedule": "constant"},
    "piecewise rate": {"lr-schedule": "piecewise", "lr-drop-period": 1, "lr-drop-factor": 0.5},
    "piecewise rate, by the factor alone": {"lr-drop-factor": 0.3, "lr-drop-period": 1},
    "cosine rate, more epochs than steps": {"max-epochs": 9},
    "warm-up, then cosine": {"warmup-steps": 7},
    "warm-up, then constant": {"warmup-steps": 15, "lr-schedule": "constant"},
    "clipping that always bites": {"gradient-clip": 0.05},
    "clipping that bites at times": {"gradient-clip": 1.0},
    "no weight decay": {"weight-decay": 0},
    "weight decay 0.1": {"weight-decay": 0.1},
    "adamw, weight decay 0.3, clipping": {"optimizer": "adamw", "weight-decay": 0.3, "gradient-clip": 0.1},
    "accumulation in 3 pieces": {"accumulate": 3},
    "4 shards": {"shards": 4},
    "5 shards, accumulation in 2 pieces, clipping": {"shards": 5, "accumulate": 2, "gradient-clip": 0.5},
    "normalised by the training images": {"normalize": "mean-std"},
    "class weights": {"class-weights": "balanced"},
    "class weights, 5 shards, accumulation in 2 pieces": {"class-weights": "balanced", "shards": 5, "accumulate": 2},
    "label smoothing": {"label-smoothing": 0.1},
    "label smoothing, class weights, 5 shards, accumulation in 2 pieces": {"label-smoothing": 0.2, "class-weights": "balanced",
                                                                         "shards": 5, "accumulate": 2},
    "order drawn once": {"shuffle": "once"},
    "order never drawn": {"shuffle": "never", "learning-rate": 1e-3},
}

# PyTorch's side is one process with the whole mini-batch.
WHOLE_MINI_BATCH = {
    f"batch norm over the mini-batch: 16 shards, {common.times(workers, 'worker')}":
        {"batch-norm-group": "mini-batch", "shards": 16, "workers": workers} for workers in (1, 2, 3, 5, 8, 16)
}

NETWORKS = ("digits_cnn", "lenet")
CASES = [Case(name, network, options) for name, options in {**OPTIMIZERS, **FEATURES}.items() for network in NETWORKS]
CASES += [Case(name, "digits_cnn", options) for name, options in WHOLE_MINI_BATCH.items()]


class PooledStatistics:
    """Running statistics of a mini-batch that is computed in pieces, as if it had been one: from all the values that a
    batch norm saw."""

    def __init__(self, norm):
        self.norm = norm
        self.momentum, norm.momentum = norm.momentum, 0.0
        self.seen = []
        norm.register_forward_pre_hook(lambda _, inputs: self.seen.append(inputs[0].detach()))

    def apply(self):
        values = torch.cat(self.seen).transpose(0, 1).flatten(1)
        self.seen.clear()
        self.norm.running_mean.lerp_(values.mean(1), self.momentum)
        self.norm.running_var.lerp_(values.var(1), self.momentum)


def make_data(folder, size, unequal=False):
    """The first files of each class of the digits; returns their pixels and labels in order of class and name. `unequal`:
    fewer of some classes."""
    images, labels = [], []
    for label, source in enumerate(sorted(path for path in common.digits_folder().iterdir() if path.is_dir())):
        target = folder / source.name
        target.mkdir(parents=True)
        for file in sorted(source.iterdir(), key=lambda path: path.name.encode())[:size.images_of_a_class - unequal * 2 * (label % 4)]:
            shutil.copy(file, target)
            images.append(numpy.asarray(Image.open(file)))
            labels.append(label)
    return torch.from_numpy(numpy.stack(images)).unsqueeze(1), torch.tensor(labels)


def pieces_of(batch, count):
    """At most `count` parts, none of one sample unless there is no more; the first ones are larger by one where it does
    not divide."""
    return [torch.from_numpy(part) for part in numpy.array_split(batch.numpy(), min(count, max(1, len(batch) // 2)))]


def make_optimizer(parameters, options):
    kind = options.get("optimizer", "sgdm")
    rate = options.get("learning-rate", 0.01 if kind == "sgdm" else 0.001)
    decay = options.get("weight-decay", 0.01 if kind == "adamw" else 1e-4)
    betas = (options.get("beta1", 0.9), options.get("beta2", 0.999))
    epsilon = options.get("epsilon", 1e-8)
    match kind:
        case "sgdm":
            return torch.optim.SGD(parameters, rate, options.get("momentum", 0.9), weight_decay=decay,
                                   nesterov=options.get("nesterov", False))
        case "adam":
            return torch.optim.Adam(parameters, rate, betas, epsilon, decay)
        case "adamw":
            return torch.optim.AdamW(parameters, rate, betas, epsilon, decay)
        case "rmsprop":
            return torch.optim.RMSprop(parameters, rate, options.get("alpha", 0.99), epsilon, decay,
                                       options.get("momentum", 0))


def make_schedule(optimizer, options, steps_per_epoch, total_steps):
    scheduler = torch.optim.lr_scheduler
    falls = "lr-drop-factor" in options or "lr-drop-period" in options
    parts = []
    match options.get("lr-schedule", "piecewise" if falls else "cosine"):
        case "constant":
            parts.append(scheduler.ConstantLR(optimizer, 1.0))
        case "piecewise":
            parts.append(scheduler.StepLR(optimizer, options.get("lr-drop-period", 10) * steps_per_epoch,
                                          options.get("lr-drop-factor", 0.1)))
        case "cosine":
            parts.append(scheduler.CosineAnnealingLR(optimizer, total_steps))
    warmup = options.get("warmup-steps", 0)
    if warmup:
        parts.append(scheduler.LinearLR(optimizer, 1 / warmup, 1.0, warmup - 1))
    return scheduler.ChainedScheduler(parts)


def pytorch(case, size, start, images, labels, seed=0, turn=False):
    """Weights after the steps, and the losses on the way. `turn`: with the samples of a mini-batch, or of each piece,
    the other way round."""
    options = case.options
    model = peer.NETWORKS[case.network]().double()
    model.load_state_dict(load_file(start), strict=True)
    model.train()
    count = len(labels)
    steps_per_epoch = -(-count // size.mini_batch)
    total_steps = min(STEPS, options.get("max-epochs", 10**6) * steps_per_epoch)
    optimizer = make_optimizer(model.parameters(), options)
    schedule = make_schedule(optimizer, options, steps_per_epoch, total_steps)
    shards, accumulate = options.get("shards", 1), options.get("accumulate", 1)
    if options.get("batch-norm-group") == "mini-batch":
        shards = 1
    pooled = [PooledStatistics(module) for module in model
              if isinstance(module, nn.BatchNorm2d)] if shards * accumulate > 1 else []
    inputs = images.double() / 255
    if options.get("normalize") == "mean-std":
        inputs = (inputs - inputs.mean()) / inputs.std(correction=0)
    shuffle = options.get("shuffle", "every-epoch")
    weighted = "class-weights" in options  # as scikit-learn's compute_class_weight("balanced")
    weights = count / (10 * torch.bincount(labels, minlength=10).double()) if weighted else torch.ones(10).double()
    losses = []
    for step in range(total_steps):
        epoch, place = divmod(step, steps_per_epoch)
        order = list(range(count)) if shuffle == "never" else peer.permutation(
            count, peer.seed_of([seed, 0 if shuffle == "once" else epoch]))
        batch = torch.tensor(order[place * size.mini_batch:(place + 1) * size.mini_batch])
        optimizer.zero_grad()
        loss_sum = 0.0
        for shard in pieces_of(batch, shards):
            for piece in pieces_of(shard, accumulate):
                piece = piece.flip(0) if turn else piece
                loss = nn.functional.cross_entropy(model(inputs[piece]), labels[piece], weights, reduction="sum",
                                                   label_smoothing=options.get("label-smoothing", 0)) / weights[labels[batch]].sum()
                loss.backward()
                loss_sum += loss.item()
        if "gradient-clip" in options:
            nn.utils.clip_grad_norm_(model.parameters(), options["gradient-clip"])
        optimizer.step()
        schedule.step()
        for norm in pooled:
            norm.apply()
            norm.norm.num_batches_tracked.fill_(step + 1)
        losses.append(loss_sum)
    return model.state_dict(), losses


def ours(case, size, start, lockstep, data, output, seed=0):
    options = {"network": case.network, "weights": start, "normalize": "none", "precision": "64-true", "execution": "cpu", "workers": 1,
               "shards": 1, "validation-split": 0,
               "mini-batch-size": size.mini_batch, "max-steps": STEPS, "seed": seed} | case.options
    words = []
    for name, value in options.items():
        words += [f"--{name}={str(value).lower()}"] if isinstance(value, bool) else [f"--{name}", value]
    events = common.train(lockstep, data, output, *words)
    return load_file(Path(output) / "model.safetensors"), [values["loss"]
                                                           for values in common.values_of(events, "step")]


@dataclasses.dataclass(frozen=True)
class Outcome:
    case: Case
    weights: float   # largest difference of any weight
    state: float     # ... of any running statistic
    first_loss: float
    last_loss: float
    moved: float     # largest change of a weight since the start
    worst: str       # the tensor with the largest difference
    # largest difference of PyTorch and PyTorch with the samples of each mini-batch the other way round
    peer_itself: float | None

    @property
    def difference(self):
        return max(self.weights, self.state)


def largest_differences(found, expected):
    return {name: (found[name].double() - expected[name].double()).abs().max().item() for name in expected}


def compare(case, size, lockstep, folder, with_itself):
    unequal = "class-weights" in case.options
    data = folder / ("unequal" if unequal else "data")
    if data.exists():
        shutil.rmtree(data)
    images, labels = make_data(data, size, unequal)
    start = folder / f"{case.network}.safetensors"
    if not start.exists():
        torch.manual_seed(7)
        save_file(peer.NETWORKS[case.network]().double().state_dict(), start)
    output = folder / "run"
    found, losses = ours(case, size, start, lockstep, data, output)
    shutil.rmtree(output)
    expected, expected_losses = pytorch(case, size, start, images, labels)
    if list(found) != list(expected):
        raise RuntimeError(f"{case.name}: names are {list(found)}, not {list(expected)}")
    if abs(losses[0] - expected_losses[0]) > 1e-12 * expected_losses[0]:
        raise RuntimeError(
            f"{case.name}: the first loss is {losses[0]!r}, not {expected_losses[0]!r}: other data, order or network")
    apart = largest_differences(found, expected)
    is_state = {name: "running_" in name or "num_batches" in name for name in expected}
    before = load_file(start)
    peer_itself = None
    if with_itself:
        peer_itself = max(largest_differences(pytorch(case, size, start, images, labels, turn=True)[0],
                                              expected).values())
    return Outcome(case=case,
                   weights=max(value for name, value in apart.items() if not is_state[name]),
                   state=max((value for name, value in apart.items() if is_state[name]), default=0.0),
                   worst=max(apart, key=apart.get), peer_itself=peer_itself, first_loss=expected_losses[0],
                   last_loss=expected_losses[-1],
                   moved=max((expected[name] - before[name]).abs().max().item() for name in expected
                             if not is_state[name]))


def run(cases, size, lockstep, with_itself=False):
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for case in cases:
            yield compare(case, size, lockstep, folder, with_itself)
