"""Averaging mode against replicas in PyTorch: three of them, a few steps, in double precision. With a warm-up torch's
own PeriodicModelAverager says when they are averaged, and until then their gradients are, as DistributedDataParallel
does.

usage: averaging_test.py PATH-OF-lockstep     (needs torch, safetensors and Pillow)
"""

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "flow"))

import parity_cases  # noqa: E402
import peer  # noqa: E402
import runs  # noqa: E402
import torch  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402
from torch import nn  # noqa: E402
from torch.distributed.algorithms.model_averaging import averagers  # noqa: E402

REPLICAS = 3
STEPS = 8
IMAGES_OF_A_CLASS = 9
MOST_DIFFERENCE = 1e-9

# Mini-batches of a replica, so that an epoch's last step has 8, 8 and 2 of its 90 samples for the three, or 6 for the
# first alone.
CASES = runs.some([
    (8, "lenet", {"optimizer": "adam"}, {"averaging-frequency": 2}),
    (8, "lenet", {"optimizer": "adamw"},
     {"averaging-frequency": 3, "average-updaters": False, "outer-optimizer": "nesterov"}),
    (7, "digits_cnn", {"gradient-clip": 0.5}, {"averaging-frequency": 3}),
    (7, "lenet", {"nesterov": True}, {"averaging-frequency": 3, "averaging-warmup-steps": 3}),
], [
    (7, "lenet", {"nesterov": True}, {"averaging-frequency": 3}),
    (8, "digits_cnn", {"gradient-clip": 0.5},
     {"averaging-frequency": 1, "outer-optimizer": "nesterov", "outer-learning-rate": 0.5, "outer-momentum": 0.8}),
    (8, "digits_cnn", {"optimizer": "adam", "gradient-clip": 0.5},
     {"averaging-frequency": 2, "averaging-warmup-steps": 4, "average-updaters": False}),
    (8, "lenet", {"optimizer": "adamw"},
     {"averaging-frequency": 2, "averaging-warmup-steps": 2, "outer-optimizer": "nesterov"}),
])


def mean_of(tensors, samples):
    mean = sum(tensor.double() * count for tensor, count in zip(tensors, samples)) / sum(samples)
    return mean if tensors[0].is_floating_point() else mean.round().to(tensors[0].dtype)


class Group:
    """Replicas and the model that they become."""

    def __init__(self, network, start, training, averaging):
        self.models = [peer.NETWORKS[network]().double() for _ in range(REPLICAS + 1)]
        for model in self.models:
            model.load_state_dict(load_file(start), strict=True)
            model.train()
        self.average_model = self.models.pop()
        self.optimizers = [parity_cases.make_optimizer(model.parameters(), training) for model in self.models]
        self.schedules = [parity_cases.make_schedule(optimizer, training, 1, STEPS) for optimizer in self.optimizers]
        self.clip = training.get("gradient-clip")
        self.averages_updaters = averaging.get("average-updaters", True)
        self.outer = None
        if averaging.get("outer-optimizer") == "nesterov":
            self.outer = torch.optim.SGD(self.average_model.parameters(), averaging.get("outer-learning-rate", 0.7),
                                         averaging.get("outer-momentum", 0.9), nesterov=True)
        self.samples = [0] * REPLICAS

    def backward(self, replica, inputs, labels):
        self.optimizers[replica].zero_grad()
        nn.functional.cross_entropy(self.models[replica](inputs), labels).backward()
        self.samples[replica] += len(labels)

    def step(self, replica):
        if self.clip:
            nn.utils.clip_grad_norm_(self.models[replica].parameters(), self.clip)
        self.optimizers[replica].step()

    def step_together(self):
        """DistributedDataParallel's step, with gradients weighted by samples."""
        for parameters in zip(*(model.parameters() for model in self.models)):
            mean = sum(parameter.grad * count for parameter, count in zip(parameters, self.samples)
                       if count) / sum(self.samples)
            for parameter in parameters:
                parameter.grad = mean.clone()
        for replica in range(REPLICAS):
            self.step(replica)

    @torch.no_grad()
    def average(self, is_warm=True):
        taking_part = [i for i in range(REPLICAS) if self.samples[i]]
        samples = [self.samples[i] for i in taking_part]
        states = [self.models[i].state_dict() for i in taking_part]
        mean = {name: mean_of([state[name] for state in states], samples) for name in states[0]}
        if self.outer and is_warm:
            for name, parameter in self.average_model.named_parameters():
                parameter.grad = parameter - mean[name]
            self.outer.step()
            mean |= {name: parameter.detach().clone() for name, parameter in self.average_model.named_parameters()}
        for model in (self.average_model, *self.models):
            model.load_state_dict(mean)
        if self.averages_updaters:
            self.average_updaters(taking_part, samples)
        self.samples = [0] * REPLICAS

    def average_updaters(self, taking_part, samples):
        for parameters in zip(*(model.parameters() for model in self.models)):
            states = [optimizer.state[parameter] for optimizer, parameter in zip(self.optimizers, parameters)]
            for key in states[taking_part[0]]:
                if key == "step":
                    continue
                mean = mean_of([states[i][key] for i in taking_part], samples)
                for state in states:
                    state[key].copy_(mean)


def average_rule(averaging):
    """Whether there is an average after a step; called once for each, in order."""
    frequency, warmup = averaging["averaging-frequency"], averaging.get("averaging-warmup-steps", 0)
    if warmup == 0:
        return lambda step: (step + 1) % frequency == 0
    averager = averagers.PeriodicModelAverager(frequency, warmup, process_group=object())
    calls = []

    def rule(_):
        calls.clear()
        averager.average_parameters([])
        return bool(calls)

    averagers.utils.average_parameters_or_parameter_groups = lambda *_: calls.append(True)
    return rule


def pytorch(mini_batch, network, start, training, averaging, images, labels):
    group = Group(network, start, training, averaging)
    inputs = images.double() / 255
    count, size = len(labels), REPLICAS * mini_batch
    steps_per_epoch = -(-count // size)
    is_average = average_rule(averaging)
    for step in range(STEPS):
        warming = step < averaging.get("averaging-warmup-steps", 0)
        epoch, place = divmod(step, steps_per_epoch)
        order = torch.tensor(peer.permutation(count, peer.seed_of([0, epoch]))[place * size:(place + 1) * size])
        for replica, batch in enumerate(order.split(mini_batch)):
            group.backward(replica, inputs[batch], labels[batch])
            if not warming:
                group.step(replica)
        if warming:
            group.step_together()
        for schedule in group.schedules:
            schedule.step()
        if is_average(step) or warming or step + 1 == STEPS:
            group.average(is_warm=not warming)
    return group.average_model.state_dict()


def main():
    lockstep = Path(sys.argv[1])
    torch.set_num_threads(1)
    failed = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        images, labels = parity_cases.make_data(folder / "data", parity_cases.Size(IMAGES_OF_A_CLASS, 0))
        for number, (mini_batch, network, training, averaging) in enumerate(CASES):
            start = folder / f"{network}.safetensors"
            if not start.exists():
                torch.manual_seed(7)
                save_file(peer.NETWORKS[network]().double().state_dict(), start)
            options = {"exchange": "average", "shards": REPLICAS, "max-steps": STEPS} | training | averaging
            found, _ = parity_cases.ours(parity_cases.Case("averaging", network, options),
                                         parity_cases.Size(IMAGES_OF_A_CLASS, mini_batch), start, lockstep,
                                         folder / "data", folder / str(number))
            expected = pytorch(mini_batch, network, start, training, averaging, images, labels)
            apart = parity_cases.largest_differences(found, expected)
            worst = max(apart, key=apart.get)
            moved = max(parity_cases.largest_differences(load_file(start), expected).values())
            passes = apart[worst] <= MOST_DIFFERENCE < moved and list(found) == list(expected)
            failed += not passes
            print(
                f"{'ok  ' if passes else 'FAIL'} {network}: {training | averaging}: differs by {apart[worst]:.1e} in "
                f"{worst}", flush=True)
    return 1 if failed else 0


sys.exit(main())
