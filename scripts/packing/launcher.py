"""The command lockstep of the wheel: becomes the program, which finds LibTorch in the package torch beside this one.

Imports nothing that is not loaded already, because it runs before every command. Python's torch is not imported.
"""

import os
import sys

TORCH = "@TORCH@"  # the version that the program was built with; its C++ interface fits no other
_HERE = os.path.dirname(os.path.abspath(__file__))


def _version_of(torch):
    """The version of the package in this folder; none where there is none."""
    try:
        with open(os.path.join(torch, "version.py"), encoding="utf-8") as file:
            for line in file:
                if line.startswith("__version__"):
                    return line.partition("=")[2].strip().strip("'\"")
    except OSError:
        pass
    return None


def _find_torch():
    """Beside this package, else where Python would import it from."""
    beside = os.path.join(os.path.dirname(_HERE), "torch")
    if os.path.exists(os.path.join(beside, "version.py")):
        return beside
    import importlib.util  # pylint: disable=import-outside-toplevel
    found = importlib.util.find_spec("torch")
    return next(iter(found.submodule_search_locations or ()), None) if found else None


def _refuse(what):
    print(f"lockstep: {what}\n  hint: \"{sys.executable}\" -m pip install torch=={TORCH}; or install lockstep into a "
          "virtual environment of its own", file=sys.stderr)
    return 1


def _search_elsewhere(torch):
    """The program knows the way to a torch beside it, but not to one in another folder of Python's path."""
    site = os.path.dirname(torch)
    folders = [os.path.join(torch, "lib"), *(os.path.join(site, "nvidia", part, "lib") for part in ("cu13", "nccl"))]
    known = os.environ.get("LD_LIBRARY_PATH")
    os.environ["LD_LIBRARY_PATH"] = ":".join([*filter(os.path.isdir, folders), *([known] if known else [])])


def main():
    torch = _find_torch()
    version = _version_of(torch) if torch else None
    if version is None:
        return _refuse("this Python has no torch, whose LibTorch it needs")
    if version.partition("+")[0] != TORCH:
        return _refuse(f"this Python has torch {version}, but lockstep was built with torch {TORCH} and works with no "
                       "other")
    if os.path.dirname(torch) != os.path.dirname(_HERE):
        _search_elsewhere(torch)
    program = os.path.join(_HERE, "bin", "lockstep")
    try:
        os.execv(program, ["lockstep", *sys.argv[1:]])
    except OSError as error:
        print(f"lockstep: cannot start \"{program}\": {error.strerror}\n  hint: install the wheel again: "
              f"\"{sys.executable}\" -m pip install --force-reinstall --no-deps lockstep-*.whl", file=sys.stderr)
        return 1
