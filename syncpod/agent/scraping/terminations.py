"""Counts the ends of containers, as the kubelet does (``kubelet_terminated_containers_total``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

_KINDS: Final = {
    "containerStatuses": "container",
    "initContainerStatuses": "init_container",
    "ephemeralContainerStatuses": "ephemeral_container",
}
_KEPT: Final = 256
"""How many ends of a pod are remembered that its newest status does not have: far more than it has containers."""


class Terminations:
    """Finds the ends that are in a pod's newest status and were not in the one before."""

    def __init__(self, count: Callable[[str, str, str], None]) -> None:
        """Tell each end to `count`, once: container type, exit code and reason."""
        self._count = count
        self._known: dict[str, dict[str, None]] = {}
        """By pod UID: the ids of the containers whose ends its statuses had lately, those of its newest status last.

        Not those of its newest status alone: an end may leave a status and come back. In a back-off a container has
        its last end alone, and before and after it also the one before that.
        """

    def take(self, pod: Mapping[str, Any]) -> None:
        """Count what has ended since the pod's last status. Of its first one nothing counts: it may be as old as it is.

        A worker that begins counts from zero.
        """
        uid = str(pod.get("metadata", {}).get("uid", ""))
        ends = dict(_ends(pod.get("status", {})))
        known = self._known.get(uid)
        for id_, ended in ends.items():
            if known is not None and id_ not in known:
                self._count(*ended)
        before = [id_ for id_ in known or () if id_ not in ends]
        self._known[uid] = dict.fromkeys([*before[-_KEPT:], *ends])

    def keep(self, uids: Iterable[str]) -> None:
        """Forget all pods but these."""
        self._known = {uid: self._known[uid] for uid in uids if uid in self._known}


def _ends(status: Mapping[str, Any]) -> Iterator[tuple[str, tuple[str, str, str]]]:
    """Yield the ends that a status has, each with the id of its container."""
    for field, kind in _KINDS.items():
        for container in status.get(field, ()):
            for state in ("lastState", "state"):
                if ended := container.get(state, {}).get("terminated"):
                    id_ = ended.get("containerID") or f"{container['name']}/{ended.get('finishedAt', '')}"
                    yield id_, (kind, str(ended.get("exitCode", 0)), ended.get("reason", ""))
