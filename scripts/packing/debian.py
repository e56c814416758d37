"""The package for Debian 12: LibTorch and Arrow in /usr/lib/lockstep, everything else from Debian's packages."""

import functools
import gzip
import os
import pathlib
import re
import shutil
import subprocess

from packing import elf, tree

HOME = "usr/lib/lockstep"
# What a program that uses the library is built with, besides Debian's libraries.
COMPILER = ("g++", "cmake", "nlohmann-json3-dev", "libarchive-dev", "libjemalloc-dev")
# `weights get` and `data get` open libcurl, without which all else works.
CONTROL = """\
Package: lockstep
Version: {version}
Architecture: amd64
Maintainer: the Lockstep project <lockstep@localhost>
Installed-Size: {kilobytes}
Depends: {depends}
Recommends: ca-certificates, libcurl4
Suggests: {suggests}
Section: science
Priority: optional
Description: trains networks to classify images and sequences
 Lockstep trains networks on all cores of a machine, or of several. The weights are
 the same, bit for bit, for any number of workers. This package contains the program,
 its C++ library, and the LibTorch {torch} and Apache Arrow that they use.
"""
# CMake looks below /usr/lib/cmake, and the files find their library from their own place.
CMAKE = "include(/{home}/lib/cmake/lockstep/{name})\n"


def write_deb(packed, stage, folder, level):
    """dist/lockstep_VERSION_amd64.deb, from a tree in `stage`/usr/lib/lockstep."""
    build = packed.build
    _move_shell_files(packed.folder, stage)
    _link_from_usr(stage)
    needed = _needed_packages(packed)
    sources = {package for package in needed if not re.match(r"lib(c6|gcc-s1|stdc\+\+6)\b", package)}
    control = stage / "DEBIAN"
    control.mkdir()
    size = sum(path.stat().st_size for path in stage.rglob("*") if path.is_file())
    (control / "control").write_text(CONTROL.format(
        version=build.version, kilobytes=size // 1024, depends=", ".join(sorted(needed.values())),
        suggests=", ".join([*COMPILER, *_development_packages(sources)]), torch=build.torch_version))
    _set_modes_and_times(stage, build.seconds())
    path = folder / f"lockstep_{build.version}_amd64.deb"
    done = subprocess.run(["dpkg-deb", "--root-owner-group", "-Zzstd", f"-z{level}", "--threads-max=2", "--build",
                           stage, path], capture_output=True, text=True, check=False,
                          env={**os.environ, "SOURCE_DATE_EPOCH": str(build.seconds())})
    if done.returncode != 0:
        tree.fail(f"dpkg-deb failed: {done.stderr.strip()}", "package on Debian 12, whose dpkg writes zstd")
    return path


def _move_shell_files(prefix, stage):
    share = stage / "usr/share"
    for origin, place in (("man/man1", "man/man1"), ("bash-completion/completions", "bash-completion/completions"),
                          ("zsh/site-functions", "zsh/vendor-completions"),
                          ("fish/vendor_completions.d", "fish/vendor_completions.d")):
        (share / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.move(prefix / "share" / origin, share / place)
    for part in ("man", "bash-completion", "zsh", "fish"):
        shutil.rmtree(prefix / "share" / part)
    documents = share / "doc/lockstep"
    documents.mkdir(parents=True)
    shutil.copy(tree.ROOT / "LICENSE", documents / "copyright")
    (documents / "licenses").symlink_to(f"/{HOME}/{tree.LICENCES}")
    shutil.copy(tree.ROOT / "CHANGELOG.md", documents / "changelog")
    for path in (*share.glob("man/man1/*.1"), documents / "changelog"):
        with open(path.with_name(f"{path.name}.gz"), "wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as packed:
            packed.write(path.read_bytes())
        path.unlink()


def _link_from_usr(stage):
    (stage / "usr/bin").mkdir()
    (stage / "usr/bin/lockstep").symlink_to("../lib/lockstep/bin/lockstep")
    cmake = stage / "usr/lib/cmake/lockstep"
    cmake.mkdir(parents=True)
    for name in ("lockstep-config.cmake", "lockstep-config-version.cmake"):
        (cmake / name).write_text(CMAKE.format(home=HOME, name=name))


def _owner(library):
    """The package of this machine that has the library: "libtiff6"."""
    places = [f"{folder}/{library}" for folder in ("/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu")]
    found = subprocess.run(["dpkg-query", "--search", *places], capture_output=True, text=True, check=False).stdout
    return found.partition(":")[0] or tree.fail(f"no Debian package has {library}",
                                                "package on Debian 12, with its packages")


@functools.cache
def _dependency(library):
    """The library's package, and the dependency on it as its maintainers declare it: "libtiff6 (>= 4.0.3)"."""
    package = _owner(library)
    shown = subprocess.run(["dpkg-query", "--control-show", f"{package}:amd64", "shlibs"], capture_output=True,
                           text=True, check=True).stdout
    name, _, number = library.partition(".so.")
    found = re.search(rf"^{re.escape(name)} {re.escape(number)} (.+)$", shown, re.MULTILINE)
    return package, found[1].strip() if found else package


def _needed_packages(packed):
    """{package: its dependency}. Read from the libraries that programs name themselves, and from those of Arrow and
    LibTorch."""
    inside = {path.name for path, _, _ in packed.files()}
    needed = {}
    for path, _, _ in packed.files():
        if not elf.is_elf(path):
            continue
        for library in set(elf.Needs(path).libraries) - inside:
            if library.startswith("ld-linux"):
                continue
            package, dependency = _dependency(library)
            needed[package] = dependency
    return needed


def _development_packages(packages):
    """The packages of headers that belong to these, as installed here by scripts/setup."""
    done = subprocess.run(["dpkg-query", "-W", "-f", "${db:Status-Abbrev} ${Package} ${Depends}\n", "lib*-dev", "zlib1g-dev"],
                          capture_output=True, text=True, check=True)
    found = set()
    for line in done.stdout.splitlines():
        status, package, depends = line.split(maxsplit=2) if len(line.split()) > 2 else ("", "", "")
        if status == "ii" and packages & set(re.findall(r"([a-z0-9.+-]+) \(= ", depends)):
            found.add(package)
    return sorted(found)


def _set_modes_and_times(stage, seconds):
    for path in sorted(stage.rglob("*"), reverse=True):
        if path.is_symlink():
            continue
        os.chmod(path, 0o755 if path.is_dir() or path.stat().st_mode & 0o111 else 0o644)
        os.utime(path, (seconds, seconds))
    os.utime(stage, (seconds, seconds))
