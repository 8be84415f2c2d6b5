"""How the workflow of a workload presents itself: its query, its memo, and its page in the UI."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime

from syncpod.fleet.rollout import Counts, WorkloadDecision
from syncpod.fleet.workloads import kind_of
from syncpod.lifecycle.printed_status import printed_status
from syncpod.messages.fleet import PodReport
from syncpod.messages.workload import PendingPod, WorkloadPod, WorkloadSummary, WorkloadView
from workflows.fleet.workload_state import KnownPod, WorkloadState
from workflows.rejections import last_rejected

_PENDING = 20
"""The most pods without a node that the memo names: it is read whenever workloads are listed."""
_SHOWN = 50
"""The most pods that the page names."""


def summary(state: WorkloadState, decided: WorkloadDecision | None) -> WorkloadSummary:
    """Return the workload's memo."""
    document = state.document or {}
    meta, workload, counts = document.get("metadata", {}), state.workload(), _counts(state, decided)
    return WorkloadSummary(
        kind=document.get("kind", ""),
        namespace=meta.get("namespace") or "default",
        name=meta.get("name", ""),
        desired=kind_of(workload).desired(workload, counts.desired) if workload is not None else 0,
        observed=counts.desired is not None,
        stalled=decided.stalled if decided is not None else "",
        paused=state.is_paused,
        replicas=counts.replicas,
        updated=counts.updated,
        ready=counts.ready,
        available=counts.available,
        misscheduled=counts.misscheduled,
        revision=state.rollout.target,
        good=state.rollout.good,
        says=_says(state, decided),
        since=state.applied_at,
        pending=tuple(
            PendingPod(
                name=state.pod_name(name),
                created=pod.created,
                why=pod.trouble,
                containers=_containers(state, pod),
                node=_wanted_node(state, pod),
            )
            for name, pod in sorted(state.pods.items(), key=lambda each: each[1].number)
            if not pod.node and not pod.leaving
        )[:_PENDING],
    )


def noted(state: WorkloadState, decided: WorkloadDecision | None) -> WorkloadSummary:
    """Return the summary whose change is a reason to write the memo. The memo's own numbers may be newer."""
    if decided is not None and decided.noted is not None:
        decided = replace(decided, counts=decided.noted)
    return summary(state, decided)


def _counts(state: WorkloadState, decided: WorkloadDecision | None) -> Counts:
    """Return the workload's numbers. During its deletion they are counted here, since nothing is decided any more."""
    counts = decided.counts if decided is not None else Counts()
    if not state.deleting:
        return counts
    ready = sum(_is_ready(pod) for pod in state.pods.values())
    updated = sum(pod.revision == state.rollout.target for pod in state.pods.values())
    return replace(counts, replicas=len(state.pods), updated=updated, ready=ready, available=ready, misscheduled=0)


def view(state: WorkloadState, decided: WorkloadDecision | None, asked: Collection[str] = ()) -> WorkloadView:
    """Return the whole workload. `asked` has the keys of pods that a node is being requested to run."""
    pods = sorted(state.pods.items(), key=lambda each: each[1].number)
    replaced_at, replaced_by = _written_off(state), _replacements(state)
    return WorkloadView(
        **summary(state, decided).model_dump(),
        complete=decided is not None and bool(decided.complete) and decided.complete == state.rollout.target,
        deleting=state.deleting,
        document=state.document,
        missed=state.missed,
        pods=tuple(
            WorkloadPod(
                name=state.pod_name(name),
                node=pod.node,
                revision=pod.revision,
                status="Unknown" if pod.presence == "Unknown" else (pod.report or PodReport()).status or "Pending",
                ready=_is_ready(pod),
                restarts=(pod.report or PodReport()).restarts,
                leaving=pod.leaving,
                why=pod.why or (f"node {pod.node} has not answered yet" if name in asked else pod.trouble),
                bound=_wanted_node(state, pod),
                created=pod.created,
                containers=_containers(state, pod),
                replaced_at=replaced_at.get(name),
                replaced_by=replaced_by.get(name, ""),
            )
            for name, pod in pods
        ),
        history=state.history,
        refusals=state.refusals,
        events=state.events,
    )


def details(state: WorkloadState, decided: WorkloadDecision | None, asked: Collection[str] = ()) -> str:
    """Return the workload as a page: the state of its rollout, and its pods. `asked` is as in :func:`view`."""
    whole = view(state, decided, asked)
    lines = [f"**{whole.kind} {whole.namespace}/{whole.name}**: {whole.says}", ""]
    lines.append(f"- {whole.ready} of {whole.desired} ready, {whole.updated} up to date")
    if whole.pods:
        lines += ["", "**Pods**", ""]
    for pod in whole.pods[:_SHOWN]:
        status = "Terminating" if pod.leaving else pod.status
        where = f"on {pod.node}" if pod.node else pod.why
        said = [*([where] if where else []), f"revision {pod.revision}", *([status] if status else [])]
        said += [f"{pod.restarts} restarts"] if pod.restarts else []
        lines.append(f"- **{pod.name}**: {', '.join(said)}")
    return "\n".join([*lines, *last_rejected(state.events)])


def _says(state: WorkloadState, decided: WorkloadDecision | None) -> str:
    if state.deleting:
        return f"it is being deleted: {len(state.pods)} pods are left"
    return decided.says if decided is not None else ""


def _containers(state: WorkloadState, pod: KnownPod) -> int:
    """Return how many containers of a pod should be ready."""
    return printed_status(state.templates.get(pod.revision, {})).total


def _written_off(state: WorkloadState) -> dict[str, datetime]:
    """Return when each pod on a lost node may be replaced, by its key in the state."""
    lost = [member for member in state.members() if member.presence == "Unknown" and not member.leaving]
    workload = state.workload() if lost else None
    if workload is None:
        return {}
    kind = kind_of(workload)
    moments = ((member.name, kind.replaced_at(workload, member)) for member in lost)
    return {name: moment for name, moment in moments if moment is not None}


def _replacements(state: WorkloadState) -> dict[str, str]:
    """Return the name of the pod that has replaced each pod on a lost node, by the lost pod's key in the state."""
    return {
        member.replaces: member.called
        for member in state.members()
        if member.replaces in state.pods and state.pods[member.replaces].presence == "Unknown" and not member.leaving
    }


def _wanted_node(state: WorkloadState, pod: KnownPod) -> str:
    """Return the node that a pod must be on; "" = any."""
    return pod.bound or str(state.templates.get(pod.revision, {}).get("spec", {}).get("nodeName") or "")


def _is_ready(pod: KnownPod) -> bool:
    return pod.ready_at is not None and pod.presence == "Ready"
