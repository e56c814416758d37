"""The random combinations of fuzz_weights.py: data, a network and options that decide the weights."""
import collections
import random

from fuzz_networks import random_graph, random_recurrence

KINDS = ["digits_cnn", "lenet", "mlp", "graph", "graph", "graph", "graph", "small-resnet", "mobilenet_v2", "squeezenet",
         "ts", "ts", "ts"]
HEAVY = ("small-resnet", "mobilenet_v2", "squeezenet")
FIRST_LAYERS = {"digits_cnn": "0,1,3", "lenet": "0,2", "mlp": "1", "small-resnet": "conv1,bn1,layer1.*",
                "mobilenet_v2": "features.0.*,features.1.*", "squeezenet": "features.0,features.3.*"}


class Combination:
    """Combination `index` of `seed`, which is always the same one.

    data     a key of fuzz_data.make_data's
    graph    the network's layers, or None where options["network"] names one
    options  of `lockstep train`; they decide the weights
    ranks    the number of ranks where it decides the weights too, else None
    base     whether it starts from the weights of an earlier run
    rng      continues after the combination: it draws the variants
    """

    def __init__(self, seed, index, data):
        self.rng, self.index, self.graph, self.base = random.Random("%d/%d" % (seed, index)), index, None, None
        self.whole_sequences = False
        self.options = collections.OrderedDict()
        self.kind = self.rng.choice(KINDS)
        self.sequences = self.kind == "ts"
        self.heavy = self.kind in HEAVY
        self.draw_samples(data)
        self.draw_optimizer()
        self.draw_recipe()
        self.draw_step()
        self.draw_rate_test()
        self.draw_splits(data)
        self.draw_transformations()
        self.draw_exchange()
        self.draw_transfer()

    def draw_samples(self, data):
        rng, o = self.rng, self.options
        if self.sequences:
            self.data = rng.choice(["ts", "ts", "csv"])
            if rng.random() < 0.75:
                self.whole_sequences = rng.random() < 0.5
                self.graph = random_recurrence(rng, self.whole_sequences)
            else:
                o["network"] = "lstm_classifier"
        else:
            self.draw_images(data)
        if rng.random() < 0.4:
            ways = ["mean-std", "mean-std", "imagenet", "0.5,0.25", "123/255,1/255"]
            o["normalize"] = rng.choice(ways if not self.sequences else ["mean-std"])

    def draw_images(self, data):
        rng, o = self.rng, self.options
        choice = ["grey", "grey", "rgb", "sizes", "bad", "tar", "idx"] + (["photos"] * 2 if "photos" in data else [])
        self.data = rng.choice(choice)
        if self.kind == "graph":
            self.graph = random_graph(rng)
        else:
            o["network"] = "resnet18" if self.kind == "small-resnet" else self.kind
        if self.kind == "small-resnet":
            o["image-size"] = "16x16"
        elif self.kind == "mobilenet_v2":
            o["image-size"] = rng.choice(["16x16", "32x32"])
        elif self.kind == "squeezenet":
            o["image-size"] = "33x33"
        elif self.data in ("sizes", "photos") or rng.random() < 0.3:
            o["image-size"] = rng.choice(["16x16", "20x20", "17x23", "28x28"])
        if rng.random() < 0.3:
            o["resize"] = rng.choice(["stretch", "crop", "pad"])
        if rng.random() < 0.3:
            o["color"] = rng.choice(["grey", "rgb"])
        if self.data == "photos" and rng.random() < 0.4:
            o["decode"] = "fast"
        if self.data == "bad":
            o["on-bad-sample"] = "skip"

    def draw_optimizer(self):
        rng, o = self.rng, self.options
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

    def draw_recipe(self):
        """The recipe, in half of the cases with all that belongs to the optimizer, and a start over if that explodes."""
        rng, o = self.rng, self.options
        if rng.random() < 0.3:
            o["recipe"] = "plain"
        elif rng.random() < 0.5:
            for name in ("optimizer", "nesterov", "momentum", "weight-decay", "learning-rate", "lr-schedule",
                         "lr-drop-period", "warmup-steps"):
                o.pop(name, None)
            if rng.random() < 0.4:
                o["optimizer"] = rng.choice(["sgdm", "adam"])
        if rng.random() < 0.3:
            o["batch-norm-start"] = "mean"
        if rng.random() < 0.3:
            o["label-smoothing"] = rng.choice(["0.05", "0.1", "0.5"])

    def draw_step(self):
        rng, o = self.rng, self.options
        o["shards"] = str(rng.choice([1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 32]))
        o["mini-batch-size"] = str(rng.choice([7, 13, 16, 17, 23, 26, 31, 37] if not self.heavy else [7, 13, 18]))
        o["max-steps"] = str(rng.randint(3, 12) if not self.heavy else rng.randint(3, 5))
        precision = rng.choice(["32-true"] * 5 + ["64-true", "bf16-mixed", "bf16-mixed", "fp16-mixed"])
        if self.heavy and precision == "fp16-mixed":
            precision = "bf16-mixed"
        if precision != "32-true":
            o["precision"] = precision
        if rng.random() < 0.2:
            o["kernels"] = "engine"
        if rng.random() < 0.2:
            o["isa"] = "avx2"
        if rng.random() < 0.5:
            o["seed"] = str(rng.randint(0, 10**6))

    def draw_rate_test(self):
        """The shortest run that has a test of learning rates; in runs of the other lengths `auto` finds nothing."""
        rng, o = self.rng, self.options
        if self.sequences or rng.random() >= 0.2:
            return
        o["learning-rate"] = "auto"
        if self.kind in ("lenet", "mlp") and o.get("accumulate") is None:
            o.update({"max-steps": "288", "mini-batch-size": "7", "max-epochs": "0"})

    def draw_splits(self, data):
        rng, o = self.rng, self.options
        if rng.random() < 0.1:
            o["fast-dev-run"] = "true"
        elif rng.random() < 0.2:
            o["limit-batches"] = rng.choice(["1", "2", "0.5"])
        if rng.random() < 0.3:
            o["shuffle"] = rng.choice(["never", "once", "every-epoch"])
        if self.data == "grey" and rng.random() < 0.3:
            o["validation"] = data["test"]
        elif rng.random() < 0.5:
            o["validation-split"] = rng.choice(["0", "0.05", "0.3"])
        elif rng.random() < 0.2:
            o["validation-folds"] = str(rng.choice([2, 3, 5]))
            o["fold"] = str(rng.randint(1, int(o["validation-folds"])))
        if self.data == "grey" and rng.random() < 0.2:
            o["test"] = data["test"]
        if rng.random() < 0.4 and o.get("validation-split") != "0":
            o["validate-every"] = str(rng.choice([1, 2, 3]))
            if rng.random() < 0.5:
                o["patience"] = str(rng.choice([1, 2]))

    def draw_transformations(self):
        rng, o = self.rng, self.options
        if not self.sequences and rng.random() < 0.45:
            words = [rng.choice(["random-resized-crop", "random-resized-crop=0.5", "shift=2", ""]),
                     rng.choice(["flip", "flip-vertical", ""]),
                     rng.choice(["rotation=30", "shear", "scale=0.7/1.3", "trivial-augment-wide", "", ""]),
                     rng.choice(["color-jitter", "color-jitter=0.3/0.3/0.3/0.1", ""]),
                     rng.choice(["random-erasing", "random-erasing=0.5", ""]),
                     rng.choice(["mixup", "mixup=0.4", "", ""])]
            words = [w for w in words if w]
            rng.shuffle(words)
            if words:
                o["augment"] = ",".join(words[:rng.randint(1, 4)])
            if rng.random() < 0.15 and "image-size" in o and "random-resized" not in o.get("augment", ""):
                o["resize-to"] = "40x40"
                o["augment"] = "random-crop,flip"
        if self.sequences:
            if rng.random() < 0.3:
                o["sequence-padding"] = "left"
            if rng.random() < 0.3:
                o["sequence-length"] = str(rng.choice([5, 20]))
            if rng.random() < 0.4 and not self.whole_sequences:
                o["tbptt-length"] = str(rng.choice([1, 2, 5]))
            elif rng.random() < 0.3:
                o["sort-by-length"], o["shuffle"] = "true", "never"

    def draw_exchange(self):
        rng, o = self.rng, self.options
        if rng.random() < 0.2 and "mixup" not in o.get("augment", ""):
            o["class-weights"] = "balanced"
        exchange = rng.choice(["tree"] * 4 + ["average", "average", "bf16", "fp16", "powersgd"])
        if exchange != "tree":
            o["exchange"] = exchange
        if exchange == "average":
            o.pop("class-weights", None)
            if o.get("learning-rate") == "auto":
                o.pop("learning-rate")
            o["averaging-frequency"] = str(rng.choice([1, 2, 3, 5]))
            if rng.random() < 0.3:
                o["average-updaters"] = "false"
            if rng.random() < 0.3:
                o["averaging-warmup-steps"] = str(rng.choice([1, 4]))
            if rng.random() < 0.3:
                o["outer-optimizer"] = "nesterov"
            o["mini-batch-size"] = str(rng.choice([3, 5, 8]))
        elif "accumulate" not in o and rng.random() < 0.5:
            o["batch-norm-group"] = rng.choice(["mini-batch", "mini-batch", "1", "4", "9", "16"])
        if exchange == "powersgd" and rng.random() < 0.5:
            o["powersgd-rank"] = rng.choice(["1", "2"])
        # With these the number of ranks decides the weights, so all variants have the same.
        self.ranks = rng.choice([1, 2, 3]) if exchange in ("bf16", "fp16", "powersgd") else None

    def draw_transfer(self):
        rng, o = self.rng, self.options
        if self.sequences or self.kind == "graph" or rng.random() >= 0.3:
            return
        self.base = True
        if rng.random() < 0.7:
            o["head"] = "new"
            if rng.random() < 0.3:
                o["unfreeze-after"] = "1"
        if rng.random() < 0.7:
            o["freeze"] = FIRST_LAYERS[self.kind]
            if rng.random() < 0.5:
                o["keep-features"] = rng.choice(["never", "always"]) if "augment" not in o else "never"
        if rng.random() < 0.3:
            o["learning-rate-factors"] = "*=0.5"


def runtime_options(combination):
    """Options that must not matter for its weights."""
    rng, o = combination.rng, []
    if rng.random() < 0.4:
        o += ["--prefetch", rng.choice(["1", "3", "9"])]
    if rng.random() < 0.3:
        o += ["--memory-share", rng.choice(["0.0001", "0.01", "0.5"])]
    if rng.random() < 0.3:
        o += ["--cache", "off"]
    if rng.random() < 0.3:
        o += ["--hash-every", rng.choice(["1", "2"])]
    if rng.random() < 0.1 and combination.options.get("exchange") != "average":  # which is refused
        o += ["--detect-anomaly"]
    if rng.random() < 0.2:
        o += ["--timing"]
    if rng.random() < 0.2:
        o += ["--verbose"]
    if rng.random() < 0.15:
        o += ["--plot"]
    return o
