"""Start marks: a node's record that it is about to start a container, one mark for each container of a pod.

Between StartContainer and the moment when the pod's workflow has the answer, only the runtime has a record that an
instance ran. If the ended instance were then removed while the worker is down, the container would run a second time.
The mark, `<state>/pods/<uid>/starts/<container>`, shows the next worker that the instance ran.

A container has one mark, that of its newest instance: an instance is started only once the workflow has recorded the
previous one. Marks are removed with the pod's directory. They are not synced to disk, since they must survive the
worker and not the kernel. A power cut may lose the last marks, but the runtime, which syncs its records, still lists
their instances.
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

GONE = "The container was started and is no longer listed by the runtime: its exit was not observed"
"""Message of an exit that nobody saw."""

_STARTS = "starts"
_SIZE = 512
"""Size of each file in bytes, so that a mark can overwrite any other; a longer mark replaces the file."""


class StartMark(BaseModel):
    """The note that an instance of a container was about to be started."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    id: str
    """The instance's id in the runtime."""
    restart: int
    incarnation: str
    sandbox_id: str
    at: Time
    """When the mark was written, by the node's clock."""
    hook_pending: bool = False
    """True if the postStart hook has not ended. Then a worker that takes over runs the hook again before it probes the
    container."""


@dataclass(frozen=True)
class WithdrawnMark:
    """A mark that was set aside and can be restored. Both are renames, which work on a full disk."""

    path: Path
    """The path at which the mark counts."""
    aside: Path

    def put_back(self) -> None:
        """Restore the mark. Blocks. Raises OSError."""
        self.aside.replace(self.path)

    def drop(self) -> None:
        """Delete the mark. Blocks; safe to repeat. Raises OSError."""
        self.aside.unlink(missing_ok=True)


def write_start_mark(node: NodeContext, uid: str, container: str, mark: StartMark) -> None:
    """Write a container's mark atomically; mode 0600.

    A mark is overwritten by a single write within one page, which a crash cannot tear. This takes a fifth of the time
    of a new file, and no disk space: on a full disk, the next container may be the one that frees space. A first mark
    needs space; if there is none, the container must not be started.

    Blocks. Raises OSError, UnsafeName.
    """
    path = _path(node, uid, container)
    content = mark.model_dump_json().encode().ljust(_SIZE)
    if not _write_over(path, content):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(path, content, durable=False)


def read_start_mark(node: NodeContext, uid: str, container: str) -> StartMark | None:
    """Return a container's mark; None if there is none. Blocks. Raises OSError, UnsafeName.

    An unreadable mark, which only a power cut leaves, is logged and counts as none.
    """
    return _read(_path(node, uid, container))


def withdraw_start_mark(node: NodeContext, uid: str, container_id: str) -> WithdrawnMark | None:
    """Set aside the mark of the instance with this id in the runtime; return None if it has none.

    Call it before removing an instance that never ran, whose number is then free again. A crash in between leaves an
    instance that is listed as never started, or nothing. Blocks. Raises OSError, UnsafeName.
    """
    path = _marked(node, uid, container_id)
    if path is None:
        return None
    aside = path.with_name(f".{path.name}.withdrawn")
    path.replace(aside)
    return WithdrawnMark(path, aside)


def has_start_mark(node: NodeContext, uid: str, container_id: str) -> bool:
    """Return whether the instance with this id in the runtime has a mark. Blocks. Raises OSError, UnsafeName."""
    return _marked(node, uid, container_id) is not None


def as_ended(mark: StartMark, container: Container | EphemeralContainer, seen: Exit | None) -> ObservedContainer:
    """Return an instance that ran and is gone as a runtime would list it, so that its end is recorded as usual.

    Its exit is `seen`. If that is None, it is the exit that a kubelet assumes for a container that it cannot find: 137,
    `ContainerStatusUnknown` (kubelet_pods.go, v1.36, convertToAPIContainerStatuses).
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


def _marked(node: NodeContext, uid: str, container_id: str) -> Path | None:
    """Return the path of an instance's mark; None if it has none."""
    directory = pod_directory(node, uid) / _STARTS
    try:
        paths = sorted(directory.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return None
    for path in paths:
        mark = _read(path) if not path.name.startswith(".") else None
        if mark is not None and mark.id == container_id:
            return path
    return None


def _path(node: NodeContext, uid: str, container: str) -> Path:
    return pod_directory(node, uid) / _STARTS / safe_name(container, "spec.containers[].name")


def _write_over(path: Path, content: bytes) -> bool:
    """Overwrite a file in place if it exists and has the same length; return whether that was done."""
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
        log.warning("%s does not name the instance that was started: %s", path, error)
        return None
