"""Container logs on this machine's disk, of pods whose workflow does not answer, and of crash loops."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.machine.settings import settings
from syncpod.node.log_end import end_of_log
from syncpod.node.pod_records import read_pod_records
from syncpod.pod import Pod
from syncpod.translation.context import NodeContext
from syncpod.translation.paths import log_directory_of, pods_directory

_CRASH_LOOP: Final = "CrashLoopBackOff"
_LONGEST: Final = 200
"""Maximum number of bytes of the last line that are shown."""
_SEARCHED: Final = 40 * 1024
"""How many bytes at a log's end are searched for its last line. A line has a prefix and at most 16 KiB of output."""


def noted_pod(node: NodeContext, namespace: str, name: str, uid: str) -> Pod | None:
    """Return a pod from this node's newest record of it; None if there is none. Blocks. Raises BadInput.

    If `uid` is "", because the server knows none, return the newest pod of that name.
    """
    try:
        pods = [record.pod for record in read_pod_records(node)]
    except PermissionError:
        raise BadInput(f"{pods_directory(node)}: permission denied; run as root") from None
    named = [pod for pod in pods if (pod.metadata.namespace, pod.metadata.name) == (namespace, name)]
    of_uid = [pod for pod in named if uid in ("", pod.metadata.uid)]
    return max(of_uid, key=lambda pod: str(pod.metadata.creation_timestamp or ""), default=None)


def newest_log(node: NodeContext, pod: Pod, container: str, *, previous: bool) -> Path:
    """Return the log of a container's newest instance, or of the one before it. Blocks.

    Raises Failure if there is none, and BadInput without permission.
    """
    directory = log_directory_of(pod, node) / container
    try:
        names = [path.name for path in directory.iterdir()]
    except FileNotFoundError:
        names = []
    except PermissionError:
        raise BadInput(f"{directory}: permission denied; run as root") from None
    parts = [name.split(".") for name in names]  # 0.log grows, 0.log.20260131-120000.gz was rotated away
    restarts = sorted({int(part[0]) for part in parts if part[0].isdecimal() and part[1:2] == ["log"]}, reverse=True)
    wanted = restarts[int(previous) :]
    if not wanted:
        name, which = pod.metadata.name, "previous terminated " if previous else ""
        newest = f"-n {pod.metadata.namespace} {name} -c {container} --restart {restarts[0]}" if restarts else ""
        hint = f"; `syncpod logs {newest}` prints the newest" if newest else ""
        raise Failure(f'no log of {which}container "{container}" in pod "{name}" in {directory}{hint}')
    return directory / f"{wanted[0]}.log"


def last_words(pod: Pod) -> str:
    """Return a clause with the last line in the log of the first container in CrashLoopBackOff. Blocks.

    Returns "" if no container is in CrashLoopBackOff, or if the log is empty or not on this machine.
    """
    meta, status = pod.metadata, pod.status
    for entry in (*status.init_container_statuses, *status.container_statuses):
        if entry.state.waiting is not None and entry.state.waiting.reason == _CRASH_LOOP:
            said = _last_line(f"{meta.namespace}_{meta.name}_{meta.uid}", entry.name, entry.restart_count)
            return f'; the log of {entry.name} ends with "{said}"' if said else ""
    return ""


def _last_line(pod: str, container: str, restart: int) -> str:
    try:
        path = settings().log_dir / pod / container / f"{restart}.log"
        end = end_of_log(path, limit=_LONGEST, lines=1, searched=_SEARCHED)
    except OSError:
        return ""
    return " ".join(end.split())
