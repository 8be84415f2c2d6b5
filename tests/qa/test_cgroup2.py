"""The guest with cgroups of version 2: its first archive, and the tests for it. It is booted only by hand."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from qa.cgroup2.__main__ import TESTS
from qa.cgroup2.kernel import Kernel, initramfs
from qa.cgroup2.machine import ROOT
from tests.runtimes.require import Missing


def kernel(directory: Path, *rows: str) -> Kernel:
    """An unpacked kernel with these modules: `name: what it needs`."""
    found = Kernel("6.1", directory)
    below = found.modules / "6.1"
    below.mkdir(parents=True)
    lines = [" ".join(f"{each}.ko" for each in row.replace(":", " :").split()).replace(" :.ko", ":") for row in rows]
    (below / "modules.dep").write_text("\n".join(lines))
    for line in lines:
        (below / line.partition(":")[0]).write_text(line)
    return found


ROWS = ("virtio:", "virtio_pci: virtio", "virtio_blk: virtio", "virtio_console: virtio", "overlay:", "fuse:")


@pytest.mark.skipif(shutil.which("busybox") is None, reason="busybox is not installed")
def test_the_first_archive_has_its_modules_each_after_what_it_needs(tmp_path: Path) -> None:
    initramfs(kernel(tmp_path, *ROWS, "virtiofs: fuse virtio"), tmp_path / "archive")
    with (tmp_path / "archive").open("rb") as archive:
        names = subprocess.run(["busybox", "cpio", "-t"], stdin=archive, capture_output=True, text=True, check=True)
    files = names.stdout.split()
    assert {"init", "bin/busybox"} <= set(files)
    order = [name.partition("-")[2] for name in sorted(files) if name.startswith("modules/")]
    assert order.index("virtio.ko") < order.index("virtio_pci.ko")
    assert order.index("fuse.ko") < order.index("virtiofs.ko")
    assert len(order) == len(set(order)) == 7

    out = tmp_path / "out"
    out.mkdir()
    with (tmp_path / "archive").open("rb") as archive:
        subprocess.run(["busybox", "cpio", "-i", "-d"], stdin=archive, cwd=out, check=True, capture_output=True)
    assert os.access(out / "init", os.X_OK)
    assert min((out / "modules").iterdir()).read_text() == "virtio.ko:"


@pytest.mark.skipif(shutil.which("busybox") is None, reason="busybox is not installed")
def test_a_kernel_without_one_of_these_modules_is_named(tmp_path: Path) -> None:
    with pytest.raises(Missing, match=r"^linux 6\.1 has no module virtiofs$"):
        initramfs(kernel(tmp_path, *ROWS), tmp_path / "archive")


def test_every_test_of_the_lane_is_there() -> None:
    assert [name for name in TESTS if not (ROOT / name).exists()] == []
