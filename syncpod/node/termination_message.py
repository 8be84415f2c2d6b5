"""A container's termination message: a file that it writes or, if that is empty, the end of its log.

Mirrors kuberuntime_container.go, v1.36, getTerminationMessage and readLastStringFromContainerLogs.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from syncpod.cri.port import ContainerAnswer
from syncpod.lifecycle.exit import Exit
from syncpod.node.log_end import askable, end_of_log, last_bytes, last_part, require_regular
from syncpod.node.secret_values import WITHHELD
from syncpod.redaction import OVERLAP
from syncpod.translation import names
from syncpod.translation.mounts import container_place

MESSAGE_LIMIT: Final = 4096
"""Maximum bytes of a message from the file."""
LOG_LIMIT: Final = 2048
LOG_LINES: Final = 80
"""Maximum lines of a message from the log; `LOG_LIMIT` is the maximum of its bytes."""
_TAIL: Final = 1 << 20
"""Bytes at the end of the log that are searched for its last lines."""
_MODE: Final = 0o666
_KEPT: Final = 3
"""Number of message files of a container that are kept: the runtime lists two instances, and a third may be
starting."""


def make_message_file(path: Path) -> None:
    """Make the message file, writable by every user in the container, and remove the files of old instances.

    Blocks; safe to repeat. Raises OSError.
    """
    path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, _MODE)
    try:
        os.fchmod(descriptor, _MODE)
    finally:
        os.close(descriptor)
    files = sorted(entry for entry in path.parent.iterdir() if entry.name <= path.name and entry.is_file())
    for entry in files[:-_KEPT]:
        entry.unlink(missing_ok=True)


def wants_message(answer: ContainerAnswer) -> bool:
    """Return whether a container has a message to read: it has ended, and has a file for it."""
    return answer.container.state == "exited" and bool(
        answer.annotations.get(names.CONTAINER_TERMINATION_MESSAGE_PATH_ANNOTATION)
    )


def termination_message(answer: ContainerAnswer, exit_: Exit, withholds: Callable[[], bool]) -> str:
    """Return the exit's message together with the container's own. Blocks; a missing file counts as empty.

    `withholds` returns whether the container's own text may show values of Secrets that the node cannot recognize.
    """
    said, in_file = _file_content(answer)
    falls_back = (
        answer.annotations.get(names.CONTAINER_TERMINATION_MESSAGE_POLICY_ANNOTATION) == "FallbackToLogsOnError"
        and exit_.exit_code != 0
        and exit_.reason != "ContainerCannotRun"
    )
    if falls_back and not in_file:
        said = _end_of_log(Path(log)) if (log := answer.container.log_path) else ""
    if said and withholds():
        said = WITHHELD
    return ": ".join(part for part in (exit_.message, said) if part)


def _file_content(answer: ContainerAnswer) -> tuple[str, bool]:
    """Return the file's content, or the error of reading it; and True if the log need not be read."""
    place = container_place(answer.annotations.get(names.CONTAINER_TERMINATION_MESSAGE_PATH_ANNOTATION, ""))
    mounted = next((mount for mount in answer.mounts if mount.container_path == place), None)
    if mounted is None:
        return "", False
    try:
        data = last_bytes(_opened(Path(mounted.host_path)), MESSAGE_LIMIT + 4 * OVERLAP)
    except FileNotFoundError:
        return "", False
    except OSError as error:
        return f"Error on reading termination log {mounted.host_path}: {error.strerror}", True
    return last_part(data.decode(errors="replace"), MESSAGE_LIMIT), bool(data)


def _end_of_log(log: Path) -> str:
    """Return the container's last lines on both streams."""
    try:
        return end_of_log(log, limit=LOG_LIMIT, lines=LOG_LINES, searched=_TAIL)
    except OSError as error:
        return f"Error on reading termination message from logs: {error.strerror}"


def _opened(path: Path) -> int:
    """Open a regular file for reading, following no link. Raises OSError."""
    require_regular(askable(path).lstat())  # checked before the opening, since opening a device may have effects
    return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
