"""How a run begins: from a Pod document, or from the snapshot of the run before.

Runs in ``__init__`` of the workflow, before any signal handler: whatever a handler touches exists by then.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any
from uuid import UUID

from syncpod.lifecycle.version import DECISION_VERSION
from syncpod.messages import pod_workflow_id
from syncpod.pod import PodInvalid, admit, readmit
from workflows.state import PodState


def begin(
    start: Any, workflow_id: str, now: datetime, uuid4: Callable[[], UUID], task_queue: str, *, replaying: bool
) -> tuple[PodState, str]:
    """Return the state a run begins with, and "" or the sentence that says why it cannot begin.

    `start` is ``{"pod": <v1 Pod>}``, typed by a person and so checked strictly, or ``{"snapshot": …}``, our own. A pod
    without a UID gets one; `uuid4` must be the workflow's. `replaying` says that an earlier worker has begun this run:
    the pod was admitted then, and a version that takes less may not refuse it now. Never raises.
    """
    if not isinstance(start, dict):
        return PodState(), 'input: must be {"pod": <v1 Pod>}'
    if "snapshot" in start:
        try:
            state = PodState.model_validate(start["snapshot"])
        except ValueError as wrong:
            return PodState(), f"snapshot: {wrong}"
        ref = state.ref
        if workflow_id != pod_workflow_id(ref.namespace, ref.name) or not (ref.uid and ref.incarnation):
            return PodState(), f"snapshot: is none of {workflow_id}"
        state.decision_version = DECISION_VERSION
        return state, ""
    if "pod" not in start:
        return PodState(), "pod: required"
    try:
        admission = (readmit if replaying else admit)(start["pod"])
    except PodInvalid as wrong:
        return PodState(), str(wrong)
    pod = admission.pod
    meta = pod.metadata
    expected = pod_workflow_id(meta.namespace, meta.name)
    if workflow_id != expected:
        return PodState(), f"workflow id: must be {expected} for this pod, is {workflow_id}"
    node = task_queue.removeprefix("node/")
    if pod.spec.node_name and pod.spec.node_name != node:
        return PodState(), f"spec.nodeName: is {pod.spec.node_name}, but the task queue is that of node {node}"
    meta = meta.model_copy(
        update={"uid": meta.uid or str(uuid4()), "creation_timestamp": now.replace(microsecond=0), "generation": 1}
    )
    spec = pod.spec.model_copy(update={"node_name": node})
    state = PodState(incarnation=uuid4().hex[:16], pod=pod.model_copy(update={"metadata": meta, "spec": spec}))
    for warning in admission.warnings:
        state.event(now, "Warning", "Ignored", str(warning))
    state.note(now, "update", "apply", "generation 1")
    state.max_events = start.get("maxEvents", 0) if isinstance(start.get("maxEvents", 0), int) else 0
    return state, ""


def by_update(start: Any) -> bool:
    """Say whether the run was started together with an update, whose caller hears of a refusal."""
    return isinstance(start, dict) and bool(start.get("byUpdate"))


def snapshot(state: PodState) -> dict[str, Any]:
    """Return what the next run begins with; JSON-able."""
    return state.model_dump(mode="json", exclude_defaults=True)
