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
"""The most ends of a pod that are kept although its newest status lacks them: far more than a pod has containers."""


class Terminations:
    """Finds the ends in a pod's newest status that have not been counted yet."""

    def __init__(self, count: Callable[[str, str, str], None]) -> None:
        """Call `count` once for each end, with container type, exit code and reason."""
        self._count = count
        self._known: dict[str, dict[str, None]] = {}
        """By pod UID: the ids of containers whose ends were in recent statuses, with those of the newest status last.

        The newest status is not enough, since an end may leave the status and come back: during a back-off a status has
        only a container's last end; before and after the back-off it also has the previous end.
        """

    def take(self, pod: Mapping[str, Any]) -> None:
        """Count the ends since the pod's last status.

        Ends in the first status of a pod are not counted, since they may be old: a new worker counts from zero.
        """
        uid = str(pod.get("metadata", {}).get("uid", ""))
        ends = dict(_ends(pod.get("status", {})))
        known = self._known.get(uid)
        for id_, ended in ends.items():
            if known is not None and id_ not in known:
                self._count(*ended)
        before = [id_ for id_ in known or () if id_ not in ends]
        self._known[uid] = dict.fromkeys([*before[-_KEPT:], *ends])

    def forget_others(self, uids: Iterable[str]) -> None:
        """Drop all other pods."""
        self._known = {uid: self._known[uid] for uid in uids if uid in self._known}


def _ends(status: Mapping[str, Any]) -> Iterator[tuple[str, tuple[str, str, str]]]:
    """Yield the ends in a status, each with the id of its container."""
    for field, kind in _KINDS.items():
        for container in status.get(field, ()):
            for state in ("lastState", "state"):
                if ended := container.get(state, {}).get("terminated"):
                    id_ = ended.get("containerID") or f"{container['name']}/{ended.get('finishedAt', '')}"
                    yield id_, (kind, str(ended.get("exitCode", 0)), ended.get("reason", ""))
