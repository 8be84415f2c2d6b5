"""A file in memory, for data that a library reads only from a path, such as a private key."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def memory_file(text: str) -> Iterator[str]:
    """Yield a path from which only this process can read `text` during the block. Raises OSError."""
    opened = os.memfd_create("syncpod", os.MFD_CLOEXEC)
    try:
        with os.fdopen(os.dup(opened), "w") as file:
            file.write(text)
        yield f"/proc/self/fd/{opened}"
    finally:
        os.close(opened)
