"""Changes of what a fleet wants on a node, and what the node answers, folded into its state."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

from syncpod.messages.fleet import OWNER_ANNOTATION, Attended, Intent, IntentTaken, Place, Withdraw
from syncpod.messages.fleet_objects import ObjectsSealed
from syncpod.messages.node import KEPT_BYTES, LIST_LIMIT
from syncpod.pod import PodInvalid, admit, pod_to_wire
from workflows.fleet.node_state import FleetNodeState, Placed, Withdrawn, key_of
from workflows.rejections import Rejected

PLACED_LIMIT: Final = 1000
"""How many pods a fleet can place on one node."""


def change(state: FleetNodeState, name: str, args: tuple[Any, ...], now: datetime) -> None:
    """Fold one update into the state. If it raises Rejected, PodInvalid or ValidationError, it has changed nothing."""
    if name in ("cordon", "uncordon", "drain"):
        _schedulable(state, name == "uncordon", now)
        _drain(state, name, now)
        return
    if len(args) != 1 or not isinstance(args[0], dict):
        raise Rejected(f"takes one object, got {len(args)} payloads")
    if name == "place":
        _place(state, Place.model_validate(args[0], extra="forbid"), now)
    else:
        asked = Withdraw.model_validate(args[0], extra="forbid")
        _withdraw(state, asked, now)
        if asked.force:
            _forget(state, asked, now)


def _place(state: FleetNodeState, asked: Place, now: datetime) -> None:
    """Add pods, or change those that are placed already.

    Several workflows place pods here, each by what it last saw of the node. So what no longer holds is refused, and
    the owner looks for another node.
    """
    documents = [_admitted(each, asked.owner, at) for at, each in enumerate(asked.pods)]
    keys = [key_of(each) for each in documents]
    new = [key for key in keys if key not in state.placed]
    if len(set(keys)) < len(keys):
        raise Rejected("pods: must have different names")
    if new and state.presence != "Ready":
        raise Rejected(f"node {state.name} is {state.presence}, and takes no new pods")
    if new and (state.unschedulable or state.report.unschedulable):
        raise Rejected(f"node {state.name} is cordoned, and takes no new pods")
    for key in keys:
        if (owner := state.owner_of(key)) and owner != asked.owner:
            raise Rejected(f"pod {key} is there already, and belongs to {owner}")
        if key in state.withdrawn:
            raise Rejected(f"pod {key} is still ending on node {state.name}")
    changed = {
        key: document
        for key, document in zip(keys, documents, strict=True)
        if key not in state.placed or state.placed[key].document != document or state.placed[key].recalled
    }
    _require_room(state, changed)
    if not changed:
        return
    state.generation += 1
    for key, document in changed.items():
        state.placed[key] = Placed(document=document, generation=state.generation)
        state.refused.pop(key, None)
        state.note(key)
    state.event(now, "Normal", "Placed", f"{_named(changed)} by {asked.owner or 'hand'}")


def _admitted(document: Any, owner: str, at: int) -> dict[str, Any]:
    try:
        wire = pod_to_wire(admit(document).pod)
    except PodInvalid as wrong:
        raise Rejected(f"pods[{at}]: {wrong}") from None
    if owner:
        meta = wire["metadata"]
        meta["annotations"] = {**(meta.get("annotations") or {}), OWNER_ANNOTATION: owner}
    return wire


def _require_room(state: FleetNodeState, changed: dict[str, dict[str, Any]]) -> None:
    after = {key: placed.document for key, placed in state.placed.items()} | changed
    if len(after) > PLACED_LIMIT:
        raise Rejected(f"node {state.name} would have {len(after)} pods; a fleet places at most {PLACED_LIMIT} on one")
    if sum(len(json.dumps(each, separators=(",", ":"))) + KEPT_BYTES for each in after.values()) > LIST_LIMIT:
        raise Rejected(f"the pods of node {state.name} would be more than {LIST_LIMIT} bytes of JSON together")


def _withdraw(state: FleetNodeState, asked: Withdraw, now: datetime) -> None:
    """Have the node end pods. Pods that are not placed here are left out."""
    keys = [key for each in asked.pods if (key := f"{each.namespace}/{each.name}") in state.placed]
    if not keys:
        return
    state.generation += 1
    for key in keys:
        _end(state, key, asked.reason)
    state.event(now, "Normal", "Withdrawn", f"{_named(keys)}" + (f": {asked.reason}" if asked.reason else ""))


def _forget(state: FleetNodeState, asked: Withdraw, now: datetime) -> None:
    """Take pods for gone, whatever the node says of them. It still ends them when it takes the list without them."""
    keys = [f"{each.namespace}/{each.name}" for each in asked.pods]
    keys = [key for key in keys if key in state.withdrawn]
    for key in keys:
        owner = state.withdrawn.pop(key).owner
        state.pods.pop(key, None)
        state.note(key, owner)
    if keys:
        text = f"{_named(keys)}, though the node has not said that nothing of it runs"
        state.event(now, "Warning", "ForcedDeletion", text)


def _end(state: FleetNodeState, key: str, why: str) -> None:
    """No longer want a pod. Until the node says that it is gone, it may still run there."""
    placed = state.placed.pop(key)
    state.refused.pop(key, None)
    state.withdrawn[key] = Withdrawn(owner=placed.owner, why=why, generation=state.generation)
    state.note(key)


def _schedulable(state: FleetNodeState, schedulable: bool, now: datetime) -> None:
    if state.unschedulable == (not schedulable):
        return
    state.unschedulable = not schedulable
    reason = "NodeSchedulable" if schedulable else "NodeNotSchedulable"
    state.event(now, "Normal", reason, f"Node {state.name} status is now: {reason}")


def _drain(state: FleetNodeState, name: str, now: datetime) -> None:
    """Have owners move their pods elsewhere, or no longer. A cordon alone changes nothing of that."""
    draining = name == "drain" or (name == "cordon" and state.draining)
    if draining != state.draining:
        state.draining = draining
        state.note_all()
        text = "its pods are to run elsewhere" if draining else "what is left of its pods stays"
        state.event(now, "Normal", "Draining" if draining else "DrainingEnded", text)


# --- what the node answers --------------------------------------------------------------------------------------------


def recalled(state: FleetNodeState, told: Intent, now: datetime, *, counts: bool) -> None:
    """Take what the node was last given. `counts`: it is newer than what the fleet remembers, and replaces it."""
    theirs = {key: document for document in told.pods if (key := key_of(document))}
    if counts:
        for key in [key for key in state.placed if key not in theirs]:
            owner = state.placed.pop(key).owner
            state.note(key, owner)
    state.generation = max(state.generation, told.generation) + 1
    new = [key for key in theirs if counts or key not in state.placed]
    for key in new:
        state.withdrawn.pop(key, None)
        state.placed[key] = Placed(document=theirs[key], generation=told.generation, recalled=True)
        state.note(key)
    state.is_recalled = True
    if new:
        text = f"the node has {_named(new)} from this fleet, which did not remember them: they stay"
        state.event(now, "Warning", "Recalled", text)


def taken(state: FleetNodeState, answer: IntentTaken, now: datetime) -> None:
    """Take the node's word that it has an intent."""
    state.taken, state.trouble = max(state.taken, answer.generation), ""
    refused = {key: why for key, why in answer.refused.items() if key in state.placed}
    for key in refused.keys() ^ state.refused.keys():
        state.note(key)
    for key in refused.keys() - state.refused.keys():
        state.event(now, "Warning", "RefusedPod", f"{key}: {refused[key]}")
    state.refused = refused
    for key, why in answer.objects.items():
        if state.objects_refused.get(key) != why:
            state.event(now, "Warning", "RefusedObject", f"{key}: {why}")
    state.objects_refused = dict(answer.objects)


def object_changed(state: FleetNodeState, key: str) -> None:
    """Have the node given its list anew if its pods refer to an object, which is another now, or gone."""
    if key in state.referred:
        state.generation += 1


def sealed(state: FleetNodeState, answer: ObjectsSealed, now: datetime) -> None:
    """Note what the node's pods refer to, and what there is no room for."""
    state.referred = answer.referred
    if answer.left_out:
        text = f"its pods refer to more than fits into its list: {', '.join(answer.left_out)} are left out"
        state.event(now, "Warning", "TooManyObjects", text)


def attended(state: FleetNodeState, answer: Attended, now: datetime) -> None:
    """Take the node's report."""
    state.version = answer.version
    if answer.node is not None:
        state.report = answer.node
        state.joined = state.joined or now
    before = state.presence
    if state.joined is not None and state.set_presence("Ready" if state.report.ready else "NotReady", now):
        _say_presence(state, before, now)
    told = {each.key: each for each in answer.pods}
    gone = {f"{each.namespace}/{each.name}" for each in answer.gone}
    if answer.present is not None:
        gone |= state.pods.keys() - {f"{each.namespace}/{each.name}" for each in answer.present}
    for key in [*gone, *(key for key, report in told.items() if state.pods.get(key) != report)]:
        state.note(key)
    state.pods = {key: report for key, report in (state.pods | told).items() if key not in gone}
    for key in [key for key, each in state.withdrawn.items() if each.generation <= answer.generation]:
        # The report was made after the node had taken the withdrawal: what it does not have has ended.
        if key not in state.pods and key not in still(answer):
            state.note(key)
            del state.withdrawn[key]


def still(answer: Attended) -> set[str]:
    """Return the pods that a report says are on the node, though it may have nothing new of them."""
    return {f"{each.namespace}/{each.name}" for each in answer.present or ()}


def silent(state: FleetNodeState, now: datetime) -> None:
    """Note that nothing has been heard of the node for its grace."""
    before = state.presence
    if state.set_presence("Unknown", now):
        text = f"nothing has been heard of the node for {state.grace:g} s; it was {before}"
        state.event(now, "Warning", "NodeNotReady", text)


def _say_presence(state: FleetNodeState, before: str, now: datetime) -> None:
    why = "; ".join(each.message for each in state.report.conditions if each.type == "Ready" and not state.report.ready)
    kind, reason = ("Normal", "NodeReady") if state.report.ready else ("Warning", "NodeNotReady")
    text = f"the node is {state.presence}; it was {before}" + (f": {why}" if why else "")
    state.event(now, kind, reason, text)  # type: ignore[arg-type]


def _named(keys: Iterable[str]) -> str:
    """Return pods as people read them: up to five by name."""
    names = sorted(keys)
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return f"pods {', '.join(names[:5])}{more}" if len(names) > 1 else f"pod {names[0]}"
