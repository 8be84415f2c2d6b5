"""The agent's interface for steps: they report their progress to it, and query it for refusals."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from temporalio.service import RPCError

from syncpod.agent.background import LooseTasks
from syncpod.agent.backoff_queue import BackoffQueue
from syncpod.agent.eviction.node_pressure import NodePressure
from syncpod.agent.joined_cluster import JoinedCluster
from syncpod.agent.journal import Journal
from syncpod.agent.node_shutdown import NodeShutdown
from syncpod.agent.pleg import Pleg
from syncpod.agent.pod_signals import PodSignals
from syncpod.agent.probing.prober import Prober
from syncpod.agent.runtime_readiness import RuntimeReadiness
from syncpod.lifecycle.actions import StepName
from syncpod.messages.identity import NodeFacts, PodRef, pod_workflow_id
from syncpod.pod import Pod

log = logging.getLogger(__name__)


class StepPort:
    """The steps' `AgentPort`, which also arms the back-offs of workflows."""

    def __init__(
        self,
        facts: Callable[[], NodeFacts],
        signals: PodSignals,
        backoff_queue: BackoffQueue,
        *,
        pleg: Pleg,
        prober: Prober,
        readiness: RuntimeReadiness,
        journal: Journal,
        pressure: NodePressure,
        shutdown: NodeShutdown | None,
        cluster: JoinedCluster,
    ) -> None:
        """Report to the agent's parts. `facts` returns the node's facts, which each step's result carries.

        `shutdown` is None if the node does not delay shutdowns of the machine.
        """
        self.facts, self._signals, self._backoff_queue = facts, signals, backoff_queue
        self.pleg, self.journal, self._prober, self._readiness = pleg, journal, prober, readiness
        self._loop, self._tasks = asyncio.get_running_loop(), LooseTasks()
        self._pressure, self._shutdown, self.event_happens = pressure, shutdown, cluster.event_happens

    # --- reports ------------------------------------------------------------------------------------------------------

    def step_began(self, ref: PodRef, *, kills: bool = False) -> None:
        """Note that an attempt of a step begins. `kills` says whether it ends the whole pod."""
        if kills:
            self._prober.ending(ref.uid)
        self.pleg.step_began(ref.uid)

    def step_ended(self, ref: PodRef, *, fault: str = "") -> None:
        """Note that the attempt has ended. `fault` is the type of its failure; "" = it succeeded."""
        self._readiness.step_ended(ref, fault)
        self.pleg.step_ended(ref.uid)

    def arm_backoff(self, workflow_id: str, subject: str, restart: int, delay_seconds: float | None) -> None:
        """Signal the end of a back-off after a delay; None cancels the signal. Called by threads of workflow tasks."""
        queue = self._backoff_queue
        if delay_seconds is None:
            self._loop.call_soon_threadsafe(queue.disarm, workflow_id, subject, restart)
        else:
            self._loop.call_soon_threadsafe(queue.arm, workflow_id, subject, restart, delay_seconds)

    # --- questions ----------------------------------------------------------------------------------------------------

    def admission_refusal(self, pod: Pod) -> str:
        """Return why a node under pressure does not admit a pod, in the kubelet's words; "" if it admits it."""
        return self._pressure.admission_refusal(pod)

    def shutdown_refusal(self) -> tuple[str, str] | None:
        """Return the kubelet's reason and message for refusing pods during a shutdown; None if none is under way."""
        return self._shutdown.refusal() if self._shutdown is not None else None

    # --- signals that follow from a step ------------------------------------------------------------------------------

    def pod_adopted(self, ref: PodRef) -> None:
        """Send all probe results again: a new workflow has adopted the pod's containers, and has no results yet."""
        self._prober.send_again(ref.uid)

    def room_freed(self, waiting: Sequence[tuple[PodRef, StepName]]) -> None:
        """Signal the pods that wait to be resized or admitted, in this order, that the node has free resources again.

        A pod whose signal fails tries again by itself some minutes later.
        """
        if waiting:
            self._tasks.begin(self._signal_room(waiting), "room on the node")

    async def _signal_room(self, waiting: Sequence[tuple[PodRef, StepName]]) -> None:
        for ref, step in waiting:
            pod = pod_workflow_id(ref.namespace, ref.name)
            await _signalled(ref, "there is room", self._signals.end_backoff(pod, step.value, "room on the node"))

    def pod_was_deleted(self, ref: PodRef) -> None:
        """End the workflow of a pod that was deleted before: an older, restored database still has the workflow.

        If the signal fails, the next worker ends the workflow. Until then the pod is Failed, with the reason.
        """
        self._tasks.begin(self._delete(ref), f"delete {ref.namespace}/{ref.name}")

    async def _delete(self, ref: PodRef) -> None:
        log.warning(
            "pod %s/%s (uid %s) was deleted, and its workflow is back: it is ended", ref.namespace, ref.name, ref.uid
        )
        await _signalled(ref, "it was deleted", self._signals.delete(ref))

    async def close(self) -> None:
        """Cancel signals in flight; the workflows' own timers, and the next worker, take their place."""
        await self._tasks.close()


async def _signalled(ref: PodRef, news: str, signal: Awaitable[bool]) -> None:
    """Send a signal to a pod; log it if the pod cannot be reached."""
    try:
        await signal
    except RPCError as error:
        log.warning("the signal to pod %s/%s that %s cannot be sent: %s", ref.namespace, ref.name, news, error)
