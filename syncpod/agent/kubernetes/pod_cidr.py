"""Passes on the addresses that the cluster gives the node for its pods to the runtime, whose network may need them.

Mirrors kubelet_network.go, v1.36, updatePodCIDR. containerd writes its CNI configuration from a template with them, if
it has one; a runtime with a configuration of its own ignores them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from syncpod.cri.errors import CriError
from syncpod.cri.port import CriRuntime
from syncpod.kubernetes.json_documents import mapping

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 10.0
"""The kubelet looks when it updates its Node."""


class PodCidr:
    """The node's addresses for pods. All methods belong to one event loop."""

    def __init__(self, cri: CriRuntime, node: Callable[[], Mapping[str, Any] | None]) -> None:
        """`node` returns the newest version of the Node that is known."""
        self._cri, self._node = cri, node
        self._passed_on = ""
        self._complaint = ""

    async def run(self) -> None:
        """Pass on each change until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        """Pass on the addresses, if the runtime has others; a failed call is repeated with the next look."""
        cidr = pod_cidr(self._node() or {})
        if not cidr or cidr == self._passed_on:
            return
        try:
            await self._cri.update_runtime_config(pod_cidr=cidr)
        except CriError as error:
            if str(error) != self._complaint:
                self._complaint = str(error)
                log.warning("the runtime does not take the pods' addresses %s: %s", cidr, error)
            return
        log.info("the runtime has the pods' addresses %s of the cluster", cidr)
        self._passed_on, self._complaint = cidr, ""


def pod_cidr(node: Mapping[str, Any]) -> str:
    """Return the ranges of addresses that a Node has for its pods, separated by commas; "" if it has none."""
    found = mapping(node.get("spec"))
    several = found.get("podCIDRs")
    ranges = several if isinstance(several, list) and several else [found.get("podCIDR")]
    return ",".join(str(each) for each in ranges if each)
