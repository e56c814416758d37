"""What programs and libraries need from the machine that runs them: other libraries, and versions of symbols.

Debian's binutils (objdump), which come with every compiler, read the files. patchelf changes their search paths.
"""

import re
import shutil
import struct
import subprocess

# RHEL 9, Amazon Linux 2023 and Ubuntu 22.04 have at least these: glibc 2.34 and the libstdc++ of g++ 11.
LIMITS = {"GLIBC": "2.34", "GLIBCXX": "3.4.29", "CXXABI": "1.3.13"}

# Symbols of which an older libstdc++ has the same function under an older version.
# std::condition_variable::wait of g++ 12 differs in noexcept only, which matters to threads that are cancelled.
OLDER = {"_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE": ("GLIBCXX_3.4.30", "GLIBCXX_3.4.11")}

# Libraries that every Linux with a C++ program has: glibc's, and g++'s.
OF_EVERY_LINUX = re.compile(
    r"(ld-linux-x86-64|libc|libm|libdl|librt|libpthread|libutil|libresolv|libstdc\+\+|libgcc_s)\.so(\.\d+)*")


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def _objdump(option, path):
    return subprocess.run(["objdump", option, str(path)], check=True, capture_output=True, text=True).stdout


class Needs:
    """Of one file: `libraries`, `versions` such as "GLIBC_2.34", and the folders of its `search_path`."""

    def __init__(self, path):
        printed = _objdump("-p", path)
        self.libraries = re.findall(r"^  NEEDED +(\S+)$", printed, re.MULTILINE)
        self.search_path = [folder for folders in re.findall(r"^  (?:RPATH|RUNPATH) +(\S+)$", printed, re.MULTILINE)
                            for folder in folders.split(":") if folder]
        references = printed.partition("Version References:")[2]
        self.versions = re.findall(r"^    0x\w+ 0x\w+ \d+ (\S+)$", references, re.MULTILINE)


def numbers(version):
    """(2, 34) of "GLIBC_2.34"; nothing of GLIBC_PRIVATE."""
    return tuple(int(number) for number in re.findall(r"\d+", version.rpartition("_")[2]))


def highest(versions):
    """{"GLIBC": "2.34", ...}: the highest version of each kind that has a limit."""
    found = {}
    for version in versions:
        kind = version.partition("_")[0]
        if kind in LIMITS and numbers(version) > numbers(found.get(kind, "")):
            found[kind] = version.partition("_")[2]
    return found


def too_new(path, versions):
    """[(version, the symbols that need it)]: what is above the limits."""
    above = [version for version in versions
             if numbers(version) > numbers(LIMITS.get(version.partition("_")[0], "999"))]
    if not above:
        return []
    symbols = re.findall(r"\*UND\*\s+\w+\s+\(?([\w.]+)\)?\s+(\S+)$", _objdump("-T", path), re.MULTILINE)
    return [(version, [symbol for of, symbol in symbols if of == version]) for version in above]


def lower_versions(path):
    """Where a version above the limits is only needed for symbols that also have an older version, lets them need that
    one: in the table of the needed versions (.gnu.version_r) the entry gets the older version's name and hash."""
    for version, symbols in too_new(path, Needs(path).versions):
        olds = {OLDER[symbol][1] for symbol in symbols if OLDER.get(symbol, ("",))[0] == version}
        if len(olds) != 1 or not all(symbol in OLDER for symbol in symbols):
            continue
        content = bytearray(path.read_bytes())
        entries = _needed_versions(content)
        older = next((offset for offset, name in entries if name in olds), None)
        newer = next(offset for offset, name in entries if name == version)
        if older is None:
            continue
        content[newer:newer + 4] = content[older:older + 4]  # vna_hash
        content[newer + 8:newer + 12] = content[older + 8:older + 12]  # vna_name
        path.write_bytes(content)


def _needed_versions(content):
    """[(offset of an Elf64_Vernaux, its name)], as the specification of symbol versions (LSB) describes them."""
    sections, = struct.unpack_from("<Q", content, 0x28)
    size, count = struct.unpack_from("<HH", content, 0x3A)
    headers = [struct.unpack_from("<IIQQQQIIQQ", content, sections + number * size) for number in range(count)]
    needs = next(header for header in headers if header[1] == 0x6FFFFFFE)  # SHT_GNU_verneed
    names = headers[needs[6]][4]
    found, need = [], needs[4]
    while True:
        _, entries, _, first, following = struct.unpack_from("<HHIII", content, need)
        entry = need + first
        for _ in range(entries):
            _, _, _, name, next_entry = struct.unpack_from("<IHHII", content, entry)
            start = names + name
            found.append((entry, content[start:content.index(0, start)].decode()))
            entry += next_entry
        if following == 0:
            return found
        need += following


def has_patchelf():
    return shutil.which("patchelf") is not None


def set_search_path(path, folders):
    """An RPATH, which libraries of libraries are searched in too, relative to the file itself."""
    joined = ":".join("$ORIGIN" if folder == "." else f"$ORIGIN/{folder}" for folder in folders)
    subprocess.run(["patchelf", "--force-rpath", "--set-rpath", joined, str(path)], check=True)
