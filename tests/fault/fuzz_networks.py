"""The random networks of fuzz_weights.py."""

ACTIVATIONS = ["relu", "relu", "relu", "relu6", "tanh", "sigmoid", "gelu", "leaky_relu", "softmax"]


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
            kind = rng.choice(["max_pool", "average_pool"])
            stride = {"stride": 1} if rng.random() < 0.3 else {}
            ceil_mode = {"ceil_mode": True} if rng.random() < 0.3 else {}
            last = layer(kind, [last], kernel=2, **stride, **ceil_mode)
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
        for kind, share in (("batch_norm", 0.45), ("activation", 0.8), ("dropout", 0.3), ("local_response_norm", 0.08),
                            ("layer_norm", 0.08)):
            if rng.random() >= share or last == "input":
                continue
            if kind == "activation":
                last = layer(rng.choice(ACTIVATIONS), [last])
            elif kind == "dropout":
                last = layer(kind, [last], probability=rng.choice([0.1, 0.5, 0.9]))
            elif kind == "batch_norm":
                options = rng.choice([{}, {}, {"affine": False}, {"momentum": 0.5}, {"epsilon": 0.01}])
                last = layer(kind, [last], **options)
            else:
                last = layer(kind, [last])
    last = layer(*rng.choice([("global_average_pool", [last]), ("global_max_pool", [last]), ("max_pool", [last])]))
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


def random_recurrence(rng, whole_sequences):
    """Layers for sequences; only with `whole_sequences` also those that --tbptt-length refuses."""
    recurrent = ["lstm", "gru"] + ["bilstm"] * whole_sequences
    layers = []
    if whole_sequences and rng.random() < 0.4:
        layers.append({"type": "conv1d", "filters": rng.choice([2, 6]), "kernel": rng.choice([1, 3, 4]),
                       "padding": rng.choice(["same", "causal"]), "dilation": rng.choice([1, 2])})
    for _ in range(rng.randint(0, 1)):
        layers.append({"type": rng.choice(recurrent), "hidden": rng.choice([3, 8, 17]), "output": "sequence",
                       "layers": rng.choice([1, 2])})
        if rng.random() < 0.5:
            layers.append({"type": rng.choice(["dropout", "relu", "tanh", "layer_norm"])})
    if whole_sequences and rng.random() < 0.3:
        layers.append({"type": rng.choice(["global_max_pool", "global_average_pool"])})
    else:
        layers.append({"type": rng.choice(recurrent), "hidden": rng.choice([4, 11]), "output": "last",
                       "layers": rng.choice([1, 1, 2])})
    if rng.random() < 0.3:
        layers.append({"type": "dropout", "probability": 0.3})
    layers.append({"type": "linear", "features": "classes"})
    return layers
