"""A container that exchanges two names in its volume atomically, again and again, as fast as it can."""

import contextlib
import ctypes
import os
import threading
from collections.abc import Iterator
from pathlib import Path

_RENAME_EXCHANGE = 2
_AT_FDCWD = -100

_libc = ctypes.CDLL(None, use_errno=True)


def exchange(one: Path, other: Path) -> None:
    """Exchange the targets of two names atomically."""
    if _libc.renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), ctypes.c_uint(_RENAME_EXCHANGE)):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(one))


@contextlib.contextmanager
def exchanging(one: Path, other: Path) -> Iterator[None]:
    """Exchange them again and again in another thread for the block."""
    done = threading.Event()

    def swap() -> None:
        while not done.is_set():
            exchange(one, other)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
