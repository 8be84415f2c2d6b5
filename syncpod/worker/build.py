"""The build id with which a worker is known to the Temporal server."""

from __future__ import annotations

import hashlib
from importlib import metadata
from pathlib import Path
from typing import Final

from syncpod.lifecycle import version

SOURCES: Final = (
    "workflows",
    "syncpod/lifecycle",
    "syncpod/fleet",
    "syncpod/pod",
    "syncpod/messages",
    "syncpod/journal/records.py",
    "syncpod/journal/error_text.py",
    "syncpod/go_durations.py",
)
"""The packages and modules whose code a workflow runs."""


def build_id() -> str:
    """Return the build id for the server: the program's version, and its decisions' version and source digest.

    Without a build id, the SDK would compile the source of every module to make one: a third of a cold start.
    """
    try:
        program = f"syncpod-{metadata.version('syncpod')}"
    except metadata.PackageNotFoundError:
        program = "syncpod-checkout"
    return version.build_id(program, source_digest())


def source_digest(root: Path | None = None) -> str:
    """Return 12 hexadecimal digits over the text of every module in :data:`SOURCES`, by name, in sorted order.

    `root` is the directory that has the packages: a checkout, or site-packages; None means the one that this module was
    loaded from. Reads about 190 small files, which takes up to 0.1 s. Raises FileNotFoundError if one of them
    has no source there, as in a zip file.
    """
    root = root or Path(__file__).parents[2]
    total = hashlib.sha256()
    for named in SOURCES:
        found = [root / named] if (root / named).is_file() else (root / named).rglob("*.py")
        sources = sorted(found, key=lambda path: path.relative_to(root).as_posix())
        if not sources:
            raise FileNotFoundError(f"{root / named}: has no source to name the build by")
        for path in sources:
            text = path.read_bytes()
            total.update(f"{path.relative_to(root).as_posix()} {len(text)}\n".encode())
            total.update(text)
    return total.hexdigest()[:12]
