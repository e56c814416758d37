"""The two kinds of packages, written so that equal files make equal packages."""

import base64
import gzip
import hashlib
import pathlib
import tarfile
import time
import zipfile

from packing import elf

ENTRY_POINTS = "[console_scripts]\nlockstep = lockstep.launcher:main\n"
MODULE = '"""python -m lockstep, for launchers that start modules."""\nimport sys\n\nfrom lockstep.launcher import ' \
    'main\n\nsys.exit(main())\n'
NVJPEG = "nvidia-nvjpeg==13.0.4.44"  # as in scripts/setup


def tag(tree):
    """The platform of a wheel: the glibc that its files need. LibTorch's wheel needs 2.28."""
    versions = [version for path, _, _ in tree.files() if elf.is_elf(path) for version in elf.Needs(path).versions]
    return f"py3-none-manylinux_{max('2.28', elf.highest(versions)['GLIBC'], key=elf.numbers).replace('.', '_')}_x86_64"


def metadata(build):
    return "\n".join([
        "Metadata-Version: 2.1", "Name: lockstep", f"Version: {build.version}",
        "Summary: Trains networks to classify images and sequences; the weights are the same for any number of workers",
        "License: Apache-2.0", "Requires-Python: >=3.9", f"Requires-Dist: torch=={build.torch_version}",
        "Provides-Extra: nvjpeg", f'Requires-Dist: {NVJPEG}; extra == "nvjpeg"', ""])


def write_wheel(tree, folder, level):
    """dist/lockstep-VERSION-TAG.whl. A wheel is a zip file with a list of its files (RECORD)."""
    build = tree.build
    name_tag = tag(tree)
    path = folder / f"lockstep-{build.version}-{name_tag}.whl"
    information = f"lockstep-{build.version}.dist-info"
    launcher = pathlib.Path(__file__).with_name("launcher.py").read_text().replace("@TORCH@", build.torch_version)
    texts = {
        "lockstep/__init__.py": '"""The program Lockstep, as a Python package."""\n',
        "lockstep/__main__.py": MODULE,
        "lockstep/launcher.py": launcher,
        f"{information}/METADATA": metadata(build),
        f"{information}/WHEEL": f"Wheel-Version: 1.0\nGenerator: lockstep {build.version}\n"
                                f"Root-Is-Purelib: false\nTag: {name_tag}\n",
        f"{information}/entry_points.txt": ENTRY_POINTS,
    }
    record = []
    moment = time.gmtime(build.seconds())[:6]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=level) as archive:
        def add(name, content, is_executable=False):
            entry = zipfile.ZipInfo(name, moment)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100755 if is_executable else 0o100644) << 16
            archive.writestr(entry, content, compresslevel=level)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(content)}\n")
        for file, name, is_executable in tree.files():
            add(f"lockstep/{name}", file.read_bytes(), is_executable)
        for name, text in texts.items():
            add(name, text.encode())
        record.append(f"{information}/RECORD,,\n")
        archive.writestr(zipfile.ZipInfo(f"{information}/RECORD", moment), "".join(record))
    return path


def write_tarball(tree, folder, level):
    """dist/lockstep-VERSION-linux-x86_64.tar.gz. gzip, because a small Linux lacks zstd and xz."""
    name = f"lockstep-{tree.build.version}-linux-x86_64"
    path = folder / f"{name}.tar.gz"
    with open(path, "wb") as raw, gzip.GzipFile("", "wb", level, raw, mtime=0) as packed, \
            tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT, copybufsize=1 << 20) as archive:
        for file, member, is_executable in tree.files():
            entry = tarfile.TarInfo(f"{name}/{member}")
            entry.size, entry.mtime = file.stat().st_size, tree.build.seconds()
            entry.mode = 0o755 if is_executable else 0o644
            with open(file, "rb") as content:
                archive.addfile(entry, content)
    return path
