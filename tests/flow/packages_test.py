#!/usr/bin/env python3
"""The packages of scripts/package: installed by pip in a fresh virtual environment, or unpacked and moved, they load
nothing of the build and train the build's weights.

The wheel's torch is a stand-in with the LibTorch of the build, because the real one is a download of 3 GB; where
scripts/setup --peers has installed the real one, that is used too.

usage: packages_test.py [BUILD-FOLDER]
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

import runs

sys.path.insert(0, str(runs.ROOT / "scripts"))
from packing import elf, tree

BUILD = pathlib.Path(sys.argv.pop() if len(sys.argv) > 1 and not sys.argv[-1].startswith("-") else
                     runs.ROOT / "build/release").resolve()
TRAIN = [*runs.SMALL, "--workers", "2"]
SECONDS_TO_PACK = 300  # two slow cores that have another test to do


def done(*words, status=0, **options):
    """What a command prints; it must end with this status."""
    command = [str(word) for word in words]
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                           text=True, timeout=SECONDS_TO_PACK, check=False, **options)
    if ended.returncode != status:
        raise AssertionError(f"{' '.join(command)}\nended with {ended.returncode}, not {status}:\n{ended.stdout}")
    return ended.stdout


def package(kind, output):
    """The package, which is made in this folder."""
    printed = done(runs.ROOT / "scripts/package", kind, "--build", BUILD, "--output", output, "--level", "1")
    print(printed, end="", flush=True)
    return pathlib.Path(printed.partition(": ")[0])


class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="lockstep-test-")
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.folder = pathlib.Path(cls.temporary.name)
        cls.folder.chmod(0o755)
        cls.digits = cls.folder / "digits"
        runs.write_digits({cls.digits: 100})
        done(BUILD / "bin/lockstep", "train", cls.digits, "--output", cls.folder / "built", *TRAIN)
        cls.weights = runs.weights(cls.folder / "built")
        cls.wheel = package("wheel", cls.folder / "dist")
        done(sys.executable, "-m", "venv", cls.folder / "of pip")

    def train(self, *program, **options):
        """Trains with a program, whose weights must be the build's."""
        output = self.folder / f"run-{self.id().rpartition('.')[2]}"
        done(*program, "train", self.digits, "--output", output, *TRAIN, **options)
        self.assertEqual(runs.weights(output), self.weights)

    def check_loaded(self, program, *folders):
        """A program loads libraries from these folders and from every Linux, and no library twice."""
        loaded = re.findall(r"^\s+(\S+) => (.+) \(0x", done("ldd", program), re.MULTILINE)
        for name, path in loaded:
            inside = any(pathlib.Path(path).resolve().is_relative_to(folder.resolve()) for folder in folders)
            self.assertTrue(inside or elf.OF_EVERY_LINUX.fullmatch(name), f"{program} loads {path}")
        names = [pathlib.Path(path).name for _, path in loaded]
        self.assertEqual(len(names), len(set(names)), names)

    # -------------------------------------------------------------- the wheel

    def environment(self, name):
        """A fresh virtual environment without pip, which would take seconds: its folder, and that of its packages."""
        folder = self.folder / name
        done(sys.executable, "-m", "venv", "--without-pip", folder)
        return folder, next(folder.glob("lib/python3*/site-packages"))

    def pip(self, folder, *words, status=0):
        """What pip prints that works on this environment."""
        return done(self.folder / "of pip/bin/python", "-m", "pip", "--disable-pip-version-check", "--no-input",
                    "--python", folder / "bin/python", *words, status=status)

    def stand_in(self, site, version):
        """A package torch with the LibTorch of the build."""
        (site / "torch").mkdir(exist_ok=True)
        (site / "torch/version.py").write_text(f"__version__ = '{version}+cpu'\n")
        information = site / f"torch-{version}.dist-info"
        information.mkdir(exist_ok=True)
        (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n")
        (information / "RECORD").touch()
        if not (site / "torch/lib").is_symlink():
            (site / "torch/lib").symlink_to(tree.Build(BUILD).libtorch / "torch/lib")

    def test_wheel(self):
        wanted = tree.Build(BUILD).torch_version
        folder, site = self.environment("an environment")
        self.stand_in(site, wanted)
        self.pip(folder, "install", "--no-index", self.wheel)
        lockstep = folder / "bin/lockstep"
        self.assertRegex(done(lockstep, "--version"), r"^lockstep \d+\.\d+\.\d+")
        self.assertEqual(done(folder / "bin/python", "-m", "lockstep", "--version"), done(lockstep, "--version"))
        self.train(lockstep, env={"HOME": str(self.folder)})
        said = done(lockstep, "doctor", env={"HOME": str(self.folder)})
        self.assertRegex(said, r"package +wheel\n")
        has_plug_in = (site / "lockstep/lib/lockstep/liblockstep_cuda.so").exists()
        self.assertIn("pip install 'lockstep[nvjpeg]'" if has_plug_in else "no CUDA plug-in, so", said)
        self.check_loaded(site / "lockstep/lib/lockstep/lockstep-engine", site, tree.Build(BUILD).libtorch)
        done(runs.ROOT / "scripts/package", "check", self.wheel)
        self.assertIn("manylinux_2_34", self.wheel.name)

        (site / "torch/version.py").write_text("__version__ = '1.13.1'\n")
        said = done(lockstep, "--version", status=1)
        self.assertIn(f"has torch 1.13.1, but lockstep was built with torch {wanted}", said)
        self.assertIn(f"hint: \"{folder}/bin/python", said)
        shutil.rmtree(site / "torch")
        self.assertIn("this Python has no torch", done(lockstep, "--version", status=1))

        self.pip(folder, "uninstall", "--yes", "lockstep")
        self.assertEqual([path.name for path in [*site.iterdir(), *(folder / "bin").iterdir()]
                          if path.name.startswith("lockstep")], [])

    def test_wheel_with_the_real_torch_in_another_folder(self):
        peers = next(tree.Build(BUILD).libtorch.parent.glob("peers/lib/python3*/site-packages"), None)
        if peers is None:
            type(self).left_out = ("a wheel beside the real torch", "scripts/setup --peers")
            return
        folder, site = self.environment("peers")
        (site / "peers.pth").write_text(f"{peers}\n")
        self.pip(folder, "install", "--no-index", self.wheel)
        self.train(folder / "bin/lockstep", env={"HOME": str(self.folder)})

    def test_a_torch_that_is_missing_is_required(self):
        folder, _ = self.environment("empty")
        said = self.pip(folder, "install", "--no-index", self.wheel, status=1)
        self.assertIn(f"torch=={tree.Build(BUILD).torch_version}", said)

    def test_equal_wheels(self):
        if not runs.IS_LONG:
            return
        self.assertEqual(package("wheel", self.folder / "again").read_bytes(), self.wheel.read_bytes())

    # -------------------------------------------------------------- Debian's package

    def test_deb(self):
        packed = package("deb", self.folder / "dist")
        version = tree.Build(BUILD).version
        self.assertEqual(done("dpkg-deb", "--field", packed, "Version").strip(), version)
        depends = done("dpkg-deb", "--field", packed, "Depends")
        for library in ("libc6 (>= ", "libtiff6 (>= ", "libsodium23", "libzip4"):
            self.assertIn(library, depends)
        done(runs.ROOT / "scripts/package", "check", packed)
        done("dpkg-deb", "--extract", packed, self.folder / "deb")
        packed.unlink()
        usr = self.folder / "deb/usr"
        self.train(usr / "bin/lockstep", env={})
        said = done(usr / "bin/lockstep", "doctor", env={})
        self.assertRegex(said, r"package +deb\n")
        self.assertIn("no CUDA plug-in, so this program trains on CPUs only: this deb is for CPUs", said)
        for file in ("bash-completion/completions/lockstep", "zsh/vendor-completions/_lockstep",
                     "fish/vendor_completions.d/lockstep.fish", "man/man1/lockstep-train.1.gz",
                     "doc/lockstep/copyright", "doc/lockstep/changelog.gz"):
            self.assertTrue((usr / "share" / file).is_file(), file)
        shutil.rmtree(self.folder / "deb")

    def test_the_changes_begin_with_this_version(self):
        first = re.search(r"^## (\S+?),? ", (runs.ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
        self.assertEqual(first[1], tree.Build(BUILD).version)

    # -------------------------------------------------------------- the tarball

    def test_tarball(self):
        packed = package("tarball", self.folder / "dist")
        self.assertLess(packed.stat().st_size, 300e6)
        with tarfile.open(packed) as archive:
            archive.extractall(self.folder / "first", filter="data")
        packed.unlink()
        unpacked = next((self.folder / "first").iterdir())
        moved = unpacked.rename(self.folder / "a moved folder")
        done(runs.ROOT / "scripts/package", "check", moved)
        self.train(moved / "bin/lockstep", env={})
        for program in ("bin/lockstep", "lib/lockstep/lockstep-engine", "lib/lockstep/liblockstep_object_store.so"):
            if (moved / program).exists():
                self.check_loaded(moved / program, moved)
        if os.geteuid() == 0:
            self.assertIn("LibTorch", done(moved / "bin/lockstep", "doctor", user=65534, env={}, cwd="/"))


def main():
    if not elf.has_patchelf():
        runs.skip("packages, because patchelf is not installed", "scripts/setup --peers")
    Packages.left_out = None
    ended = unittest.main(exit=False, argv=sys.argv)
    if not ended.result.wasSuccessful():
        sys.exit(1)
    if Packages.left_out:
        runs.skip(*Packages.left_out)


if __name__ == "__main__":
    main()
