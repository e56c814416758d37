#!/usr/bin/env python3
"""Dependencies of src/lockstep point down only: every #include is held against cmake/layers.txt.

usage: layers_test.py REPOSITORY
"""

import pathlib
import re
import sys

INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]')
SUFFIXES = {".h", ".cpp", ".cu"}


def read_layers(path):
    """Module -> the modules that its line names."""
    layers = {}
    for line in path.read_text().splitlines():
        line = line.split("#")[0].strip()
        if line:
            module, _, below = line.partition(":")
            layers[module.strip()] = below.split()
    return layers


def reach(layers, module, way=()):
    """The module and all that it may include. Fails on a circle and on a name without a line."""
    if module in way:
        sys.exit("cmake/layers.txt goes in a circle: " + " -> ".join(way + (module,)))
    if module not in layers:
        sys.exit(f"cmake/layers.txt has no line for {module}, which {way[-1]} may include")
    reached = {module}
    for below in layers[module]:
        reached |= reach(layers, below, way + (module,))
    return reached


def includes_of(path):
    """(line number, quote, name) of each #include."""
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        found = INCLUDE.match(line)
        if found:
            yield number, found[1], found[2]


def room_fault(layers, room, name):
    """Why a file of `room`, a folder of a module that is divided into rooms, may not include `name`, or None."""
    other = "/".join(pathlib.PurePosixPath(name).parts[1:3])
    if other.split("/")[0] != room.split("/")[0] or other in reach(layers, room):
        return None
    return f"{room} may not include {other}: cmake/layers.txt has no way there"


def fault_of(module, allowed, path, quote, name):
    """Why a file of `module` may not include `name`, or None."""
    if path.suffix == ".h" and name == "torch/torch.h":
        return "a header includes all of LibTorch; take the narrow ATen header"
    parts = pathlib.PurePosixPath(name).parts
    if parts[0] != "lockstep":
        return "headers of ours are named from src on, as lockstep/base/error.h" if quote == '"' else None
    if len(parts) < 3:
        return "the umbrella header is for users"
    other = parts[1]
    if other not in allowed:
        return f"{module} may not include {other}: cmake/layers.txt has no way there"
    if other != module and "internal" in parts[2:-1]:
        return f"an internal header of {other}"
    return None


def main():
    root = pathlib.Path(sys.argv[1])
    source = root / "src" / "lockstep"
    layers = read_layers(root / "cmake" / "layers.txt")
    faults = []
    checked = 0
    for folder in sorted(path for path in source.iterdir() if path.is_dir()):
        if folder.name not in layers:
            faults.append(f"{folder.name}: has no line in cmake/layers.txt")
            continue
        allowed = reach(layers, folder.name)
        divided = any(module.startswith(folder.name + "/") for module in layers)
        for room in sorted(path for path in folder.iterdir() if divided and path.is_dir()):
            if f"{folder.name}/{room.name}" not in layers:
                faults.append(f"{folder.name}/{room.name}: has no line in cmake/layers.txt")
        for path in sorted(path for path in folder.rglob("*") if path.suffix in SUFFIXES):
            for number, quote, name in includes_of(path):
                checked += 1
                fault = fault_of(folder.name, allowed, path, quote, name)
                room = "/".join(path.relative_to(source).parts[:2])
                if not fault and room in layers and name.startswith("lockstep/") and not path.stem.endswith(
                    "_test") and not path.stem.startswith("test_"):
                    fault = room_fault(layers, room, name)
                if fault:
                    faults.append(f"{path.relative_to(root)}:{number}: {name}: {fault}")
    print("\n".join(faults))
    print(f"{checked} includes, {len(faults)} faults")
    if checked == 0:
        sys.exit("no include was found; is the path of the repository right?")
    sys.exit(1 if faults else 0)


main()
