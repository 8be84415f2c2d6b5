"""What a node knows of its own pods without asking anybody: each one's last synced Pod, beside its volumes.

The agent refreshes volumes and holds pods to their limits by it, and admission counts by it what is taken. It holds
references to ConfigMaps and Secrets, never what is in them.
"""

import errno
import os
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, ValidationError

from syncpod.kernel.atomic_file import replace_file
from syncpod.pod import Pod, pod_to_wire
from syncpod.translation.context import NodeContext
from syncpod.translation.paths import pod_directory, pods_directory

RECORD_NAME = "pod.json"
"""The record's name in its pod's directory."""
Mark = Literal["admitted", "finished", "evicted"]
"""What is noted of a pod's life."""


class PodRecord(BaseModel):
    """One pod as a step last saw it on this node."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    pod: Annotated[Pod, PlainSerializer(pod_to_wire, return_type=dict[str, Any])] = Field(default_factory=Pod)
    incarnation: str = ""
    admitted: bool = False
    """The node has let it in: what it requests counts as taken until it has finished, or its directory goes."""
    finished: bool = False
    """Nothing of it will run again: it has been stopped for good."""
    evicted: bool = False
    """The node has put it out: none of its dead containers is needed any more."""
    cluster: str = ""
    """The Temporal cluster and namespace that have its workflow; "" = noted by an earlier version."""


def write_pod_record(node: NodeContext, record: PodRecord) -> None:
    """Replace the pod's record at once or not at all; mode 0600. The pod's directory must be there.

    It is not forced to disk: who finds none after a power cut makes it anew. Blocks. Raises OSError, UnsafeName.
    """
    path = pod_directory(node, record.pod.metadata.uid) / RECORD_NAME
    replace_file(path, record.model_dump_json(), durable=False)


def mark_pod_record(node: NodeContext, record: PodRecord, mark: Mark) -> None:
    """Set a mark in the pod's record, at once or not at all; `record` is what was read of it.

    On a full disk it is set in the place of its absence, which takes no space: a pod whose own files fill the disk
    could else never be ended, nor its files be removed. Its time of modification is moved on by hand, since two marks
    may be set before the kernel's clock of files ticks, and who knows the first would never read the second.

    Blocks. Raises OSError, UnsafeName.
    """
    try:
        write_pod_record(node, record.model_copy(update={mark: True}))
    except OSError as full:
        if full.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        absent, present = f'"{mark}":false'.encode(), f'"{mark}":true '.encode()
        with (pod_directory(node, record.pod.metadata.uid) / RECORD_NAME).open("r+b", buffering=0) as file:
            # The marks come after the pod: what it holds of such words is quoted, or before them.
            at = file.read().rfind(absent)
            if at < 0:
                raise
            before = os.fstat(file.fileno()).st_mtime_ns
            os.pwrite(file.fileno(), present, at)
            after = os.fstat(file.fileno())
            os.utime(file.fileno(), ns=(after.st_atime_ns, max(after.st_mtime_ns, before + 1)))


def read_pod_record(node: NodeContext, uid: str) -> PodRecord | None:
    """Return the record of one pod, None where there is none that can be read. Blocks. Raises OSError, UnsafeName."""
    return _read(pod_directory(node, uid) / RECORD_NAME)


def read_pod_records(node: NodeContext) -> tuple[PodRecord, ...]:
    """Return the records of all pods that have a directory on this node, by UID. Blocks. Raises OSError."""
    found = (_read(path) for path in sorted(pods_directory(node).glob(f"*/{RECORD_NAME}")))
    return tuple(record for record in found if record is not None)


def cluster_of(record: PodRecord | None, incarnation: str, annotated: str) -> str:
    """Return the Temporal cluster that a sandbox's pod belongs to: the record's, else the one that it was made for.

    `annotated` is what the sandbox says, for ever; only the record can say that its life goes on in another cluster,
    which has adopted it. A record of another life of the pod, or of an earlier version, says nothing.
    """
    if record is not None and record.cluster and incarnation and record.incarnation == incarnation:
        return record.cluster
    return annotated


def _read(path: Path) -> PodRecord | None:
    try:
        return PodRecord.model_validate_json(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError, ValidationError):
        return None
