"""The agent's relist of many pods: a new pod needs few calls, and a known one none of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from protos.cri.v1 import api_pb2 as cri
from syncpod.cri.client import CriClient
from syncpod.cri.port import ContainerAnswer, SandboxStatus
from syncpod.node.reader import PodReader
from syncpod.translation import names
from tests.runtimes.bare import BareCri
from tests.runtimes.embedded import Embedded

PODS = 300
Answer = TypeVar("Answer")


class Counting(CriClient):
    """Counts the requests for statuses, and the most concurrent ones."""

    asked = 0
    now = 0
    most = 0

    async def pod_sandbox_status(self, sandbox_id: str, *, verbose: bool = False) -> SandboxStatus:
        return await self._counted(super().pod_sandbox_status(sandbox_id, verbose=verbose))

    async def container_status(self, container_id: str, *, verbose: bool = False) -> ContainerAnswer:
        return await self._counted(super().container_status(container_id, verbose=verbose))

    async def _counted(self, call: Awaitable[Answer]) -> Answer:
        self.asked += 1
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            return await call
        finally:
            self.now -= 1


async def test_many_new_pods_are_read_in_small_groups_and_then_cached(simulated: Embedded) -> None:
    async with BareCri(simulated.endpoint) as calls, Counting(simulated.endpoint) as client:
        for number in range(PODS):
            labels = {names.NODE_LABEL: "n1", names.POD_UID_LABEL: f"u{number}"}
            metadata = cri.PodSandboxMetadata(name=f"p{number}", uid=f"u{number}", namespace="default")
            await calls.start_pod(cri.PodSandboxConfig(metadata=metadata, labels=labels))
        reader = PodReader(client, boot=1, owner="n1", pod_timeout_seconds=60)
        first = await reader.read_all()
        assert (len(first.pods), first.failures, client.asked) == (PODS, {}, PODS)
        assert client.most <= 64

        second, third = await asyncio.gather(reader.read_all(), reader.read_all())
        assert client.asked == PODS
        assert second.pods["u7"].sandboxes == third.pods["u7"].sandboxes == first.pods["u7"].sandboxes
