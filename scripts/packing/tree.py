"""The folder that is packed: what `cmake --install` installs, with the libraries that other machines lack, and with
search paths that are relative to the files themselves."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

from packing import elf

ROOT = pathlib.Path(__file__).resolve().parents[2]
PLUG_INS = "lib/lockstep"
CARRIED = f"{PLUG_INS}/carried"  # libraries of Debian and Arrow
LICENCES = "share/lockstep/licenses"
OF_LIBTORCH = re.compile(r"lib(torch\w*|c10\w*|gomp|nccl|nv\w+|cu(?!rl)\w+)\.so[.\d]*")  # and of NVIDIA
# Of NVIDIA's wheels: those that the GPU plug-in itself is linked with or opens.
OF_NVIDIA = ("cu13", "nccl")


def fail(what, hint):
    print(f"scripts/package: {what}\n  hint: {hint}", file=sys.stderr)
    sys.exit(1)


class Build:
    """A folder that scripts/build has filled."""

    def __init__(self, folder):
        self.folder = folder
        cache = folder / "CMakeCache.txt"
        if not cache.exists() or not (folder / "bin/lockstep-engine").exists():
            fail(f"there is no build in '{folder}'", "scripts/build release")
        values = dict(re.findall(r"^(\w+):\w+=(.*)$", cache.read_text(), re.MULTILINE))
        if values["CMAKE_BUILD_TYPE"] != "Release" or values.get("LOCKSTEP_SANITIZE"):
            fail(f"'{folder}' is not a release build", "scripts/build release")
        self.version = values["CMAKE_PROJECT_VERSION"]
        self.libtorch = pathlib.Path(values["LOCKSTEP_LIBTORCH"])
        self.arrow = pathlib.Path(values.get("LOCKSTEP_ARROW") or "/nowhere")
        self.pages = pathlib.Path(values["LOCKSTEP_PAGES"])
        linked = ["libarchive.a", *(["libjemalloc_pic.a"] if values.get("LOCKSTEP_JEMALLOC") == "ON" else [])]
        self.linked = [pathlib.Path(name) for name in linked]  # into the programs
        self.torch_version = next(self.libtorch.glob("torch-*.dist-info")).name.split("-")[1].removesuffix(".dist")

    def seconds(self):
        """The time that all packed files get: the commit's, so that two packages of one commit are equal."""
        if "SOURCE_DATE_EPOCH" in os.environ:
            return int(os.environ["SOURCE_DATE_EPOCH"])
        done = subprocess.run(["git", "-C", ROOT, "log", "-1", "--format=%ct"], capture_output=True, text=True,
                              check=False)
        return int(done.stdout) if done.returncode == 0 else 315532800  # 1980, the first year of zip files


class Tree:
    """The installed files in `folder`. `site` leads from there to the folder that will hold torch/ and nvidia/: ".."
    in a wheel, "." elsewhere. `kind` is the package's name in scripts/package; a deb carries none of Debian's
    libraries."""

    def __init__(self, build, folder, site, kind):
        self.build, self.folder, self.site, self.kind = build, folder, site, kind
        self._install()
        self._carry()
        self._set_search_paths()
        self._point_cmake_to_torch()

    def _install(self):
        done = subprocess.run(["cmake", "--install", self.build.folder, "--prefix", self.folder, "--strip"],
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            fail(f"cmake --install of '{self.build.folder}' failed: {done.stderr.strip()}",
                 "scripts/build release makes what is missing")
        (self.folder / LICENCES).mkdir(parents=True)
        shutil.copy(ROOT / "LICENSE", self.folder / LICENCES / "lockstep")
        # By which `lockstep doctor` tells how to get what is missing.
        (self.folder / "share/lockstep/package").write_text(f"{self.kind}\n")

    def programs(self):
        return [self.folder / "bin/lockstep", *sorted(path for path in (self.folder / PLUG_INS).iterdir() if
                                                      path.is_file() and elf.is_elf(path))]

    def _carry(self):
        carried = self.folder / CARRIED
        carried.mkdir()
        of_debian = list(self.build.linked)
        for name, path in sorted(self._foreign_libraries().items()):
            if self.kind == "deb" and self.build.arrow not in path.parents:
                continue
            shutil.copy(path.resolve(), carried / name)
            os.chmod(carried / name, 0o755)
            elf.lower_versions(carried / name)
            if self.build.arrow not in path.parents:
                of_debian.append(path)
        self._add_debian_licences(of_debian)
        for path in carried.iterdir():
            need = elf.Needs(path)
            if not need.search_path and any((carried / name).exists() for name in need.libraries):
                elf.set_search_path(path, ["."])  # programs' paths would do, but not for tools that read files
        for information in self.build.arrow.glob("pyarrow-*.dist-info/licenses"):
            shutil.copytree(information, self.folder / LICENCES / "pyarrow")
        # Of what is built into the programs: studio's server, matrices, and scripts of studio's pages.
        for documents in (*map(pathlib.Path, ("/usr/share/doc/libboost1.74-dev", "/usr/share/doc/libeigen3-dev")),
                          *self.build.pages.glob("usr/share/doc/node-*")):
            shutil.copy(documents / "copyright", self.folder / LICENCES / documents.name)

    def _foreign_libraries(self):
        """{name: file} of all libraries that the programs load on this machine, directly or through others."""
        found = {}
        for program in self.programs():
            printed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
            for name, path in re.findall(r"^\s+(\S+) => (.*?)(?: \(0x\w+\))?$", printed, re.MULTILINE):
                if elf.OF_EVERY_LINUX.fullmatch(name) or OF_LIBTORCH.fullmatch(name):
                    continue
                if path == "not found":
                    fail(f"'{program.name}' needs {name}, which is not on this machine", "scripts/setup")
                if "/nvidia/" not in path:
                    found[name] = pathlib.Path(path)
        return found

    def _add_debian_licences(self, paths):
        """Of all at once, because dpkg-query reads the lists of all packages each time."""
        real = [path.resolve() if path.is_absolute() else path for path in paths]
        # Packages may have installed into /lib what lies in /usr/lib.
        places = [place for path in real for place in ([str(path), str(path).removeprefix("/usr")] if path.is_absolute()
                                                       else [f"*/{path}"])]
        done = subprocess.run(["dpkg-query", "--search", *places], capture_output=True, text=True, check=False)
        owners = {}
        for line in done.stdout.splitlines():
            packages, _, place = line.partition(": ")
            owners.setdefault(pathlib.Path(place).name, packages.partition(":")[0])
        for path in real:
            package = owners.get(path.name, "")
            licence = pathlib.Path("/usr/share/doc", package, "copyright")
            if not package or not licence.exists():
                fail(f"the licence of '{path}' was not found", "package on Debian 12, with its packages")
            shutil.copy(licence, self.folder / LICENCES / package)

    def _set_search_paths(self):
        site = f"../../{self.site}"  # from lib/lockstep
        of_torch = f"{site}/torch/lib"
        for program in self.programs():
            elf.lower_versions(program)
            if program.name == "lockstep":
                folders = [f"../{CARRIED}"]
            elif program.name == "liblockstep_cuda.so":
                folders = ["carried", of_torch, *(f"{site}/nvidia/{part}/lib" for part in OF_NVIDIA)]
            else:
                folders = ["carried", of_torch]
            elf.set_search_path(program, [os.path.normpath(folder) for folder in folders])

    def _point_cmake_to_torch(self):
        config = self.folder / "lib/cmake/lockstep/lockstep-config.cmake"
        text = config.read_text()
        if str(self.build.libtorch) not in text:
            fail(f"lockstep-config.cmake does not name '{self.build.libtorch}'", "scripts/build release")
        place = f"${{PACKAGE_PREFIX_DIR}}/{self.site}".removesuffix("/.")
        config.write_text(text.replace(str(self.build.libtorch), place))

    def add_libtorch(self):
        """LibTorch's CPU half and its headers."""
        libtorch = self.build.libtorch
        if self.site != ".":
            raise AssertionError("LibTorch would be outside the folder")
        for pattern in ("torch/lib/libtorch_cpu.so", "torch/lib/libc10.so", "torch/lib/libgomp.so.*",
                        "nvidia/cu13/lib/libcudart.so.*", "nvidia/cu13/lib/libcupti.so.*"):
            for path in libtorch.glob(pattern):
                target = self.folder / path.relative_to(libtorch)
                target.parent.mkdir(parents=True, exist_ok=True)
                if path.stat().st_dev == self.folder.stat().st_dev and self.kind != "deb":  # whose files get new times
                    os.link(path, target)
                else:
                    shutil.copy(path, target)
        shutil.copytree(libtorch / "torch/include", self.folder / "torch/include")
        for information in libtorch.glob("*.dist-info/licenses"):
            shutil.copytree(information, self.folder / LICENCES / information.parent.name.split("-")[0])

    def drop_gpu_plug_in(self):
        (self.folder / PLUG_INS / "liblockstep_cuda.so").unlink(missing_ok=True)

    def files(self):
        """[(path, its name in the tree, whether it is executable)], in a fixed order."""
        return [(path, str(path.relative_to(self.folder)), bool(path.stat().st_mode & 0o111))
                for path in sorted(self.folder.rglob("*")) if path.is_file()]
