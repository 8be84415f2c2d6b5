"""The decisions of a workload, and their effects on its pods."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from syncpod.fleet import revisions
from syncpod.fleet.offers import NodeOffer
from syncpod.fleet.rollout import WorkloadDecision
from syncpod.fleet.workloads import kind_of
from workflows.fleet.workload_state import PODS_LIMIT, KnownPod, WorkloadState


def decision(
    state: WorkloadState, nodes: Sequence[NodeOffer] | None, now: datetime, unread: Collection[str] = ()
) -> WorkloadDecision:
    """Decide the next actions. The last survey found `nodes` and could not read `unread`; None = no survey."""
    workload = state.workload()
    if workload is None or not state.is_known:
        return WorkloadDecision(state.rollout, says="the nodes have not been asked yet")
    return kind_of(workload).decide(workload, state.situation(nodes, unread), now)


def carry_out(state: WorkloadState, decided: WorkloadDecision, now: datetime) -> None:
    """Fold a decision into the state: pods to create, and pods to remove."""
    state.rollout, state.counts = decided.state, decided.counts
    for withdrawal in decided.withdraw:
        pod = state.pods[withdrawal.name]
        pod.leave(withdrawal.why)
        state.event(now, "Normal", "Withdrawn", withdrawal.why)
    for creation in decided.create[: max(0, PODS_LIMIT - len(state.pods))]:
        state.numbered = creation.number
        state.pods[state.key(creation.number)] = KnownPod(
            number=creation.number,
            revision=creation.revision,
            created=now,
            bound=creation.node,
            replaces=creation.replaces,
        )
    if decided.rolled_back:
        failed = decided.failed
        state.history = revisions.given_up(
            state.history,
            decided.state.asked,
            decided.rolled_back,
            state.pod_name(failed) if failed else "",
            state.pods[failed].node if failed else "",
        )
        state.event(now, "Warning", "RolledBack", decided.rolled_back)
    if decided.complete and revisions.is_under_way(state.history, decided.complete):
        state.history = revisions.became_good(state.history, decided.complete, now)
        state.event(now, "Normal", "RolledOut", f"template {decided.complete} is good")
    drop_unplaced(state)


def withdraw_all(state: WorkloadState) -> None:
    """Mark every pod for removal, since the workload is being deleted."""
    for pod in state.pods.values():
        if not pod.leaving:
            pod.leave("the workload is being deleted")
    drop_unplaced(state)


def drop_unplaced(state: WorkloadState) -> None:
    """Forget pods that must be removed and were never sent to a node."""
    for name in [name for name, pod in state.pods.items() if pod.leaving and not pod.node]:
        del state.pods[name]


def is_over(state: WorkloadState) -> bool:
    """Say whether the workload is deleted, and its last pod is gone.

    A node that has not answered the survey yet may have pods of the workload, which would run on without it.
    """
    is_asked = (state.is_known and not state.missed) or state.document is None
    return state.deleting and is_asked and not state.pods
