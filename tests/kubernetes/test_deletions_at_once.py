"""A cluster deletes a thousand pods at once: their workflows are notified a few at a time."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from syncpod.agent.kubernetes.deletions import Deletions
from syncpod.agent.kubernetes.statuses import StatusWriter
from syncpod.agent.sources.desired_pods import AT_ONCE, Orders
from syncpod.kubernetes.bound_pod import BoundPod
from syncpod.kubernetes.client import ApiClient
from syncpod.messages.node import DeletePodWorkflow, PodWorkflowResult


class Workflows:
    """Pods' workflows, which count the concurrent orders."""

    def __init__(self) -> None:
        self.under_way = self.most = 0
        self.told: list[str] = []

    async def end(self, request: DeletePodWorkflow) -> PodWorkflowResult:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await asyncio.sleep(0)
        self.under_way -= 1
        self.told.append(request.name)
        return PodWorkflowResult(uid=request.uids[0])


async def test_a_thousand_pods_that_are_deleted_at_once_are_told_a_few_at_a_time() -> None:
    """Sent all at once, no order was answered in time, and each was sent again: only six pods a minute ended."""
    workflows = Workflows()

    async def ours() -> None:
        """Do nothing: the server is the node's."""

    deletions = Deletions(
        cast("ApiClient", None), cast("Orders", workflows), ours, cast("Any", None), cast("StatusWriter", None)
    )
    deletions.take([cast("BoundPod", _Deleted(number)) for number in range(1000)])
    await deletions.all_sent()
    assert (len(set(workflows.told)), len(workflows.told), workflows.most) == (1000, 1000, AT_ONCE)
    await deletions.close()


class _Deleted:
    """The part of a pod that a deletion reads."""

    namespace, grace = "default", 1

    def __init__(self, number: int) -> None:
        self.name, self.uid = f"web{number}", f"u{number}"
