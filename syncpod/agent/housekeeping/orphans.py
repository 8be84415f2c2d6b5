"""Finds pods in the runtime that no workflow asks for, and says so: they are left as they are.

Mirrors kubelet_pods.go, v1.36, HandlePodCleanups, which finds the runtime's pods that are in no source. Difference: the
kubelet kills them. Here an empty or foreign database is no evidence against what runs.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from temporalio.service import RPCError

from syncpod.agent import metrics
from syncpod.agent.housekeeping.pod_workflows import PodWorkflows, unaccounted
from syncpod.cri.errors import CriError
from syncpod.cri.names import CLUSTER_ANNOTATION, NODE_LABEL
from syncpod.cri.node import NodeContext
from syncpod.cri.node_report import Orphan
from syncpod.cri.port import CriRuntime
from syncpod.lifecycle.observed import ObservedPod
from syncpod.messages import PodRef

log = logging.getLogger(__name__)

_WHY = {
    "closed": "its workflow has ended",
    "another": "its name is another pod's now",
    "unknown": "the Temporal server knows of no such workflow",
}


class Orphans:
    """Watches one node for orphans. All methods belong to one event loop."""

    def __init__(
        self,
        node: NodeContext,
        workflows: PodWorkflows,
        cri: CriRuntime,
        listings: Callable[[], Iterable[ObservedPod]],
        told: Callable[[tuple[Orphan, ...]], None],
        *,
        period: float = 60.0,
    ) -> None:
        """Look each `period` seconds; `told` hears of all there are, when that has changed."""
        self._node = node
        self._workflows = workflows
        self._cri = cri
        self._listings = listings
        self._told = told
        self._period = period
        self._known: dict[str, Orphan] = {}

    async def run(self) -> None:
        """Look for ever. What cannot be asked is asked the next time."""
        while True:
            await asyncio.sleep(self._period)
            try:
                await self.round()
            except (RPCError, CriError) as error:
                log.debug("orphans are not looked for: %s", error)

    async def round(self) -> tuple[Orphan, ...]:
        """Look once; return all there are. Raises RPCError, CriError."""
        pods = {each.uid: each for each in self._listings() if each.name and (each.sandboxes or each.containers)}
        reasons = await self._of_other_clusters() if pods else {}
        refs = [PodRef(namespace=each.namespace, name=each.name, uid=uid) for uid, each in pods.items()]
        mine = [ref for ref in refs if ref.uid not in reasons]
        for ref in unaccounted(mine, await self._workflows.open()) if mine else ():
            standing = await self._workflows.standing(ref)
            if standing != "open":
                reasons[ref.uid] = _WHY[standing]
        found = {uid: self._orphan(pods[uid], why) for uid, why in reasons.items() if uid in pods}
        self._say(found)
        return tuple(found.values())

    async def _of_other_clusters(self) -> dict[str, str]:
        """Return the pods, by UID, that were made for another Temporal cluster than this one."""
        listed = await self._cri.list_pod_sandboxes(labels={NODE_LABEL: self._node.name})
        clusters = ((each.uid, each.annotations.get(CLUSTER_ANNOTATION, "")) for each in listed)
        return {
            uid: f"it belongs to the Temporal cluster {cluster or '(none)'}"
            for uid, cluster in clusters
            if cluster != self._node.cluster
        }

    def _orphan(self, pod: ObservedPod, why: str) -> Orphan:
        known = self._known.get(pod.uid)
        return Orphan(
            namespace=pod.namespace,
            name=pod.name,
            uid=pod.uid,
            why=why,
            running=sum(container.state == "running" for container in pod.containers),
            since=known.since if known is not None else datetime.now(UTC),
        )

    def _say(self, found: dict[str, Orphan]) -> None:
        for uid, orphan in found.items():
            if uid not in self._known:
                metrics.orphaned_pods.add(1)
            if uid not in self._known or self._known[uid].why != orphan.why:
                log.warning(
                    "orphan: pod %s/%s (uid %s) has %d containers running, and %s; it is left as it is",
                    *(orphan.namespace, orphan.name, uid, orphan.running, orphan.why),
                )
        for uid in self._known.keys() - found.keys():
            log.info("pod %s/%s is no orphan any more", self._known[uid].namespace, self._known[uid].name)
        if found != self._known:
            self._told(tuple(found.values()))
        self._known = found
