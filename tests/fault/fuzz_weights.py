#!/usr/bin/env python3
"""Fuzzer of Lockstep's promise: same shards => same weights, bit for bit, for any workers, ranks, kills and resumes.

usage: fuzz_weights.py [--lockstep BIN] [--work DIR] [--seed N] [--time-limit SECONDS] [--count N] [--only I[,I...]]
               [--photos FOLDER] [--hang SECONDS] [--keep] [--verbose]

  --lockstep BIN      the program (default: $LOCKSTEP_PROGRAM, else that of the preset release)
  --work DIR          scratch; made if it is not there (default: a new folder in $TMPDIR, removed at the end)
  --seed N            which combinations are drawn (default: another one each time, which is printed); combination I of seed N is
                      always the same one
  --time-limit S      begin no new combination after S seconds (default 20, or 300 where LOCKSTEP_LONG is set; 0: none)
  --count N           at most N combinations (default 1000000)
  --only I,...        these combinations alone, their runs kept: how a failure is looked at again
  --photos FOLDER     a folder of class folders with JPEGs; 24 of each of 4 classes are used beside the made-up data
  --hang S            a run that takes longer is a hang (default 60)
  --keep              keep every run folder (default: those of failed combinations)

Needs Python 3.8 and nothing else; makes its own images and sequences. Prints a line for each combination, `FAIL` lines with the commands
that show it, and a summary whose last line says how it went and how to look at a failure again; exit status 1 when anything failed, else 0.

A combination is data, a network and options that decide the weights. It is trained once with one worker, then in some variants: other
numbers of threads, `lockstep run -n 2|3`, other options that must not matter (--cache, --prefetch, --overlap, ...), and killed at random
moments and resumed with other workers. All variants must end with the same exit status as the first run, and the same bytes in
model.safetensors and best.safetensors and the same scores at the end. What is refused must be refused by all variants, with exit status 1
or 2 and text that begins with `lockstep:`.
"""
import argparse, collections, gzip, hashlib, json, math, os, random, shutil, signal, struct, subprocess, sys, tarfile, tempfile, time, zlib

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# ---------------------------------------------------------------------------------------------------------------- data


def png(width, height, channels, pixels):
    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    row = width * channels
    raw = b"".join(b"\0" + pixels[y * row:(y + 1) * row] for y in range(height))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0 if channels == 1 else 2, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(raw, 1)) + chunk(b"IEND", b""))


def image(rng, width, height, channels, label):
    cx, cy = rng.random() * width, rng.random() * height
    out = bytearray()
    for y in range(height):
        for x in range(width):
            wave = math.sin((x - cx) * (0.3 + 0.25 * label)) + math.cos((y - cy) * (0.9 - 0.2 * label))
            for c in range(channels):
                out.append(max(0, min(255, int(128 + 50 * wave + 20 * math.sin(c + label + x) + rng.random() * 30))))
    return png(width, height, channels, bytes(out))


def write(path, body):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb" if isinstance(body, bytes) else "w") as f:
        f.write(body)


def make_data(work, photos):
    rng = random.Random("data")
    data = {}

    def folder(name, classes, count, size_of, channels):
        root = os.path.join(work, "data", name)
        for label in range(classes):
            for i in range(count + label):
                w, h = size_of()
                write(os.path.join(root, "class %d" % label, "%03d.png" % i), image(rng, w, h, channels, label))
        return root
    data["grey"] = folder("grey", 4, 19, lambda: (28, 28), 1)
    data["rgb"] = folder("rgb", 3, 17, lambda: (33, 33), 3)
    data["sizes"] = folder("sizes", 3, 15, lambda: (rng.randint(18, 44), rng.randint(18, 44)), 3)
    data["bad"] = folder("bad", 3, 15, lambda: (24, 24), 1)
    write(os.path.join(data["bad"], "class 0", "005.png"), b"")
    whole = open(os.path.join(data["bad"], "class 1", "007.png"), "rb").read()
    write(os.path.join(data["bad"], "class 1", "007.png"), whole[:len(whole) // 2])
    write(os.path.join(data["bad"], "class 2", "003.png"), b"this is no image")
    data["test"] = folder("held", 4, 6, lambda: (28, 28), 1)
    data["tar"] = os.path.join(work, "data", "grey.tar")
    with tarfile.open(data["tar"], "w") as tar:
        tar.add(data["grey"], "grey")
    # IDX, as MNIST
    n = 90
    labels = bytes(i % 5 for i in range(n))
    pixels = b"".join(bytes(max(0, min(255, int(120 + 60 * math.sin(x * (1 + k)) + rng.random() * 60))) for y in range(28) for x in range(28)) for k in labels)
    os.makedirs(os.path.join(work, "data", "idx"), exist_ok=True)
    for kind in ("train", "t10k"):
        with gzip.open(os.path.join(work, "data", "idx", kind + "-images-idx3-ubyte.gz"), "wb") as f:
            f.write(struct.pack(">IIII", 2051, n, 28, 28) + pixels)
        with gzip.open(os.path.join(work, "data", "idx", kind + "-labels-idx1-ubyte.gz"), "wb") as f:
            f.write(struct.pack(">II", 2049, n) + labels)
    data["idx"] = os.path.join(work, "data", "idx")

    def series(label, steps, channels):
        return [[round(math.sin(t * (0.3 + 0.3 * label) + c) + rng.random() * 0.5, 4) for t in range(steps)] for c in range(channels)]
    lines = ["@problemName fuzz", "@timeStamps false", "@missing false", "@univariate false", "@dimensions 3", "@equalLength false",
             "@classLabel true a b c", "@data"]
    for i in range(53):
        lines.append(":".join(",".join(str(v) for v in channel) for channel in series(i % 3, rng.randint(3, 14), 3)) + ":" + "abc"[i % 3])
    data["ts"] = os.path.join(work, "data", "fuzz.ts")
    write(data["ts"], "\n".join(lines) + "\n")
    data["csv"] = os.path.join(work, "data", "csv")
    for i in range(41):
        s = series(i % 2, rng.randint(2, 11), 4)
        write(os.path.join(data["csv"], "k%d" % (i % 2), "%02d.csv" % i), "\n".join(",".join(str(c[t]) for c in s) for t in range(len(s[0]))) + "\n")
    if photos:
        root = os.path.join(work, "data", "photos")
        for label in sorted(os.listdir(photos))[:4]:
            for name in sorted(os.listdir(os.path.join(photos, label)))[:24]:
                os.makedirs(os.path.join(root, label), exist_ok=True)
                shutil.copy(os.path.join(photos, label, name), os.path.join(root, label, name))
        data["photos"] = root
    return data


# ------------------------------------------------------------------------------------------------------------ networks


def random_graph(rng):
    """Layers with branches, batch norm, dropout and every other kind; shapes fit where all branches keep their size."""
    layers = []

    def layer(kind, inputs=None, **options):
        name = "%s%d" % (rng.choice(["", "block.", "a.b."]), len(layers))
        layers.append(dict({"name": name, "type": kind}, **options))
        if inputs:
            layers[-1]["inputs"] = inputs
        return name
    last = "input"
    channels = None

    def conv(source, filters, **more):
        kernel = rng.choice([1, 3, 3, 5, [3, 1]])
        pad = [k // 2 for k in kernel] if isinstance(kernel, list) else kernel // 2
        return layer("conv2d", [source], filters=filters, kernel=kernel, padding=pad, **more)
    for _ in range(rng.randint(1, 4)):
        filters = rng.choice([3, 4, 6, 8, 16])
        what = rng.choice(["conv", "conv", "residual", "join", "grouped", "pool"])
        if what == "conv":
            last = conv(last, filters, **({"bias": False} if rng.random() < 0.4 else {}))
            channels = filters
        elif what == "grouped" and channels:
            last = layer("conv2d", [last], filters=channels * rng.choice([1, 2]), kernel=3, padding=1, groups=channels)
            channels = layers[-1]["filters"]
        elif what == "pool":
            last = layer(rng.choice(["max_pool", "average_pool"]), [last], kernel=2, **({"stride": 1} if rng.random() < 0.3 else {}),
                         **({"ceil_mode": True} if rng.random() < 0.3 else {}))
        elif what == "residual" and channels:
            a = conv(last, channels)
            if rng.random() < 0.6:
                a = layer("batch_norm", [a])
            last = layer("add", [a, last])
        else:
            a, b = conv(last, filters), conv(last, filters)
            if rng.random() < 0.5:
                a = layer("relu", [a])
            last, channels = layer("concatenate", [a, b]), 2 * filters
        for kind, share in (("batch_norm", 0.45), ("activation", 0.8), ("dropout", 0.3), ("local_response_norm", 0.08)):
            if rng.random() >= share or last == "input":
                continue
            if kind == "activation":
                last = layer(rng.choice(["relu", "relu", "relu", "relu6", "tanh", "sigmoid", "gelu", "leaky_relu", "softmax"]), [last])
            elif kind == "dropout":
                last = layer(kind, [last], probability=rng.choice([0.1, 0.5, 0.9]))
            elif kind == "batch_norm":
                last = layer(kind, [last], **rng.choice([{}, {}, {"affine": False}, {"momentum": 0.5}, {"epsilon": 0.01}]))
            else:
                last = layer(kind, [last])
    last = layer(*rng.choice([("global_average_pool", [last]), ("max_pool", [last])]), **({}))
    if layers[-1]["type"] == "max_pool":
        layers[-1].update(kernel=rng.choice([2, 3]), stride=rng.choice([1, 2]), padding=rng.choice([0, 1]))
    last = layer("flatten", [last])
    if rng.random() < 0.5:
        last = layer("linear", [last], features=rng.choice([8, 20, 33]))
        if rng.random() < 0.5:
            last = layer("batch_norm", [last])
        last = layer("relu", [last])
        if rng.random() < 0.5:
            last = layer("dropout", [last])
    layer("linear", [last], features="classes")
    if rng.random() < 0.3:
        rng.shuffle(layers)
    graph = {"name": "fuzz", "layers": layers}
    if rng.random() < 0.4:
        graph["initializer"] = rng.choice(["default", "xavier", "he", "he-fan-out", "he-uniform", "normal"])
    return graph


def random_recurrence(rng):
    layers = []
    for _ in range(rng.randint(0, 1)):
        layers.append({"type": rng.choice(["lstm", "gru"]), "hidden": rng.choice([3, 8, 17]), "output": "sequence", "layers": rng.choice([1, 2])})
        if rng.random() < 0.5:
            layers.append({"type": rng.choice(["dropout", "relu", "tanh"])})
    layers.append({"type": rng.choice(["lstm", "gru"]), "hidden": rng.choice([4, 11]), "output": "last", "layers": rng.choice([1, 1, 2])})
    if rng.random() < 0.3:
        layers.append({"type": "dropout", "probability": 0.3})
    layers.append({"type": "linear", "features": "classes"})
    return layers


# -------------------------------------------------------------------------------------------------------- combinations


class Combination:
    pass


def draw(seed, index, data):
    rng = random.Random("%d/%d" % (seed, index))
    c = Combination()
    c.rng, c.index, c.graph, c.base = rng, index, None, None
    o = c.options = collections.OrderedDict()
    kinds = ["digits_cnn", "lenet", "mlp", "graph", "graph", "graph", "graph", "small-resnet", "mobilenet_v2", "squeezenet", "ts", "ts", "ts"]
    kind = c.kind = rng.choice(kinds)
    sequences = kind == "ts"
    heavy = kind in ("small-resnet", "mobilenet_v2", "squeezenet")
    if sequences:
        c.data = rng.choice(["ts", "ts", "csv"])
        if rng.random() < 0.75:
            c.graph = random_recurrence(rng)
        else:
            o["network"] = "lstm_classifier"
    else:
        choice = ["grey", "grey", "rgb", "sizes", "bad", "tar", "idx"] + (["photos"] * 2 if "photos" in data else [])
        c.data = rng.choice(choice)
        if kind == "graph":
            c.graph = random_graph(rng)
        else:
            o["network"] = "resnet18" if kind == "small-resnet" else kind
        if kind == "small-resnet":
            o["image-size"] = "16x16"
        elif kind == "mobilenet_v2":
            o["image-size"] = rng.choice(["16x16", "32x32"])
        elif kind == "squeezenet":
            o["image-size"] = "33x33"
        elif c.data in ("sizes", "photos") or rng.random() < 0.3:
            o["image-size"] = rng.choice(["16x16", "20x20", "17x23", "28x28"])
        if rng.random() < 0.3:
            o["resize"] = rng.choice(["stretch", "crop", "pad"])
        if rng.random() < 0.3:
            o["color"] = rng.choice(["grey", "rgb"])
        if c.data == "photos" and rng.random() < 0.4:
            o["decode"] = "fast"
        if c.data == "bad":
            o["on-bad-sample"] = "skip"
    if rng.random() < 0.4:
        o["normalize"] = rng.choice(["mean-std", "mean-std", "imagenet", "0.5,0.25", "123/255,1/255"] if not sequences else ["mean-std"])
    # optimizer
    o["optimizer"] = rng.choice(["sgdm", "sgdm", "adam", "adamw", "rmsprop"])
    if o["optimizer"] == "sgdm" and rng.random() < 0.4:
        o["nesterov"] = "true"
    if o["optimizer"] in ("sgdm", "rmsprop") and rng.random() < 0.3:
        o["momentum"] = rng.choice(["0", "0.5"]) if o.get("nesterov") is None else "0.5"
    if rng.random() < 0.3:
        o["weight-decay"] = rng.choice(["0", "0.01"])
    if rng.random() < 0.4:
        o["gradient-clip"] = rng.choice(["0.1", "1", "5"])
    if rng.random() < 0.3:
        o["accumulate"] = str(rng.choice([2, 3]))
    if rng.random() < 0.3:
        o["learning-rate"] = rng.choice(["0.0005", "0.003", "0.02"])
    if rng.random() < 0.4:
        o["lr-schedule"] = rng.choice(["constant", "piecewise", "cosine"])
        if o["lr-schedule"] == "piecewise":
            o["lr-drop-period"] = "1"
    if rng.random() < 0.3:
        o["warmup-steps"] = str(rng.choice([1, 3, 20]))
    # step
    o["shards"] = str(rng.choice([1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13]))
    o["mini-batch-size"] = str(rng.choice([7, 13, 16, 17, 23, 26, 31, 37] if not heavy else [7, 13, 18]))
    o["max-steps"] = str(rng.randint(3, 12) if not heavy else rng.randint(3, 5))
    precision = rng.choice(["32-true"] * 5 + ["64-true", "bf16-mixed", "bf16-mixed", "fp16-mixed"])
    if heavy and precision == "fp16-mixed":
        precision = "bf16-mixed"
    if precision != "32-true":
        o["precision"] = precision
    if rng.random() < 0.2:
        o["kernels"] = "engine"
    if rng.random() < 0.2:
        o["isa"] = "avx2"
    if rng.random() < 0.5:
        o["seed"] = str(rng.randint(0, 10**6))
    # data
    if rng.random() < 0.3:
        o["shuffle"] = rng.choice(["never", "once", "every-epoch"])
    if c.data == "grey" and rng.random() < 0.3:
        o["validation"] = data["test"]
    elif rng.random() < 0.5:
        o["validation-split"] = rng.choice(["0", "0.05", "0.3"])
    if c.data == "grey" and rng.random() < 0.2:
        o["test"] = data["test"]
    if rng.random() < 0.4 and o.get("validation-split") != "0":
        o["validate-every"] = str(rng.choice([1, 2, 3]))
        if rng.random() < 0.5:
            o["patience"] = str(rng.choice([1, 2]))
    if not sequences and rng.random() < 0.45:
        words = [rng.choice(["random-resized-crop", "random-resized-crop=0.5", "shift=2", ""]), rng.choice(["flip", "flip-vertical", ""]),
                 rng.choice(["color-jitter", "color-jitter=0.3/0.3/0.3/0.1", ""]), rng.choice(["random-erasing", "random-erasing=0.5", ""]),
                 rng.choice(["mixup", "mixup=0.4", "", ""])]
        words = [w for w in words if w]
        rng.shuffle(words)
        if words:
            o["augment"] = ",".join(words[:rng.randint(1, 4)])
        if rng.random() < 0.15 and "image-size" in o and "random-resized" not in o.get("augment", ""):
            o["resize-to"] = "40x40"
            o["augment"] = "random-crop,flip"
    if sequences:
        if rng.random() < 0.3:
            o["sequence-padding"] = "left"
        if rng.random() < 0.3:
            o["sequence-length"] = str(rng.choice([5, 20]))
        if rng.random() < 0.4:
            o["tbptt-length"] = str(rng.choice([1, 2, 5]))
        elif rng.random() < 0.3:
            o["sort-by-length"], o["shuffle"] = "true", "never"
    # exchange
    exchange = rng.choice(["tree"] * 4 + ["average", "average", "bf16", "fp16", "powersgd"])
    if exchange != "tree":
        o["exchange"] = exchange
    if exchange == "average":
        o["averaging-frequency"] = str(rng.choice([1, 2, 3, 5]))
        if rng.random() < 0.3:
            o["average-updaters"] = "false"
        if rng.random() < 0.3:
            o["averaging-warmup-steps"] = str(rng.choice([1, 4]))
        if rng.random() < 0.3:
            o["outer-optimizer"] = "nesterov"
        o["mini-batch-size"] = str(rng.choice([3, 5, 8]))
    if exchange == "powersgd" and rng.random() < 0.5:
        o["powersgd-rank"] = rng.choice(["1", "2"])
    # the number of ranks decides the weights of bf16, fp16 and powersgd: all variants of a combination then have the same
    c.ranks = rng.choice([1, 2, 3]) if exchange in ("bf16", "fp16", "powersgd") else None
    # transfer
    if not sequences and kind != "graph" and rng.random() < 0.3:
        c.base = True
        if rng.random() < 0.7:
            o["head"] = "new"
        first = {"digits_cnn": "0,1,3", "lenet": "0,2", "mlp": "1", "small-resnet": "conv1,bn1,layer1.*", "mobilenet_v2": "features.0.*,features.1.*",
                 "squeezenet": "features.0,features.3.*"}[kind]
        if rng.random() < 0.7:
            o["freeze"] = first
            if rng.random() < 0.5:
                o["keep-features"] = rng.choice(["never", "always"]) if "augment" not in o else "never"
        if rng.random() < 0.3:
            o["learning-rate-factors"] = "*=0.5"
    return c


def runtime_options(rng, averaging):
    """Options that must not matter for the weights."""
    o = []
    if rng.random() < 0.4:
        o += ["--prefetch", rng.choice(["1", "3", "9"])]
    if rng.random() < 0.3:
        o += ["--memory-share", rng.choice(["0.0001", "0.01", "0.5"])]
    if rng.random() < 0.3:
        o += ["--cache", "off"]
    if rng.random() < 0.3:
        o += ["--hash-every", rng.choice(["1", "2"])]
    if rng.random() < 0.2:
        o += ["--timing"]
    if rng.random() < 0.2:
        o += ["--verbose"]
    if rng.random() < 0.15:
        o += ["--plot"]
    return o


# ---------------------------------------------------------------------------------------------------------------- runs


class Fuzz:
    def __init__(self, args):
        self.args, self.failures, self.counts = args, [], collections.Counter()
        self.refusals = collections.Counter()
        self.env = dict(os.environ, XDG_CACHE_HOME=os.path.join(args.work, "cache"))
        for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
            self.env.pop(name, None)

    def run(self, command, kill=None, folder=None):
        """(status, text, seconds, killed). status: exit status, negative signal, or 'hang'. kill: (kind, moment, signal, whom)."""
        begin = time.time()
        with tempfile.TemporaryFile() as out:
            p = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True, env=self.env)
            status, killed = None, False
            while status is None:
                seconds = time.time() - begin
                if kill and not killed and self.is_time(kill, seconds, folder):
                    killed = self.end(p, kill)
                if seconds > self.args.hang:
                    status = "hang"
                    self.stacks = self.look(p.pid)
                    os.killpg(p.pid, signal.SIGKILL)
                    p.wait()
                    break
                try:
                    status = p.wait(0.002 if kill and not killed else 0.05)
                except subprocess.TimeoutExpired:
                    status = None
            if killed:
                # ranks of a launcher that was killed end by themselves, or are a leftover that the resume must not meet
                until = time.time() + 15
                while time.time() < until and self.group_lives(p.pid):
                    time.sleep(0.02)
                if self.group_lives(p.pid):
                    self.counts["ranks that outlived their launcher"] += 1
                    os.killpg(p.pid, signal.SIGKILL)
            out.seek(0)
            text = out.read().decode("utf-8", "replace")
        return status, text, time.time() - begin, killed

    @staticmethod
    def group_lives(pid):
        try:
            os.killpg(pid, 0)
            return True
        except (ProcessLookupError, PermissionError):
            return False

    @staticmethod
    def look(pid):
        try:
            return subprocess.run(["ps", "-o", "pid,stat,wchan:30,args", "-g", str(pid)], stdout=subprocess.PIPE, text=True).stdout
        except OSError:
            return ""

    @staticmethod
    def is_time(kill, seconds, folder):
        kind, moment = kill[:2]
        if kind == "time":
            return seconds >= moment
        try:
            names = os.listdir(os.path.join(folder, "events"))
            newest = max(names, key=lambda n: int(n.split("attempt-")[1].split(".")[0]))
            with open(os.path.join(folder, "events", newest), "rb") as f:
                return sum(1 for _ in f) >= moment
        except (OSError, ValueError, IndexError):
            return False

    def end(self, p, kill):
        number, whom = kill[2:]
        try:
            if whom == "all":
                os.killpg(p.pid, number)
            elif whom == "first":
                os.kill(p.pid, number)
            else:
                with open("/proc/%d/task/%d/children" % (p.pid, p.pid)) as f:
                    children = [int(x) for x in f.read().split()]
                if not children:
                    return False
                os.kill(children[whom % len(children)], number)
            self.counts["kills" if number == signal.SIGKILL else "stops"] += 1
            return True
        except (ProcessLookupError, FileNotFoundError):
            return False

    @staticmethod
    def result_of(folder):
        def sha(name):
            try:
                with open(os.path.join(folder, name), "rb") as f:
                    return hashlib.sha256(f.read()).hexdigest()[:16]
            except FileNotFoundError:
                return None
        end = {}
        try:
            names = sorted(os.listdir(os.path.join(folder, "events")), key=lambda n: int(n.split("attempt-")[1].split(".")[0]))
            for name in names:
                with open(os.path.join(folder, "events", name)) as f:
                    for line in f:
                        try:
                            event = json.loads(line)
                        except ValueError:
                            continue
                        if event["kind"] == "end":
                            end = {k: event["values"].get(k) for k in ("reason", "accuracy", "loss", "best_accuracy", "best_step", "test_accuracy", "test_loss")}
                            end["step"] = event["step"]
        except (OSError, ValueError, IndexError):
            pass
        return {"model": sha("model.safetensors"), "best": sha("best.safetensors"), "end": end}

    def fail(self, c, what, commands, text=""):
        self.failures.append((c.index, what))
        print("FAIL %d/%d %s" % (self.args.seed, c.index, what))
        for command in commands:
            print("     $ " + " ".join("'%s'" % w if " " in w or "*" in w else w for w in command))
        for line in text.strip().splitlines()[-12:]:
            print("     | " + line)
        sys.stdout.flush()

    def command(self, c, output, workers, ranks, extra, resume=False, bare=False):
        words = [self.args.lockstep]
        if ranks > 1:
            words += ["run", "-n", str(ranks), self.args.lockstep]
        words += ["train", self.data[c.data], "--output", output]
        if not bare:
            for k, v in c.options.items():
                words += ["--%s=%s" % (k, v)]
        words += ["--workers", str(workers)] + extra + (["--resume"] if resume else [])
        return words

    def combination(self, index):
        c = draw(self.args.seed, index, self.data)
        rng = c.rng
        home = os.path.join(self.args.work, "c%d-%d" % (self.args.seed, index))
        shutil.rmtree(home, ignore_errors=True)
        os.makedirs(home)
        if c.graph is not None:
            c.options["network"] = os.path.join(home, "net.json")
            write(c.options["network"], json.dumps(c.graph, indent=1))
        label = "%s on %s" % (c.kind, c.data)
        before = len(self.failures)
        if c.base:
            keep = ("network", "image-size", "resize", "color", "normalize", "on-bad-sample", "resize-to")
            words = [self.args.lockstep, "train", self.data[c.data], "--output", home + "/base", "--max-steps", "2", "--workers", "1", "--seed", "77"]
            words += ["--%s=%s" % (k, v) for k, v in c.options.items() if k in keep and k != "resize-to"]
            status, text, _, _ = self.run(words)
            if status != 0:
                self.judge_refusal(c, status, text, words)
                return
            c.options["weights"] = home + "/base/model.safetensors"
        base_ranks = c.ranks or 1
        first = self.command(c, home + "/first", 1, base_ranks, [])
        status, text, seconds, _ = self.run(first)
        reference = self.result_of(home + "/first")
        refused = status != 0
        if refused:
            self.judge_refusal(c, status, text, first)
        elif reference["model"] is None:
            self.fail(c, "exit status 0 without model.safetensors", [first], text)
        self.counts["runs"] += 1
        # variants
        variants = [("threads", rng.choice([2, 3, 5]), base_ranks)]
        if c.ranks:
            variants.append(("threads", rng.choice([2, 3]), base_ranks))
        else:
            variants.append(("ranks", rng.choice([1, 2]), rng.choice([2, 2, 3])))
        if not refused and c.options.get("exchange") != "powersgd":  # which says that a resume begins without what was left out before
            variants.append(("killed", rng.choice([1, 2, 3, 5]), base_ranks))
            if rng.random() < 0.35:
                variants.append(("killed", rng.choice([1, 2]), c.ranks or rng.choice([2, 3])))
            if rng.random() < 0.15:
                variants.append(("again", 1, base_ranks))
        for number, (how, workers, ranks) in enumerate(variants):
            extra = runtime_options(rng, c.options.get("exchange") == "average") if how != "again" else []
            if ranks > 1:
                extra += rng.choice([[], ["--overlap=false"], ["--communicator", "gloo"], ["--communicator", "shared"]])
            output = "%s/v%d" % (home, number)
            commands = [first]
            if how != "killed":
                words = self.command(c, output, workers, ranks, extra)
                commands.append(words)
                got, text, _, _ = self.run(words)
                self.counts["runs"] += 1
                self.counts["with %d ranks" % ranks] += 1
            else:
                got, text, ok = self.killed(c, rng, output, workers, ranks, extra, seconds, commands)
                if not ok:
                    continue
            if got == "hang":
                self.fail(c, "%s: hang" % how, commands, text + "\n" + self.stacks)
            elif refused:
                if got == 0:
                    self.fail(c, "%s: refused by the first run (status %s) and not by this one" % (how, status), commands, self.why)
                elif got != status and ranks == 1:
                    self.fail(c, "%s: exit status %s, the first run had %s" % (how, got, status), commands, text)
            elif got != 0:
                self.fail(c, "%s: exit status %s" % (how, got), commands, text)
            else:
                result = self.result_of(output)
                keys = ["model", "best", "end"]
                for key in keys:
                    if repr(result[key]) != repr(reference[key]):
                        self.fail(c, "%s with %d workers, %d ranks: %s is %s and not %s" % (how, workers, ranks, key, result[key], reference[key]), commands)
                        break
                left = [n for root, folders, files in os.walk(output) for n in folders + files if n.endswith(".part") or n.startswith(".unfinished")]
                if left:
                    self.fail(c, "%s: left behind: %s" % (how, left), commands)
        self.counts["combinations"] += 1
        self.counts["refused"] += refused
        failed = len(self.failures) > before
        print("%s %d/%d %s%s: %d variants, %.1f s, %s" % ("bad" if failed else "ok ", self.args.seed, index, label, " (refused)" if refused else "",
                                                      len(variants), seconds, " ".join("%s=%s" % kv for kv in c.options.items() if "/" not in kv[1])))
        sys.stdout.flush()
        if not failed and not self.args.keep:
            shutil.rmtree(home, ignore_errors=True)

    def judge_refusal(self, c, status, text, words):
        lines = [l for l in text.splitlines() if l.startswith("lockstep:")]
        self.why = text
        self.refusals[(lines[0] if lines else text[-200:])[:170].replace(self.args.work, "WORK")] += 1
        if status == "hang":
            self.fail(c, "hang", [words], text + "\n" + self.stacks)
        elif status not in (1, 2) or not lines:
            self.fail(c, "exit status %s, or no line that begins with 'lockstep:'" % status, [words], text)
        elif self.args.verbose:
            print("refused %d/%d: %s" % (self.args.seed, c.index, lines[0]))

    def killed(self, c, rng, output, workers, ranks, extra, seconds, commands):
        """Trains with kills at random moments until a resume comes through. (status, text, whether to compare)."""
        resume, text = False, ""
        attempts = rng.randint(1, 3)
        extra = extra + ["--checkpoint-every", rng.choice(["1", "1", "2"])]
        for attempt in range(attempts + 1):
            bare = resume and rng.random() < 0.5
            words = self.command(c, output, workers, ranks, extra, resume, bare)
            kill = None
            if attempt < attempts:
                number = signal.SIGKILL if rng.random() < 0.75 else rng.choice([signal.SIGTERM, signal.SIGINT])
                whom = rng.choice(["all", "first", 0, 1]) if ranks > 1 else "all"
                moment = ("time", rng.uniform(0, seconds * 1.1)) if rng.random() < 0.4 else ("events", rng.randint(1, 25))
                kill = moment + (number, whom)
            commands.append(words + (["#", "kill:", str(kill)] if kill else []))
            until = time.time() + 20
            while True:
                status, text, _, was_killed = self.run(words, kill, output)
                self.counts["runs"] += 1
                # ranks of a launcher that was killed may still be ending: the resume is told so, and tries again
                if was_killed or "another program is writing to the run" not in text or time.time() > until:
                    break
                time.sleep(0.5)
            if status == "hang":
                return status, text, True
            if status != 0 and not was_killed:
                if "--resume" in words and not os.path.exists(os.path.join(output, "options.json")):
                    resume = False  # killed before there was a run: begin it
                    words = self.command(c, output, workers, ranks, extra)
                    commands.append(words)
                    status, text, _, _ = self.run(words)
                    if status == 0:
                        return status, text, True
                return status, text, True
            if status == 0 and (not was_killed or attempt == attempts):
                if attempt < attempts:
                    continue_finished = rng.random() < 0.3
                    if not continue_finished:
                        return status, text, True
            if was_killed and status not in (0, 1, 137, 143, 130, -9, -15, -2):
                self.fail(c, "killed: exit status %s" % status, commands, text)
            resume = os.path.exists(os.path.join(output, "options.json"))
            workers = rng.choice([1, 2, 3, 5])
            if c.ranks is None:
                ranks = rng.choice([1, 1, 2, 3])
            extra = [w for w in extra if not w.startswith("--overlap") and w not in ("--communicator", "gloo", "shared")]
        return status, text, True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lockstep", default=os.environ.get("LOCKSTEP_PROGRAM") or os.path.join(ROOT, "build/release/bin/lockstep"))
    parser.add_argument("--work")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--time-limit", type=float, default=300 if os.environ.get("LOCKSTEP_LONG") else 20)
    parser.add_argument("--count", type=int, default=10**6)
    parser.add_argument("--only")
    parser.add_argument("--photos")
    parser.add_argument("--hang", type=float, default=60)
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    if not shutil.which(args.lockstep):
        sys.exit("fuzz_weights.py: there is no program \"%s\"; build it, or give --lockstep BIN" % args.lockstep)
    print("seed %d" % args.seed, flush=True)
    temporary = args.work is None
    args.work = os.path.abspath(args.work or tempfile.mkdtemp(prefix="lockstep-fuzz-"))
    os.makedirs(args.work, exist_ok=True)
    fuzz = Fuzz(args)
    fuzz.data = make_data(args.work, args.photos)
    begin = time.time()
    indices = [int(i) for i in args.only.split(",")] if args.only else range(args.count)
    args.keep = args.keep or bool(args.only)
    for index in indices:
        if args.time_limit and time.time() - begin > args.time_limit:
            break
        fuzz.combination(index)
    print("%.0f s: %s" % (time.time() - begin, ", ".join("%d %s" % (n, k) for k, n in sorted(fuzz.counts.items()))))
    for text, n in fuzz.refusals.most_common():
        print("refused %d times: %s" % (n, text))
    counts = "%d combinations of seed %d" % (fuzz.counts["combinations"], args.seed)
    if fuzz.failures:
        failed = sorted({index for index, _ in fuzz.failures})
        print("FAILED: %d of %s; to look again:\n  python3 %s --lockstep %s --seed %d --only %s" %
              (len(failed), counts, os.path.abspath(__file__), args.lockstep, args.seed, ",".join(map(str, failed))))
    else:
        print("passed: %s, %d runs, %d kills and %d stops: the same weights" %
              (counts, fuzz.counts["runs"], fuzz.counts["kills"], fuzz.counts["stops"]))
    if temporary and not fuzz.failures and not args.keep:
        shutil.rmtree(args.work, ignore_errors=True)
    sys.exit(1 if fuzz.failures else 0)


if __name__ == "__main__":
    main()
