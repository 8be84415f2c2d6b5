"""The pod that a request names, as its workflow tells it."""

from __future__ import annotations

from typing import Any

from syncpod.agent.kubelet_port.access import Refused
from syncpod.api.source import CannotSay, PodSource


async def named_pod(source: PodSource, namespace: str, name: str, missing: str, uid: str = "") -> dict[str, Any]:
    """Return a pod, or with `uid` the one with this UID.

    Raises Refused, with the text `missing` where there is none.
    """
    found = source.known_pods(namespace, [name])
    if not found:
        try:
            found = await source.open_pods(namespace, [name])
        except CannotSay:
            raise Refused(503, "this node cannot say now which pods there are: its server does not say") from None
    pods = [each.reads.pod() for each in found]
    for pod in pods:
        if uid in ("", pod["metadata"].get("uid")):
            return pod
    raise Refused(404, missing)
