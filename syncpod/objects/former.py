"""Former values of changed and deleted Secrets, which containers may still write to their output.

A Secret's old file is kept beside the Secrets, in memory, until no pod is left that may have received it. So a worker
has each value that is in use, even after a restart. A reboot removes all Secrets, current and former. `known_since`
returns the time since which all values are kept.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from syncpod.objects.refs import ObjectRef, Origin, ref_of
from syncpod.pod import Secret

_DIRECTORY: Final = "former"
_SINCE: Final = "since"
_OF_CLUSTER: Final = "cluster-"


@dataclass(frozen=True)
class FormerSecret:
    """A version of a Secret from before a change or deletion. Its repr shows no value."""

    ref: ObjectRef
    file: Path


def keep_former(root: Path, file: Path, origin: Origin) -> None:
    """Keep the content of a Secret's file, which is about to be replaced or removed. Blocks. Raises OSError.

    `root` is the directory of a node's Secrets. The content is not copied: the file only gets another name.
    """
    directory = root / _DIRECTORY
    directory.mkdir(mode=0o700, exist_ok=True)
    name = f"{_OF_CLUSTER if origin else ''}{uuid.uuid4().hex}"
    os.link(file, directory / name, follow_symlinks=False)


def former_secrets(root: Path) -> Iterator[tuple[FormerSecret, Secret]]:
    """Yield all former versions that are kept and can be read. Blocks. Raises OSError."""
    directory = root / _DIRECTORY
    for file in sorted(directory.iterdir()) if directory.is_dir() else ():
        try:
            held = Secret.model_validate_json(file.read_bytes())
        except (FileNotFoundError, ValidationError):
            continue
        yield FormerSecret(ref_of(held, "cluster" if file.name.startswith(_OF_CLUSTER) else ""), file), held


def begin_knowing(root: Path) -> None:
    """Record that all values are kept from now on, if that is not recorded yet. Blocks; idempotent. Raises OSError."""
    try:
        os.close(os.open(root / _SINCE, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        return


def known_since(root: Path) -> float | None:
    """Return the time since which all values are kept, as seconds since 1970; None = not recorded. Raises OSError.

    Values that containers received earlier are lost: by a reboot, or because an older version did not keep them.
    """
    try:
        return (root / _SINCE).lstat().st_mtime
    except (FileNotFoundError, NotADirectoryError):
        return None
