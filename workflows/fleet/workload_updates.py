"""Updates of a workload: it is applied, rolled back, restarted, paused and deleted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from pydantic import TypeAdapter

from syncpod.fleet import revisions
from syncpod.fleet.workload_documents import RESTARTED_AT
from syncpod.fleet.workload_pods import owner_of, revision_of
from syncpod.fleet.workload_traits import PAUSABLE, one_of
from syncpod.fleet.workloads import Workload, admit_workload, kind_of
from syncpod.messages.command_table import Nothing
from syncpod.messages.fleet_commands import APPLY, DELETE, PAUSE, ROLLOUT_RESTART, UNDO
from syncpod.messages.workload import Pause, RolloutRestart, Undo, Undone
from syncpod.pod.wire import Time, to_wire
from workflows.effects import Effect, effects
from workflows.fleet.workload_state import WorkloadState
from workflows.rejections import Rejected

_PAUSED: Final = "it is paused, so nothing would be rolled out: resume it first with `syncpod fleet rollout resume`"
_DELETING: Final = "it is being deleted; apply it again when it is gone"
_ROLLED_BACK: Final = (
    "its newest template was rolled back: take the last good one for it first, with `syncpod fleet rollout undo`"
)
_TIME: Final[TypeAdapter[datetime]] = TypeAdapter(Time)


def apply(state: WorkloadState, workflow_id: str, document: Any, now: datetime) -> tuple[str, ...]:
    """Adopt a document; return warnings for its author. Raises PodInvalid or Rejected, and then changes nothing."""
    if state.deleting:
        raise Rejected(_DELETING)
    workload, warnings = admit_workload(document)
    if owner_of(workload) != workflow_id:
        raise Rejected(f"must be {workflow_id}, is {owner_of(workload)}")
    _require_same(state, workload)
    template, wire = kind_of(workload).template(workload), to_wire(workload)
    revision = revision_of(template)
    if wire != state.document:
        state.document, state.applied_at = wire, state.applied_at or now
        state.templates[revision] = to_wire(template)
        _note_revision(state, workload, revision, now)
        state.event(now, "Normal", "Applied", f"template {revision} is wanted")
    return tuple(str(warning) for warning in warnings)


def _note_revision(state: WorkloadState, workload: Workload, template: str, now: datetime) -> None:
    """Make a template the newest revision, and forget the oldest ones."""
    if not state.has_template:
        return
    cause = workload.metadata.annotations.get(revisions.CHANGE_CAUSE, "")
    history = revisions.applied(state.history, template, cause, now)
    limit = (state.document or {})["spec"].get("revisionHistoryLimit")
    sizes = {named: len(json.dumps(each)) for named, each in state.templates.items()}
    state.history = revisions.shortened(
        history, revisions.DEFAULT_LIMIT if limit is None else limit, sizes, {state.rollout.good, state.rollout.target}
    )


def undo(state: WorkloadState, workflow_id: str, asked: Undo, now: datetime) -> Undone:
    """Apply the template of an earlier revision again. Raises Rejected, and then changes nothing.

    Mirrors pkg/polymorphichelpers/rollback.go of kubectl, v1.36.
    """
    if not state.has_template:
        raise Rejected("it has no revisions")
    if state.deleting:
        raise Rejected(_DELETING)
    if state.is_paused:
        raise Rejected(_PAUSED)
    try:
        found = revisions.chosen(state.history, asked.to_revision, asked.template)
    except revisions.NoRevision as none:
        raise Rejected(str(none)) from None
    if found.template == state.asked_for():
        return Undone(revision=found.number, template=found.template, skipped=True)
    document = dict(state.document or {})
    meta = dict(document.get("metadata") or {})
    annotations = {**(meta.get("annotations") or {}), revisions.CHANGE_CAUSE: found.cause}
    meta["annotations"] = {name: text for name, text in annotations.items() if text or name != revisions.CHANGE_CAUSE}
    spec = {**document["spec"], "template": state.templates[found.template]}
    apply(state, workflow_id, {**document, "metadata": meta, "spec": spec}, now)
    text = f"template {found.template} of revision {found.number} is wanted again"
    state.event(now, "Normal", f"{document['kind']}Rollback", text)
    return Undone(revision=found.number, template=found.template)


def restart(state: WorkloadState, workflow_id: str, asked: RolloutRestart, now: datetime) -> None:
    """Replace all pods, by a template that differs in an annotation. Raises Rejected, and then changes nothing.

    Mirrors pkg/polymorphichelpers/objectrestarter.go of kubectl, v1.36.
    """
    if not state.has_template:
        raise Rejected("it has no template: delete the pod, and apply it again")
    if state.deleting:
        raise Rejected(_DELETING)
    if state.is_paused:
        raise Rejected(_PAUSED)
    if state.rollout.rolled_back and state.rollout.asked == state.asked_for():
        raise Rejected(_ROLLED_BACK)
    try:
        _TIME.validate_python(asked.at)
    except ValueError:
        raise Rejected(f"at: must be an RFC 3339 time such as 2026-01-31T12:00:00Z, is {asked.at[:64]!r}") from None
    document: dict[str, Any] = dict(state.document or {})
    template = dict(document["spec"]["template"])
    meta = dict(template.get("metadata") or {})
    template["metadata"] = {**meta, "annotations": {**(meta.get("annotations") or {}), RESTARTED_AT: asked.at}}
    apply(state, workflow_id, {**document, "spec": {**document["spec"], "template": template}}, now)


def pause(state: WorkloadState, asked: Pause, now: datetime) -> None:
    """Pause the workload's rollouts, or resume them. Raises Rejected, and then changes nothing."""
    if state.traits is None or not state.traits.is_pausable:
        raise Rejected(f"only the rollouts of a {one_of(PAUSABLE)} can be paused")
    if state.deleting:
        raise Rejected("it is being deleted")
    if asked.paused == state.is_paused:
        return
    state.paused = asked.paused
    if not asked.paused and state.document is not None and state.document["spec"].get("paused"):
        state.document = {**state.document, "spec": {**state.document["spec"], "paused": False}}
    word, text = ("Paused", "no other template is rolled out") if asked.paused else ("Resumed", "rollouts go on")
    state.event(now, "Normal", f"{state.traits.name}{word}", text)


def _require_same(state: WorkloadState, workload: Workload) -> None:
    """Refuse changes of fields that cannot change. Raises Rejected."""
    before = state.workload()
    if before is not None and (why := kind_of(workload).fixed(before, workload, state.situation())):
        raise Rejected(why)


def delete(state: WorkloadState, now: datetime) -> None:
    """Note that the workload, with all its pods, is being deleted."""
    if not state.deleting:
        state.deleting = True
        state.event(now, "Normal", "Deleting", f"{len(state.pods)} pods are being removed")


def updates_of(owner: str) -> Mapping[str, Effect[WorkloadState, Any, dict[str, Any]]]:
    """Return the effect and the answer of each update of the workload with this workflow id."""

    def do_apply(state: WorkloadState, document: Any, now: datetime) -> dict[str, Any]:
        return {"warnings": list(apply(state, owner, document, now))}

    def do_undo(state: WorkloadState, asked: Undo, now: datetime) -> dict[str, Any]:
        return undo(state, owner, asked, now).model_dump(mode="json", by_alias=True)

    def do_restart(state: WorkloadState, asked: RolloutRestart, now: datetime) -> dict[str, Any]:
        restart(state, owner, asked, now)
        return {}

    def do_pause(state: WorkloadState, asked: Pause, now: datetime) -> dict[str, Any]:
        pause(state, asked, now)
        return {}

    def do_delete(state: WorkloadState, _: Nothing, now: datetime) -> dict[str, Any]:
        delete(state, now)
        return {"pods": len(state.pods)}

    return effects(
        Effect(APPLY, do_apply),
        Effect(UNDO, do_undo),
        Effect(ROLLOUT_RESTART, do_restart),
        Effect(PAUSE, do_pause),
        Effect(DELETE, do_delete),
    )
