"""A small file system for a node's files, which a test fills completely."""

from __future__ import annotations

import contextlib
import errno
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

FULL = "No space left on device"
NO_EVICTION = {"SYNCPOD_EVICTION_HARD": "none"}
"""Otherwise a node short of disk would evict its pods, which other tests cover."""


@contextlib.contextmanager
def small_disk(directory: Path, *shown_at: Path, megabytes: int = 8) -> Iterator[Path]:
    """Mount a file system of a few megabytes at a directory, and subdirectories of it at the other places.

    Skips the test where nothing can be mounted.
    """
    with contextlib.ExitStack() as mounted:
        options = f"size={megabytes}m,mode=0755"
        mounted.enter_context(_mounted(directory, "-t", "tmpfs", "-o", options, "tmpfs"))
        for place in shown_at:
            part = directory / place.name
            for each in (part, place):
                each.mkdir()
            mounted.enter_context(_mounted(place, "--bind", part))
        yield directory


@contextlib.contextmanager
def _mounted(place: Path, *what: str | Path) -> Iterator[None]:
    if subprocess.run(["mount", *what, place], capture_output=True, check=False).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


@contextlib.contextmanager
def filled(disk: Path) -> Iterator[Callable[[], None]]:
    """Fill a disk to the last byte for the block; yields a function that fills space which was freed since then."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:

        def fill() -> None:
            size = 1 << 16
            while size:
                try:
                    file.write(b"\0" * size)
                except OSError as error:
                    assert error.errno == errno.ENOSPC
                    size //= 2

        fill()
        try:
            yield fill
        finally:
            ballast.unlink()
