"""A disk that hangs: a FUSE file system that is mounted and never answers, as one of a server that has stopped."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from syncpod.kernel import libc

_ROOT_IS_A_DIRECTORY = "40000"


@contextmanager
def hung_disk(place: Path) -> Iterator[Path]:
    """Mount it at `place`, as root: each call that touches it waits until the block ends, and then fails.

    Nobody reads its requests, not even the first one of the kernel's.
    """
    place.mkdir(parents=True)
    server = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    try:
        options = f"fd={server},rootmode={_ROOT_IS_A_DIRECTORY},user_id=0,group_id=0"
        libc.mount("hung", place, "fuse", 0, options)
        try:
            yield place
        finally:
            os.close(server)  # the kernel fails what waits
            server = -1
            libc.unmount(place, libc.MNT_DETACH)
    finally:
        if server >= 0:
            os.close(server)
