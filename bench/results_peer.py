"""Peers of bench/results: for each row a PyTorch recipe that a practitioner would write, with its source. Prints JSON:
accuracy on the test data, and seconds of the whole process. Usage: results_peer.py ROW SEED WORDS..., the words being
those of `lockstep train`, of which the data and --test are used.
"""
import gzip
import json
import math
import struct
import sys
import time

BEGAN = time.time()

import numpy
import torch
from pathlib import Path
from PIL import Image
from torch import nn
from torch.nn import functional

# Both cores, but for recurrent networks of this size, which are faster on one.
torch.set_num_threads(1 if sys.argv[1] == "vowels" else 2)


def digits_net(classes=10, side=28):
    """The network of PyTorch's MNIST example, with its sizes from the image's side."""
    flat = 64 * ((side - 4) // 2) ** 2
    return nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.25),
                         nn.Flatten(), nn.Linear(flat, 128), nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, classes))


def conv4(classes):
    """Four blocks of 64 filters, as Vinyals et al. 2016 use for Omniglot, with a linear layer on averages."""
    blocks, channels = [], 1
    for _ in range(4):
        blocks += [nn.Conv2d(channels, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2)]
        channels = 64
    return nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, classes))


class Block(nn.Module):
    """A residual block of CIFAR's ResNet; where the size changes, the short way is every second pixel and channels of zeros."""

    def __init__(self, before, channels):
        super().__init__()
        self.stride, self.more = (1, 0) if before == channels else (2, channels - before)
        self.convolutions = nn.Sequential(nn.Conv2d(before, channels, 3, self.stride, 1, bias=False), nn.BatchNorm2d(channels),
                                          nn.ReLU(), nn.Conv2d(channels, channels, 3, 1, 1, bias=False), nn.BatchNorm2d(channels))

    def forward(self, images):
        short = functional.pad(images[:, :, ::self.stride, ::self.stride], (0, 0, 0, 0, 0, self.more))
        return functional.relu(self.convolutions(images) + short)


def resnet20(classes):
    """He et al. 2016, section 4.2, n = 3."""
    widths = [16] * 4 + [32] * 3 + [64] * 3
    return nn.Sequential(nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
                         *(Block(*pair) for pair in zip(widths, widths[1:])), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(64, classes))


class Recurrent(nn.Module):
    """An LSTM of 100 units, whose last output goes to a linear layer."""

    def __init__(self, channels, classes):
        super().__init__()
        self.lstm, self.fc = nn.LSTM(channels, 100, batch_first=True), nn.Linear(100, classes)

    def forward(self, sequences):
        _, (hidden, _) = self.lstm(nn.utils.rnn.pack_sequence(sequences, enforce_sorted=False))
        return self.fc(hidden[-1])


class ConvolutionsOverTime(nn.Module):
    """The fully convolutional network of Wang et al. 2017, on sequences of several lengths: the mean is over each one's steps."""

    def __init__(self, channels, classes):
        super().__init__()
        blocks = []
        for before, after, width in ((channels, 128, 8), (128, 256, 5), (256, 128, 3)):
            blocks += [nn.Conv1d(before, after, width, padding="same"), nn.BatchNorm1d(after), nn.ReLU()]
        self.blocks, self.fc = nn.Sequential(*blocks), nn.Linear(128, classes)

    def forward(self, sequences):
        steps = torch.tensor([len(one) for one in sequences]).view(-1, 1, 1)
        padded = nn.utils.rnn.pad_sequence(sequences, batch_first=True).transpose(1, 2)
        is_step = (torch.arange(padded.shape[2]) < steps).float()
        return self.fc((self.blocks(padded) * is_step).sum(2) / steps.squeeze(2))


def folder_images(folder, mode, read=lambda image: image):
    images, labels = [], []
    for label, group in enumerate(sorted(path for path in Path(folder).iterdir() if path.is_dir())):
        for path in sorted(group.iterdir()):
            images.append(numpy.asarray(read(Image.open(path).convert(mode))))
            labels.append(label)
    images = torch.from_numpy(numpy.stack(images))
    return images.unsqueeze(1) if images.dim() == 3 else images.permute(0, 3, 1, 2), torch.tensor(labels)


def idx(path, header):
    with gzip.open(path) as file:
        data = file.read()
    sizes = struct.unpack(f">{header}I", data[4:4 + 4 * header])
    return torch.from_numpy(numpy.frombuffer(data, numpy.uint8, offset=4 + 4 * header).reshape(sizes).copy())


def mnist_images(path):
    images = idx(path, 3).unsqueeze(1)
    return images, idx(str(path).replace("images-idx3", "labels-idx1"), 1).long()


def sequences(path):
    found, labels, classes = [], [], []
    for line in Path(path).read_text().splitlines():
        if line.lower().startswith("@classlabel"):
            classes = line.split()[2:]
        if line and line[0] not in "#@":
            *channels, label = line.split(":")
            found.append(torch.tensor([[float(value) for value in channel.split(",")] for channel in channels]).t().contiguous())
            labels.append(classes.index(label.strip()))
    return found, torch.tensor(labels)


def accuracy(model, parts, labels):
    model.eval()
    with torch.no_grad():
        right = sum((model(samples).argmax(1) == targets).sum().item() for samples, targets in zip(parts, labels))
    return right / sum(len(targets) for targets in labels)


def fit(model, data, epochs, batch, optimizer, schedule=None, clip=0, augment=lambda inputs: inputs):
    """data: samples (a tensor or a list) and labels."""
    samples, labels = data
    for _ in range(epochs):
        model.train()
        for chosen in torch.randperm(len(labels)).split(batch):
            inputs = samples[chosen] if torch.is_tensor(samples) else [samples[i] for i in chosen]
            optimizer.zero_grad()
            functional.cross_entropy(model(augment(inputs)), labels[chosen]).backward()
            if clip:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
            if schedule == "steps":
                fit.scheduler.step()
        if schedule == "epochs":
            fit.scheduler.step()


def cosine(optimizer, epochs, count, batch):
    fit.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * -(-count // batch))
    return "steps"


def one_cycle(optimizer, rate, epochs, count, batch):
    fit.scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, epochs * -(-count // batch))
    return "steps"


def shifted_and_flipped(images, most=4):
    """Each image by up to 4 pixels, half of them flipped: RandomCrop with padding and RandomHorizontalFlip."""
    count, _, height, width = images.shape
    padded = functional.pad(images, (most, most, most, most))
    rows = torch.randint(2 * most + 1, (count, 1)) + torch.arange(height)
    columns = torch.randint(2 * most + 1, (count, 1)) + torch.arange(width)
    columns = torch.where(torch.rand(count, 1) < 0.5, columns, columns.flip(1))
    return padded[torch.arange(count).view(-1, 1, 1, 1), torch.arange(images.shape[1]).view(1, -1, 1, 1),
                  rows.view(count, 1, height, 1), columns.view(count, 1, 1, width)]


def cifar10(train, test, epochs):
    """As many epochs as take ten minutes on the machine of the table."""
    (images, labels), (test_images, test_labels) = (folder_images(folder, "RGB") for folder in (train, test))
    mean, deviation = (torch.tensor(values).view(1, 3, 1, 1) for values in ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)))
    inputs, test_inputs = (((part.float() / 255 - mean) / deviation).contiguous(memory_format=torch.channels_last)
                           for part in (images, test_images))
    model = resnet20(10).to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=0.0005, nesterov=True)
    fit(model, (inputs, labels), epochs, 128, optimizer, one_cycle(optimizer, 0.2, epochs, len(labels), 128),
        augment=lambda part: shifted_and_flipped(part).contiguous(memory_format=torch.channels_last))
    return accuracy(model, test_inputs.split(500), test_labels.split(500))


def photographs(train, test):
    """resnet18 from nothing, the images decoded once at 146x146."""
    import torchvision
    from torchvision.transforms import v2
    read = lambda folder: folder_images(folder, "RGB", lambda image: image.resize((146, 146), Image.BILINEAR))
    (images, labels), (test_images, test_labels) = read(train), read(test)
    shared = [v2.ToDtype(torch.float32, scale=True), v2.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))]
    one = v2.Compose([v2.RandomResizedCrop(128, scale=(0.35, 1), antialias=True), v2.RandomHorizontalFlip(), *shared])
    whole = v2.Compose([v2.CenterCrop(128), *shared])
    model = torchvision.models.resnet18(num_classes=int(labels.max()) + 1).to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=0.0001)
    fit(model, (images, labels), 30, 32, optimizer, one_cycle(optimizer, 0.05, 30, len(labels), 32),
        augment=lambda part: torch.stack([one(image) for image in part]).contiguous(memory_format=torch.channels_last))
    return accuracy(model, [whole(part) for part in test_images.split(64)], test_labels.split(64))


def digits(train, test, read, epochs):
    (images, labels), (test_images, test_labels) = read(train), read(test)
    scaled = [(part.float() / 255 - 0.1307) / 0.3081 for part in (images, test_images)]
    model = digits_net()
    optimizer = torch.optim.Adadelta(model.parameters(), 1.0)
    fit.scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.7)
    fit(model, (scaled[0], labels), epochs, 64, optimizer, "epochs")
    return accuracy(model, scaled[1].split(500), test_labels.split(500))


def drawings(train, test):
    """Fitted to 28x28 with dark strokes as ones, as is usual for Omniglot."""
    read = lambda folder: folder_images(folder, "L", lambda image: image.resize((28, 28), Image.BILINEAR))
    (images, labels), (test_images, test_labels) = read(train), read(test)
    model = conv4(int(labels.max()) + 1)
    optimizer = torch.optim.Adam(model.parameters(), 0.001)
    inputs = 1 - images.float() / 255
    fit(model, (inputs, labels), 30, 32, optimizer, cosine(optimizer, 30, len(labels), 32))
    return accuracy(model, (1 - test_images.float() / 255).split(500), test_labels.split(500))


def squeezenet(weights):
    import torchvision
    from safetensors.torch import load_file
    model = torchvision.models.squeezenet1_0()
    model.classifier[1] = nn.Conv2d(512, 1000, 1, padding=1)
    model.load_state_dict(load_file(weights))
    return model.eval()


def squeezenet_images(folder):
    """In parts of 32."""
    images, labels = folder_images(folder, "RGB", lambda image: image.resize((256, 256), Image.BILINEAR).crop((14, 14, 241, 241)))
    return [part.float() - torch.tensor([123.0, 117.0, 104.0]).view(1, 3, 1, 1) for part in images.split(32)], labels


def imagenet_sample(folder, weights):
    """The folders' names are the numbers of their classes."""
    parts, labels = squeezenet_images(folder)
    numbers = torch.tensor([int(path.name) for path in sorted(Path(folder).iterdir()) if path.is_dir()])
    return accuracy(squeezenet(weights), parts, numbers[labels].split(32))


def plants(train, test, network, weights):
    model = squeezenet(weights)

    def features(folder):
        parts, labels = squeezenet_images(folder)
        with torch.no_grad():
            return torch.cat([model.features(part) for part in parts]), labels

    inputs, labels = features(train)
    head = nn.Sequential(nn.Dropout(0.5), nn.Conv2d(512, int(labels.max()) + 1, 1, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
                         nn.Flatten())
    nn.init.normal_(head[1].weight, 0, 0.01)
    nn.init.zeros_(head[1].bias)
    optimizer = torch.optim.Adam(head.parameters(), 0.001)
    fit(head, (inputs, labels), 25, 32, optimizer, cosine(optimizer, 25, len(labels), 32))
    test_inputs, test_labels = features(test)
    return accuracy(head, test_inputs.split(64), test_labels.split(64))


def over_time(network, train, test, epochs, batch, rate, scales):
    (inputs, labels), (test_inputs, test_labels) = sequences(train), sequences(test)
    if scales:
        mean, deviation = torch.cat(inputs).mean(0), torch.cat(inputs).std(0)
        inputs, test_inputs = ([(one - mean) / deviation for one in part] for part in (inputs, test_inputs))
    model = network(inputs[0].shape[1], int(labels.max()) + 1)
    optimizer = torch.optim.Adam(model.parameters(), rate)
    fit(model, (inputs, labels), epochs, batch, optimizer, cosine(optimizer, epochs, len(labels), batch), clip=1)
    return accuracy(model, [test_inputs], [test_labels])


def main():
    row, seed, words = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    torch.manual_seed(seed)
    option = lambda name: words[words.index(name) + 1]
    train, test = words[0], option("--test") if "--test" in words else ""
    grey = lambda folder: folder_images(folder, "L")
    found = {
        "digits": lambda: digits(train, test, grey, 14),
        "mnist-2": lambda: digits(train, test, mnist_images, 2),
        "mnist": lambda: digits(train, test, mnist_images, 14),
        "cifar10": lambda: cifar10(train, test, 5),
        "plants": lambda: photographs(train, test),
        "plants-weights": lambda: plants(train, test, None, option("--weights")),
        "imagenet-sample": lambda: imagenet_sample(words[2], option("--weights")),
        "drawings": lambda: drawings(train, test),
        "vowels": lambda: over_time(Recurrent, train, test, 40, 27, 0.005, False),
        "waves": lambda: over_time(ConvolutionsOverTime, train, test, 100, 16, 0.001, True),
    }[row]()
    assert math.isfinite(found)
    print(json.dumps({"test": found, "seconds": round(time.time() - BEGAN, 1)}))


if __name__ == "__main__":
    main()
