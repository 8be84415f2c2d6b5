"""Serves the kubelet's podresources API, which lists the node's pods and their containers."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from syncpod.kernel.os_errors import where_and_why
from syncpod.kubernetes.event_correlation import TokenBucket
from syncpod.kubernetes.json_documents import mapping, mappings
from syncpod.pod_resources.server import PodContainers, serving

log = logging.getLogger(__name__)

SOCKET: Final = Path("pod-resources", "kubelet.sock")
"""The socket's path below the node's state directory; a kubelet has it below its root directory."""
_BURST: Final = 10
_REFILL_SECONDS: Final = 1 / 100
"""The kubelet's DefaultBurstTokens, and its DefaultQPS as the time between two requests."""
_ENDED: Final = ("Succeeded", "Failed")


class PodResourcesApi:
    """Serves the API of one node."""

    def __init__(self, state_dir: Path, pods: Callable[[], Sequence[Mapping[str, Any]]]) -> None:
        """Serve below `state_dir`; `pods` returns the node's v1 Pods with their statuses."""
        self._socket, self._pods = state_dir / SOCKET, pods

    async def run(self) -> None:
        """Serve until cancelled. If the socket cannot be served, log why, and only wait."""
        bucket = TokenBucket(_BURST, _REFILL_SECONDS)
        try:
            async with serving(
                self._socket,
                lambda: [_containers(pod) for pod in self._pods()],
                lambda: bucket.take(time.monotonic()),
            ):
                await asyncio.Event().wait()
        except OSError as error:
            log.warning("the podresources API is not served: %s", where_and_why(error))
            await asyncio.Event().wait()


def _containers(pod: Mapping[str, Any]) -> PodContainers:
    metadata, spec = mapping(pod.get("metadata")), mapping(pod.get("spec"))
    beside = [each for each in mappings(spec.get("initContainers")) if each.get("restartPolicy") == "Always"]
    return PodContainers(
        str(metadata.get("namespace") or "default"),
        str(metadata.get("name") or ""),
        tuple(str(each.get("name")) for each in (*beside, *mappings(spec.get("containers")))),
        has_ended=mapping(pod.get("status")).get("phase") in _ENDED,
    )
