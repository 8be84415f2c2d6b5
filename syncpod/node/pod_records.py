"""The node's own records of its pods: the last synced Pod of each, stored next to its volumes.

The agent refreshes volumes and enforces limits by these records, and admission counts the taken resources by them. The
records have references to ConfigMaps and Secrets, never their content.
"""

import contextlib
import errno
import os
import time
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, ValidationError

from syncpod.kernel.atomic_file import replace_file
from syncpod.pod import Pod, pod_to_wire
from syncpod.translation.context import NodeContext
from syncpod.translation.paths import pod_directory, pods_directory

RECORD_NAME = "pod.json"
"""The record's file name in the pod's directory."""
Mark = Literal["admitted", "finished", "evicted"]
"""A mark in a pod's record."""
_SETTLED_NS = 1_000_000_000
"""If a directory's modification time is at least this many nanoseconds old, any further change will alter it. The
kernel's file clock ticks a hundred times a second or more."""


class PodRecord(BaseModel):
    """A pod, as a step of this node last synced it."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    pod: Annotated[Pod, PlainSerializer(pod_to_wire, return_type=dict[str, Any])] = Field(default_factory=Pod)
    incarnation: str = ""
    admitted: bool = False
    """True if the node has admitted the pod: its requests count until it has finished or its directory is removed."""
    finished: bool = False
    """True if the pod has been stopped for good: none of its containers will run again."""
    evicted: bool = False
    """True if the node has evicted the pod: its dead containers are not needed any more."""
    cluster: str = ""
    """The Temporal cluster and namespace that have its workflow; "" if not known."""


def write_pod_record(node: NodeContext, record: PodRecord) -> None:
    """Replace the pod's record atomically; mode 0600. The pod's directory must exist.

    The record is not synced to disk: if a power cut loses it, it is written again. Blocks. Raises OSError, UnsafeName.
    """
    path = pod_directory(node, record.pod.metadata.uid) / RECORD_NAME
    replace_file(path, record.model_dump_json(), durable=False)
    _announce(node)


def mark_pod_record(node: NodeContext, record: PodRecord, mark: Mark) -> None:
    """Set a mark in the pod's record atomically; `record` is the record as it was read.

    On a full disk, the bytes of the unset mark are overwritten, which needs no space. Otherwise a pod whose own files
    fill the disk could never be ended and removed. After an overwrite, the modification time is advanced explicitly:
    the kernel's file clock may not tick between two marks, and a reader of the first would miss the second.

    Blocks. Raises OSError, UnsafeName.
    """
    try:
        write_pod_record(node, record.model_copy(update={mark: True}))
    except OSError as full:
        if full.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        absent, present = f'"{mark}":false'.encode(), f'"{mark}":true '.encode()
        with (pod_directory(node, record.pod.metadata.uid) / RECORD_NAME).open("r+b", buffering=0) as file:
            # The marks come after the pod, so the last occurrence is the mark's.
            at = file.read().rfind(absent)
            if at < 0:
                raise
            before = os.fstat(file.fileno()).st_mtime_ns
            os.pwrite(file.fileno(), present, at)
            after = os.fstat(file.fileno())
            os.utime(file.fileno(), ns=(after.st_atime_ns, max(after.st_mtime_ns, before + 1)))
        _announce(node)


def records_version(node: NodeContext) -> int | None:
    """Return a number that changes with each write, mark or removal of a record; None if a change could be missed.

    The number is the modification time of the directory of all pods, so it costs one stat. While that time is less than
    a second old, a further change might not change the time. Read the version before the records. Blocks. Raises
    OSError.
    """
    asked = time.time_ns()
    try:
        changed = os.stat(pods_directory(node)).st_mtime_ns  # noqa: PTH116  # it is called often
    except FileNotFoundError:
        return None
    return changed if changed < asked - _SETTLED_NS else None


def _announce(node: NodeContext) -> None:
    """Change :func:`records_version`, so that readers notice the changed record."""
    with contextlib.suppress(OSError):  # no pod must fail for this, since readers read all records now and then anyway
        os.utime(pods_directory(node))


def has_records(state_dir: Path) -> bool:
    """Return whether a node's state directory has the record of any pod. Blocks."""
    return next((state_dir / "pods").glob(f"*/{RECORD_NAME}"), None) is not None


def read_pod_record(node: NodeContext, uid: str) -> PodRecord | None:
    """Return the record of one pod; None if there is no readable one. Blocks. Raises OSError, UnsafeName."""
    return _read(pod_directory(node, uid) / RECORD_NAME)


def read_pod_records(node: NodeContext) -> tuple[PodRecord, ...]:
    """Return the records of all pods that have a directory on this node, by UID. Blocks. Raises OSError."""
    found = (_read(path) for path in sorted(pods_directory(node).glob(f"*/{RECORD_NAME}")))
    return tuple(record for record in found if record is not None)


class RecordedLife(Protocol):
    """The incarnation and the cluster in a pod's record; a :class:`PodRecord` has both."""

    @property
    def incarnation(self) -> str:
        """The pod's incarnation when the record was written."""

    @property
    def cluster(self) -> str:
        """The Temporal cluster that has its workflow; "" if not known."""


def cluster_of(record: RecordedLife | None, incarnation: str, annotated: str) -> str:
    """Return the Temporal cluster that a sandbox's pod belongs to: the cluster in the record, else the annotated one.

    `annotated` is the sandbox's annotation, which never changes; only the record shows that another cluster has adopted
    the pod. A record of another incarnation, or one that names no cluster, is ignored.
    """
    if record is not None and record.cluster and incarnation and record.incarnation == incarnation:
        return record.cluster
    return annotated


def _read(path: Path) -> PodRecord | None:
    try:
        return PodRecord.model_validate_json(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError, ValidationError):
        return None
