"""How a run begins: with a Pod document, or with the snapshot of the run before.

The workflow calls this in ``__init__``, before any signal handler, so everything that a handler touches exists by then.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final
from uuid import NAMESPACE_OID, UUID, uuid5

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from syncpod.journal.records import WORKFLOW, Fact
from syncpod.lifecycle.observed import Number
from syncpod.lifecycle.version import is_superseded, too_old
from syncpod.messages.fleet import is_placed
from syncpod.messages.identity import pod_workflow_id
from syncpod.messages.pod_card import Readoption, readoption_in
from syncpod.messages.queries import clipped
from syncpod.pod import Admission, ObjectMeta, Pod, PodInvalid, PodStatus, parse_pod, readmit
from syncpod.pod.model_errors import first_problem
from syncpod.pod.support import is_of_placement
from workflows.pod.desired import admitted
from workflows.pod.state import PodState
from workflows.restarted import CannotBeginAnew, Restarted, restarted


class Adoption(BaseModel):
    """The start input for a pod that already runs but has lost its workflow; a person may have typed it.

    All of it is in the pod's record on its node.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    incarnation: str = Field(min_length=1)
    """The id of the life that goes on; the sandbox's annotation names it."""


_RESTARTS: Final = TypeAdapter(dict[str, Number])


def ids_of_run(original_run_id: str) -> Callable[[], UUID]:
    """Return a function whose n-th call gives a run's n-th id, given the run id in the run's first event.

    Hazard: the SDK's own random numbers change if a run is reset to before its first task. The pod would then become
    another life, and all of its containers would run again.
    """
    numbers = itertools.count()
    return lambda: uuid5(NAMESPACE_OID, f"{original_run_id}/{next(numbers)}")


def initial_state(
    start: Any,
    workflow_id: str,
    now: datetime,
    uuid4: Callable[[], UUID],
    task_queue: str,
    *,
    decisions: int,
    memo: object = None,
) -> tuple[PodState, str]:
    """Return the state that a run begins with, and why the run cannot begin; "" if it can.

    `start` is ``{"pod": <v1 Pod>}``, which a person may have typed, so it is checked strictly; or the result of
    :func:`next_input`. A pod without a UID gets one from `uuid4`, and so does its incarnation. `decisions` is the
    version of the run's decisions.

    ``"adopt": {"incarnation": "…"}`` beside the pod means that the pod runs already: it keeps its UID and its
    incarnation. The run's `memo` may say how the pod's previous workflow has ended.

    ``"restarted"`` in the input means that the run replaces a run that could not go on. Raises CannotBeginAnew if such
    a run cannot begin: its task fails, and the agent tries another start. If the run ended, the node would kill the
    pod.
    """
    if refusal := too_old(decisions):
        return PodState(), refusal
    if not isinstance(start, dict):
        return PodState(), 'input: must be {"pod": <v1 Pod>}'
    try:
        if "snapshot" in start:
            state = _continued(start, workflow_id)
        else:
            state, admission = _new(start, workflow_id, now, uuid4, task_queue, decisions)
            _record_origin(state, admission, now, readoption_in(memo))
    except (_Refused, PodInvalid) as wrong:
        if "restarted" in start:
            raise CannotBeginAnew(str(wrong)) from None
        return PodState(), str(wrong)
    state.decision_version = decisions
    if (replaced := restarted(start)) is not None:
        _record_restart(state, replaced, now)
    return state, ""


def _record_restart(state: PodState, replaced: Restarted, now: datetime) -> None:
    """Record that the workflow was begun anew, and why."""
    state.event(now, "Warning", "WorkflowRestarted", replaced.sentence)
    state.note(now, "update", "workflow restarted", clipped(replaced.sentence))
    # The new run has the search attributes that it was started with, not those that the run before had written.
    state.written = {}


_NAME: Final = 40
_NAMES: Final = 3
"""The most names of unknown fields that a refusal quotes, each cut to _NAME characters."""


class _Refused(Exception):
    """A run cannot begin; the text says why, in one sentence."""


def _continued(start: dict[str, Any], workflow_id: str) -> PodState:
    """Return the state that the previous run has left. Raises _Refused."""
    written_by = start.get("decisions")
    if refusal := too_old(written_by if type(written_by) is int else 0):
        raise _Refused(f"snapshot: {refusal}")
    try:
        state = PodState.model_validate(start["snapshot"])
    except ValueError as wrong:
        raise _Refused(f"snapshot: {wrong}") from None
    ref = state.ref
    if workflow_id != pod_workflow_id(ref.namespace, ref.name) or not (ref.uid and ref.incarnation):
        raise _Refused(f"snapshot: does not belong to {workflow_id}")
    return state


def _new(
    start: dict[str, Any], workflow_id: str, now: datetime, uuid4: Callable[[], UUID], task_queue: str, decisions: int
) -> tuple[PodState, Admission]:
    """Return the state of a pod that has no run yet, and its admission. Raises _Refused and PodInvalid."""
    if "pod" not in start:
        others = "".join(f"; {name[:_NAME]}: unknown field" for name in sorted(map(str, start))[:_NAMES])
        raise _Refused(f"pod: required{others}")
    if not isinstance(start["pod"], dict):
        raise _Refused("pod: must be an object, a v1 Pod")
    adoption = _adoption(start)
    # An adopted pod was admitted when it was applied. The pod of a run with older decisions was admitted when that run
    # began. Rules that have become stricter since then do not apply to these pods.
    # Replay: the version of the run decides, which is the same in each replay.
    was_admitted = adoption is not None or is_superseded(decisions)
    admission = (readmit if was_admitted else admitted)(start["pod"])
    meta = admission.pod.metadata
    begun = {"creation_timestamp": now.replace(microsecond=0), "generation": meta.generation or 1}
    meta = meta.model_copy(update=begun)
    if adoption is not None:
        meta = _as_recorded(meta, start["pod"])
        if not meta.uid:
            raise _Refused("pod.metadata.uid: required with adopt: that of the pod that runs")
    node = task_queue.removeprefix("node/")
    _check_place(admission.pod, workflow_id, node)
    meta = meta.model_copy(update={"uid": meta.uid or str(uuid4())})
    spec = admission.pod.spec.model_copy(update={"node_name": node})
    max_events = start.get("maxEvents", 0)
    state = PodState(
        incarnation=adoption.incarnation if adoption is not None else uuid4().hex[:16],
        adopting=adoption is not None,
        pod=admission.pod.model_copy(update={"metadata": meta, "spec": spec}),
        max_events=max_events if isinstance(max_events, int) else 0,
        restarts=_counted(start),
    )
    return state, admission


def _counted(start: dict[str, Any]) -> dict[str, int]:
    """Return the restarts of each container in an earlier life of the pod (`desired.successor_of`).

    Raises _Refused for an invalid number, since a person may have typed the input.
    """
    try:
        return _RESTARTS.validate_python(start.get("restarts", {}), strict=True)
    except ValidationError:
        raise _Refused('restarts: must be {"<container>": <a number from 0 to 2147483646>}') from None


def _adoption(start: dict[str, Any]) -> Adoption | None:
    """Return how the start adopts a pod that runs already; None if it adopts none. Raises _Refused."""
    try:
        return Adoption.model_validate(start["adopt"]) if "adopt" in start else None
    except ValidationError as wrong:
        raise _Refused(str(first_problem(wrong, "adopt"))) from None


def _check_place(pod: Pod, workflow_id: str, node: str) -> None:
    """Raise _Refused if the pod belongs to another workflow or to another node."""
    expected = pod_workflow_id(pod.metadata.namespace, pod.metadata.name)
    if workflow_id != expected:
        raise _Refused(f"workflow id: must be {expected} for this pod, is {workflow_id}")
    if pod.spec.node_name and pod.spec.node_name != node:
        raise _Refused(f"spec.nodeName: is {pod.spec.node_name}, but the task queue is that of node {node}")


OF_SCHEDULE: Final = (
    "a schedule can start no pod, since it adds the time to the workflow's id: have cron run `syncpod apply -f FILE` "
    "or send the update `apply`, as docs/temporal.md shows"
)


def is_of_schedule(workflow_id: str) -> bool:
    """Say whether a schedule has started the workflow: a schedule appends a time to the id, unlike any pod's name."""
    return re.search(r"-\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$", workflow_id) is not None


def _record_origin(state: PodState, admission: Admission, now: datetime, readoption: Readoption) -> None:
    """Record how the pod came to this workflow: applied, adopted, or to be pruned."""
    meta = state.pod.metadata
    if not state.adopting:
        placed = is_placed(meta.annotations)
        for warning in admission.warnings:
            if not (placed and is_of_placement(warning)):
                state.event(now, "Warning", "Ignored", str(warning))
        state.note(now, "update", "apply", f"generation {meta.generation}", fact=Fact.MADE)
        return
    # The earliest known time; the pod's active deadline counts from it.
    state.status = PodStatus(start_time=meta.creation_timestamp)
    purpose = "to end its running containers" if readoption.ends else "for its running containers"
    state.event(now, "Normal", "Adopted", f"Its workflow was started anew, {purpose}")
    if readoption.why:
        state.note(now, "update", WORKFLOW, readoption.why.removeprefix("its workflow "))
    subject, why = ("prune", "") if readoption.ends else ("adopt", f"generation {meta.generation}")
    state.note(now, "update", subject, why, fact=Fact.MADE)


def _as_recorded(meta: ObjectMeta, document: Any) -> ObjectMeta:
    """Return the metadata with the fields that admission drops but an adopted pod keeps: UID, creation, generation."""
    said = parse_pod(document, strict=False).metadata
    return meta.model_copy(
        update={
            "uid": said.uid,
            "creation_timestamp": said.creation_timestamp or meta.creation_timestamp,
            "generation": said.generation or meta.generation,
        }
    )


def by_update(start: Any) -> bool:
    """Say whether the run was started together with an update; then the update's caller gets the refusal."""
    return isinstance(start, dict) and bool(start.get("byUpdate"))


def is_new_by_update(start: Any) -> bool:
    """Say whether the run was started for a new pod, together with the pod's apply."""
    return by_update(start) and not {"snapshot", "adopt", "restarted"} & start.keys()


def snapshot(state: PodState) -> dict[str, Any]:
    """Return the state as JSON, without fields that have their defaults."""
    return state.model_dump(mode="json", exclude_defaults=True)


LARGEST: Final = 1536 * 1024
"""How many bytes of JSON a snapshot may have: the server takes 2 MiB in one payload, and encryption adds to it."""
_MANY_TEXTS: Final = 32 * 1024
"""A snapshot is measured only if its records have more characters than this; fewer take at most 384 KiB as JSON."""
_RECORDS_LEFT: Final = (50, 10, 0)
"""How many events and lines of history a too large snapshot keeps: the first number with which it fits."""


def next_input(state: PodState) -> dict[str, Any]:
    """Return the input of the run that follows this one.

    A snapshot that is too large for the server loses its oldest records, which the node's journal keeps. Only a pod of
    hundreds of containers has such a snapshot.
    """
    taken = snapshot(state)
    if sum(len(each.message) for each in state.events) + sum(len(each.reason) for each in state.history) > _MANY_TEXTS:
        for left in _RECORDS_LEFT:
            if len(json.dumps(taken, separators=(",", ":"))) <= LARGEST:
                break
            newest = {"events": state.events[-left:] if left else (), "history": state.history[-left:] if left else ()}
            taken = snapshot(state.model_copy(update=newest))
    return {"snapshot": taken, "decisions": state.decision_version}
