"""A disk that hangs: a mounted FUSE file system whose server never answers."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

from syncpod.kernel import libc

_ROOT_IS_A_DIRECTORY = "40000"
_MNT_FORCE = 1
_REQUEST_BYTES = 1 << 18
_ANSWER, _VERSION = "<IiQ", "<II56x"


@contextmanager
def hung_disk(place: Path, *, taken: bool = False) -> Iterator[Path]:
    """Mount a hung disk at `place`, as root: each call that uses it waits until the block ends, and then fails.

    Nobody reads its requests, not even the first one of the kernel's. With `taken`, a server begins, and takes each
    request without answering it: then not even SIGKILL ends a process that waits for it.
    """
    place.mkdir(parents=True)
    server = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    taking = Thread(target=_take, args=(server,), daemon=True)
    try:
        options = f"fd={server},rootmode={_ROOT_IS_A_DIRECTORY},user_id=0,group_id=0"
        libc.mount("hung", place, "fuse", 0, options)
        if taken:
            taking.start()
        try:
            yield place
        finally:
            libc.unmount(place, _MNT_FORCE | libc.MNT_DETACH)  # the kernel fails what waits
            if taken:
                taking.join()
    finally:
        os.close(server)


def _take(server: int) -> None:
    """Answer the kernel's first request, and take all others, until the file system is gone."""
    first = os.read(server, _REQUEST_BYTES)
    (unique,) = struct.unpack_from("<8xQ", first)
    greeting = struct.pack(_VERSION, 7, 31)
    os.write(server, struct.pack(_ANSWER, struct.calcsize(_ANSWER) + len(greeting), 0, unique) + greeting)
    try:
        while True:
            os.read(server, _REQUEST_BYTES)
    except OSError:
        return
