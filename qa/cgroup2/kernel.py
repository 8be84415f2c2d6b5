"""A Debian kernel for the guest, unpacked in the cache, and an initramfs that mounts this machine's root directory."""

from __future__ import annotations

import re
import shutil
import stat
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.runtimes.require import Missing, cache_directory

PACKAGE: Final = "linux-image-cloud-amd64"
"""The package that depends on the distribution's newest kernel for virtual machines."""
_MODULES: Final = ("virtio_pci", "virtio_blk", "virtio_console", "virtiofs", "overlay")
"""The modules that the initramfs must load before it can mount files of this machine; their dependencies are added."""
_INIT: Final = Path(__file__).with_name("init.sh")


@dataclass(frozen=True)
class Kernel:
    """An unpacked kernel and its modules."""

    version: str
    directory: Path

    @property
    def image(self) -> Path:
        """The kernel's image."""
        return self.directory / f"boot/vmlinuz-{self.version}"

    @property
    def modules(self) -> Path:
        """The directory that is mounted at `/lib/modules`."""
        return self.directory / "lib/modules"


def kernel() -> Kernel:
    """Return the newest kernel in the cache; if there is none, download one with apt.

    Raises `Missing` if apt has none, and CalledProcessError.
    """
    place = cache_directory()
    found = sorted(place.glob("linux-*/boot/vmlinuz-*"), key=lambda file: file.stat().st_mtime)
    if not found:
        return _download(place)
    return Kernel(found[-1].name.removeprefix("vmlinuz-"), found[-1].parents[1])


def _download(place: Path) -> Kernel:
    text = subprocess.run(["apt-cache", "depends", PACKAGE], capture_output=True, text=True, check=True).stdout
    named = re.search(r"Depends: linux-image-(\S+)", text)
    if named is None:
        raise Missing(f"apt knows no {PACKAGE}")
    version = named[1]
    place.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="linux-", dir=place) as scratch:
        subprocess.run(["apt-get", "download", "-qq", f"linux-image-{version}"], cwd=scratch, check=True)
        (package,) = Path(scratch).glob("*.deb")
        out = Path(scratch, "out")
        subprocess.run(["dpkg", "--extract", package, out], check=True)
        subprocess.run(["depmod", "--basedir", out, version], check=True)
        out.rename(place / f"linux-{version}")
    return Kernel(version, place / f"linux-{version}")


def initramfs(kernel: Kernel, to: Path) -> None:
    """Write an archive with busybox, the modules that are loaded first, and `init.sh`. Raises `Missing`, OSError."""
    busybox = shutil.which("busybox")
    if busybox is None:
        raise Missing("busybox is not installed (busybox-static)")
    files: dict[str, bytes] = {"init": _INIT.read_bytes(), "bin/busybox": Path(busybox).read_bytes()}
    below = kernel.modules / kernel.version
    needs = _dependencies(below / "modules.dep")
    order: list[str] = []
    for name in _MODULES:
        file = next((each for each in needs if Path(each).name.partition(".")[0] == name), None)
        if file is None:
            raise Missing(f"linux {kernel.version} has no module {name}")
        order += [each for each in (*reversed(needs[file]), file) if each not in order]
    for at, module in enumerate(order):
        files[f"modules/{at:02}-{Path(module).name}"] = (below / module).read_bytes()
    to.write_bytes(_archive(files))


def _dependencies(table: Path) -> dict[str, list[str]]:
    rows = (line.partition(":") for line in table.read_text().splitlines())
    return {file: needs.split() for file, _, needs in rows}


def _archive(files: dict[str, bytes]) -> bytes:
    """Return a cpio archive in newc format, with all files executable."""
    directories = {str(parent) for name in files for parent in Path(name).parents} - {"."}
    entries = [(name, stat.S_IFDIR | 0o755, b"") for name in sorted(directories)]
    entries += [(name, stat.S_IFREG | 0o755, content) for name, content in files.items()]
    return b"".join(_entry(*each) for each in [*entries, ("TRAILER!!!", 0, b"")])


def _entry(name: str, mode: int, content: bytes) -> bytes:
    fields = (0, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0)
    head = b"070701" + b"".join(b"%08X" % each for each in fields) + name.encode() + b"\0"
    return _padded(head) + _padded(content)


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)
