"""The last line of the log of a container that crashes again and again, which shows the reason best."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from syncpod.cli.machine.settings import settings

if TYPE_CHECKING:
    from syncpod.pod import Pod

_CRASH_LOOP: Final = "CrashLoopBackOff"
_LONGEST: Final = 200
_SEARCHED: Final = 40 * 1024
"""How many bytes from a log's end are searched for its last line: each has a prefix, and at most 16 KiB."""


def last_words(pod: Pod) -> str:
    """Return a clause with the last line that the first container in a crash loop has logged on this machine. Blocks.

    Returns "" if no container is in one, or its log has nothing or is not here.
    """
    meta, status = pod.metadata, pod.status
    for entry in (*status.init_container_statuses, *status.container_statuses):
        if entry.state.waiting is not None and entry.state.waiting.reason == _CRASH_LOOP:
            said = _last_line(f"{meta.namespace}_{meta.name}_{meta.uid}", entry.name, entry.restart_count)
            return f'; the log of {entry.name} ends with "{said}"' if said else ""
    return ""


def _last_line(pod: str, container: str, restart: int) -> str:
    from syncpod.node.log_end import end_of_log

    try:
        path = settings().log_dir / pod / container / f"{restart}.log"
        end = end_of_log(path, limit=_LONGEST, lines=1, searched=_SEARCHED)
    except OSError:
        return ""
    return " ".join(end.split())
