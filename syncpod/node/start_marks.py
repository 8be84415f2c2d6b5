"""That a container was told to start: noted on its node just before, one note for each container of a pod.

Between StartContainer and the moment at which the pod's workflow has the answer, that an instance has run is known to
the runtime alone, and gone with what it lists: whoever removed the ended instance while the worker is dead would have
it run a second time. By the mark, `<state>/pods/<uid>/starts/<container>`, the next worker knows.

A container's mark is that of its newest instance, and replaces the one before: a later number is asked for only once
the workflow knows of the earlier. They go with the pod's directory. None is forced to disk: they are to outlast the
worker, and what a process has written the kernel has. A power cut may lose the last ones, of starts that the pod's
workflow has not heard of, while the runtime, which does force its records to disk, still lists those instances.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from syncpod.kernel.atomic_file import replace_file
from syncpod.lifecycle.exit import STATUS_UNKNOWN, UNKNOWN_EXIT_CODE, Exit
from syncpod.lifecycle.observed import ObservedContainer
from syncpod.pod import Container, EphemeralContainer, Time
from syncpod.translation.context import NodeContext
from syncpod.translation.paths import pod_directory, safe_name

log = logging.getLogger(__name__)

GONE = "The container was told to start and is no longer listed by the runtime: nobody saw how it ended"
"""Message of an end that nobody knows."""

_STARTS = "starts"
_SIZE = 512
"""Bytes of each file, so that any mark fits in the place of any other; one that is longer gets a file of its own."""


class StartMark(BaseModel):
    """An instance of a container that was told to start."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    id: str
    """In the runtime."""
    restart: int
    incarnation: str
    sandbox_id: str
    at: Time
    """When, by the node's clock."""


@dataclass(frozen=True)
class WithdrawnMark:
    """A mark that counts no more, and can be put back: a rename either way, which a full disk does not refuse."""

    path: Path
    """Where it counts."""
    aside: Path

    def put_back(self) -> None:
        """Have it count again. Blocks. Raises OSError."""
        self.aside.replace(self.path)

    def drop(self) -> None:
        """Forget it. Blocks; safe to repeat. Raises OSError."""
        self.aside.unlink(missing_ok=True)


def write_start_mark(node: NodeContext, uid: str, container: str, mark: StartMark) -> None:
    """Have a container's mark be this one, at once or not at all; mode 0600.

    It is written over the one before, by one call and within one page, which a death does not cut in two. That costs a
    fifth of a new file, and no space: on a full disk the next start may be the one that tidies up. Where there is none
    yet a full disk refuses it, and the container must not be started.

    Blocks. Raises OSError, UnsafeName.
    """
    path = _path(node, uid, container)
    content = mark.model_dump_json().encode().ljust(_SIZE)
    if not _write_over(path, content):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(path, content, durable=False)


def read_start_mark(node: NodeContext, uid: str, container: str) -> StartMark | None:
    """Return a container's mark, None where there is none. Blocks. Raises OSError, UnsafeName.

    One that cannot be read is none, and logged: only a power cut leaves one.
    """
    return _read(_path(node, uid, container))


def withdraw_start_mark(node: NodeContext, uid: str, container_id: str) -> WithdrawnMark | None:
    """Have the mark of an instance (its id in the runtime) not count; None where it has none.

    To be done before what never ran is removed, since its number is free then. Who dies in between leaves an instance
    that is listed as never started, or nothing. Blocks. Raises OSError, UnsafeName.
    """
    directory = pod_directory(node, uid) / _STARTS
    try:
        paths = sorted(directory.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return None
    for path in paths:
        if path.name.startswith("."):
            continue
        mark = _read(path)
        if mark is not None and mark.id == container_id:
            aside = path.with_name(f".{path.name}.withdrawn")
            path.replace(aside)
            return WithdrawnMark(path, aside)
    return None


def as_ended(mark: StartMark, container: Container | EphemeralContainer, seen: Exit | None) -> ObservedContainer:
    """Return an instance that has run and is gone as a runtime would list it, so that its end is recorded like others.

    As it was seen to end, else as the kubelet has it of a container that it cannot find: 137, `ContainerStatusUnknown`
    (kubelet_pods.go, v1.36, convertToAPIContainerStatuses).
    """
    gone = ObservedContainer(
        id=mark.id,
        name=container.name,
        sandbox_id=mark.sandbox_id,
        restart_count=mark.restart,
        image=container.image,
        created_at=mark.at,
        started_at=mark.at,
        incarnation=mark.incarnation,
    )
    return gone.ended_as(seen or Exit(exit_code=UNKNOWN_EXIT_CODE, reason=STATUS_UNKNOWN, message=GONE))


def _path(node: NodeContext, uid: str, container: str) -> Path:
    return pod_directory(node, uid) / _STARTS / safe_name(container, "spec.containers[].name")


def _write_over(path: Path, content: bytes) -> bool:
    """Write a file's content in its place if it is there and as long; say whether that is done."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return os.fstat(descriptor).st_size == len(content) and os.write(descriptor, content) == len(content)
    finally:
        os.close(descriptor)


def _read(path: Path) -> StartMark | None:
    try:
        return StartMark.model_validate_json(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValidationError as error:
        log.warning("%s does not say which instance was told to start: %s", path, error)
        return None
