"""Passes the node's pod CIDR on from the cluster to the runtime, whose network configuration may need it.

Mirrors kubelet_network.go, v1.36, updatePodCIDR. If containerd has a CNI template, it fills in these addresses; a
runtime with its own network configuration ignores them.
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
"""Seconds between two checks; the kubelet checks whenever it updates its Node."""


class PodCidr:
    """The node's addresses for pods. All methods belong to one event loop."""

    def __init__(self, cri: CriRuntime, node: Callable[[], Mapping[str, Any] | None]) -> None:
        """`node` returns the newest received version of the Node."""
        self._cri, self._node = cri, node
        self._passed_on = ""
        self._complaint = ""

    async def run(self) -> None:
        """Pass on each change until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        """Pass the addresses on if they have changed. The next call repeats a failed one."""
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
