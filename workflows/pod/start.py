"""How a run begins: from a Pod document, or from the snapshot of the run before.

Runs in ``__init__`` of the workflow, before any signal handler: whatever a handler touches exists by then.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from syncpod.messages import pod_workflow_id
from syncpod.pod import ObjectMeta, PodInvalid, PodStatus, admit, parse_pod, readmit
from workflows.pod.state import PodState


class Adoption(BaseModel):
    """What a start says of a pod that runs already, made for a workflow that is not there; typed by a person perhaps.

    All of it is in the pod's record on its node.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    incarnation: str = Field(min_length=1)
    """Which life of the pod is to go on, as its sandbox is annotated."""


def begin(
    start: Any, workflow_id: str, now: datetime, uuid4: Callable[[], UUID], task_queue: str, *, replaying: bool
) -> tuple[PodState, str]:
    """Return the state a run begins with, and "" or the sentence that says why it cannot begin.

    `start` is ``{"pod": <v1 Pod>}``, typed by a person and so checked strictly, or ``{"snapshot": …}``, our own. A pod
    without a UID gets one; `uuid4` must be the workflow's. `replaying` says that an earlier worker has begun this run:
    the pod was admitted then, and a version that takes less may not refuse it now. Never raises.

    With ``"adopt": {"incarnation": "…"}`` beside it the pod runs already: it keeps its UID and goes on in that life.
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
        return state, ""
    if "pod" not in start:
        return PodState(), "pod: required"
    try:
        adoption = Adoption.model_validate(start["adopt"]) if "adopt" in start else None
        # What is adopted was admitted when it was applied, perhaps by a version that took more.
        admission = (readmit if replaying or adoption is not None else admit)(start["pod"])
    except PodInvalid as wrong:
        return PodState(), str(wrong)
    except ValidationError as wrong:
        return PodState(), _adoption_problem(wrong)
    pod = admission.pod
    meta = pod.metadata.model_copy(update={"creation_timestamp": now.replace(microsecond=0), "generation": 1})
    if adoption is not None:
        meta = _as_recorded(meta, start["pod"])
        if not meta.uid:
            return PodState(), "pod.metadata.uid: required with adopt: that of the pod that runs"
    expected = pod_workflow_id(meta.namespace, meta.name)
    if workflow_id != expected:
        return PodState(), f"workflow id: must be {expected} for this pod, is {workflow_id}"
    node = task_queue.removeprefix("node/")
    if pod.spec.node_name and pod.spec.node_name != node:
        return PodState(), f"spec.nodeName: is {pod.spec.node_name}, but the task queue is that of node {node}"
    meta = meta.model_copy(update={"uid": meta.uid or str(uuid4())})
    spec = pod.spec.model_copy(update={"node_name": node})
    state = PodState(
        incarnation=adoption.incarnation if adoption is not None else uuid4().hex[:16],
        adopting=adoption is not None,
        pod=pod.model_copy(update={"metadata": meta, "spec": spec}),
    )
    if adoption is None:
        for warning in admission.warnings:
            state.event(now, "Warning", "Ignored", str(warning))
        state.note(now, "update", "apply", "generation 1")
    else:
        # As far as is known; a deadline of the pod has been running since.
        state.status = PodStatus(start_time=meta.creation_timestamp)
        state.event(now, "Normal", "Adopted", "Its workflow was started anew, for what runs of it already")
        state.note(now, "update", "adopt", f"generation {meta.generation}")
    state.max_events = start.get("maxEvents", 0) if isinstance(start.get("maxEvents", 0), int) else 0
    return state, ""


def _as_recorded(meta: ObjectMeta, document: Any) -> ObjectMeta:
    """Return the metadata with what admission takes from a pod of another cluster, and this one keeps: its own."""
    said = parse_pod(document, strict=False).metadata
    return meta.model_copy(
        update={
            "uid": said.uid,
            "creation_timestamp": said.creation_timestamp or meta.creation_timestamp,
            "generation": said.generation or meta.generation,
        }
    )


def _adoption_problem(wrong: ValidationError) -> str:
    """Say what is wrong with `adopt`, by its path."""
    problem = wrong.errors(include_url=False, include_input=False)[0]
    path = ".".join(("adopt", *(str(part) for part in problem["loc"])))
    match problem["type"]:
        case "missing":
            return f"{path}: required"
        case "extra_forbidden":
            return f"{path}: unknown field"
        case "string_too_short" | "string_type":
            return f"{path}: must be the incarnation in the pod's record, a string"
    return f'{path}: must be {{"incarnation": "…"}}'


def by_update(start: Any) -> bool:
    """Say whether the run was started together with an update, whose caller hears of a refusal."""
    return isinstance(start, dict) and bool(start.get("byUpdate"))


def snapshot(state: PodState) -> dict[str, Any]:
    """Return what the next run begins with; JSON-able."""
    return state.model_dump(mode="json", exclude_defaults=True)
