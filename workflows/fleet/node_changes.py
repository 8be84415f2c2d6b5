"""The updates of a fleet's node and the node's answers, both folded into the state of its workflow."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from syncpod.messages.command_table import Nothing
from syncpod.messages.fleet import (
    LIFE_LIMIT,
    MACHINE_LIMIT,
    OWNER_ANNOTATION,
    Attended,
    Intent,
    IntentTaken,
    Place,
    Spoken,
    Withdraw,
)
from syncpod.messages.fleet_commands import (
    CORDON,
    DRAIN,
    KEY_CHANGED,
    OBJECT_CHANGED,
    PLACE,
    REMOVE,
    UNCORDON,
    WITHDRAW,
)
from syncpod.messages.fleet_objects import FleetObjectRef, ObjectsSealed
from syncpod.messages.node import KEPT_BYTES, LIST_LIMIT
from syncpod.messages.signed import microseconds
from syncpod.pod import PodInvalid, admit, pod_to_wire
from workflows.effects import Effect, effects
from workflows.event_log import clipped
from workflows.fleet.claimed_pods import ClaimedPods
from workflows.fleet.lives import FORGOTTEN_AFTER, Lives
from workflows.fleet.node_state import FleetNodeState, Placed, Withdrawn, key_of
from workflows.rejections import Rejected

PLACED_LIMIT: Final = 1000
"""The most pods that a fleet places on one node."""
ENDING_LIMIT: Final = PLACED_LIMIT
"""The most pods that may be ending on a node, in addition to the placed ones: a stolen node might never end them."""
FORGIVEN_AFTER: Final = timedelta(minutes=15)
"""If a node has announced no newer list for this long, the next list that it announces is requested at once. It is
three times the longest pause before such a request."""
LAST_GENERATION: Final = 2**53
"""The largest generation and stamp accepted from a node: numbers of more than 4,300 digits cannot be written."""
SENT: Final = 64
"""How many stamps of unanswered lists are kept: this many of the first, and as many of the last. The lists between were
sent while the node was away, and it has accepted none of them."""


def change(state: FleetNodeState, name: str, args: tuple[Any, ...], now: datetime) -> None:
    """Fold one update into the state. Raises Rejected, PodInvalid or ValidationError before it has changed anything."""
    if name != REMOVE.name and state.removed:
        raise Rejected(f"node {state.name} has been removed from the fleet")
    UPDATES[name](state, args, now)


def _place(state: FleetNodeState, asked: Place, now: datetime) -> None:
    """Add pods, or change pods that are already placed.

    Several workflows place pods here, each based on its last survey of the node. A placement that is no longer possible
    is refused, and the owner looks for another node.
    """
    documents = [_admitted(each, asked.owner, at) for at, each in enumerate(asked.pods)]
    keys = [key_of(each) for each in documents]
    if asked.adopted:
        _owner_is_back(state, asked.owner, keys)
        _prove(state, dict(zip(keys, documents, strict=True)), now)
        return
    new = [key for key in keys if key not in state.placed]
    if len(set(keys)) < len(keys):
        raise Rejected("pods: must have different names")
    if new and state.presence != "Ready":
        raise Rejected(f"node {state.name} is {state.presence}, and takes no new pods")
    if new and state.is_cordoned:
        raise Rejected(f"node {state.name} is cordoned, and takes no new pods")
    if new and state.is_doubled:
        raise Rejected(f"node {state.name} takes no new pods: {state.duplicate_nodes}")
    for key in keys:
        if (owner := state.owner_of(key)) and owner != asked.owner:
            raise Rejected(f"pod {key} already exists on the node, and belongs to {owner}")
        if key in state.withdrawn:
            raise Rejected(f"pod {key} is still ending on node {state.name}")
    changed = {
        key: document
        for key, document in zip(keys, documents, strict=True)
        if key not in state.placed or state.placed[key].document != document or state.placed[key].recalled
    }
    _require_room(state, changed)
    _owner_is_back(state, asked.owner, keys)
    if not changed:
        return
    state.generation += 1
    for key, document in changed.items():
        since = state.placed[key].since if key in state.placed else now
        state.placed[key] = Placed(document=document, generation=state.generation, since=since)
        state.refused.pop(key, None)
        state.note(key)
    state.event(now, "Normal", "Placed", f"{_named(changed)} by {asked.owner or 'hand'}")


def _owner_is_back(state: FleetNodeState, owner: str, keys: Iterable[str]) -> None:
    """Record that an absent owner exists again, and note these pods for the next message to that owner."""
    if owner in state.absent:
        state.note_owner(owner, is_there=True)
        for key in keys:
            state.note(key)


def _prove(state: FleetNodeState, documents: dict[str, dict[str, Any]], now: datetime) -> None:
    """Accept pods that only the node claims to have from the fleet, if their owner would make identical pods.

    The node then gets the objects of these pods again. The pods themselves do not change.
    """
    proven = [
        key
        for key, document in documents.items()
        if key in state.placed and state.placed[key].recalled and state.placed[key].document == document
    ]
    if not proven:
        return
    state.generation += 1
    for key in proven:
        state.placed[key] = state.placed[key].model_copy(update={"recalled": False})
        state.note(key)
    state.event(now, "Normal", "Adopted", f"{_named(proven)} by {state.placed[proven[0]].owner}")


def _admitted(document: Any, owner: str, at: int) -> dict[str, Any]:
    try:
        wire = pod_to_wire(admit(document).pod)
    except PodInvalid as wrong:
        raise Rejected(f"pods[{at}]: {wrong}") from None
    meta = wire["metadata"]
    # A person may apply the output of `get -o yaml` for a workload's pod. The new pod is not one of the workload's.
    annotations = {name: text for name, text in (meta.get("annotations") or {}).items() if name != OWNER_ANNOTATION}
    if owner:
        annotations[OWNER_ANNOTATION] = owner
    if annotations:
        meta["annotations"] = annotations
    else:
        meta.pop("annotations", None)
    return wire


def _require_room(state: FleetNodeState, changed: dict[str, dict[str, Any]]) -> None:
    after = {key: placed.document for key, placed in state.placed.items()} | changed
    if len(after) > PLACED_LIMIT:
        raise Rejected(f"node {state.name} would have {len(after)} pods; a fleet places at most {PLACED_LIMIT} on one")
    if len(after.keys() | state.withdrawn.keys()) > PLACED_LIMIT + ENDING_LIMIT:
        raise Rejected(f"node {state.name} has yet to end {len(state.withdrawn)} pods before it takes new ones")
    if sum(map(_size, after.values())) > LIST_LIMIT:
        raise Rejected(f"the pods of node {state.name} would take more than {LIST_LIMIT} bytes of JSON in all")


def _size(document: dict[str, Any]) -> int:
    return len(json.dumps(document, separators=(",", ":"))) + KEPT_BYTES


def _withdraw(state: FleetNodeState, asked: Withdraw, now: datetime) -> None:
    """Order the node to end pods; with `force`, also forget them. Pods that are not placed here are ignored."""
    _have_ended(state, asked, now)
    if asked.force:
        _forget(state, asked, now)


def _have_ended(state: FleetNodeState, asked: Withdraw, now: datetime) -> None:
    keys = [key for each in asked.pods if (key := each.key) in state.placed]
    if not keys:
        return
    state.generation += 1
    for key in keys:
        _end(state, key, asked.reason, now)
    state.event(now, "Normal", "Withdrawn", f"{_named(keys)}" + (f": {asked.reason}" if asked.reason else ""))


def _forget(state: FleetNodeState, asked: Withdraw, now: datetime) -> None:
    """Count pods as gone, even if the node reports them. The node still ends them when it takes the newer list."""
    keys = [each.key for each in asked.pods]
    keys = [key for key in keys if key in state.withdrawn]
    for key in keys:
        owner = state.withdrawn.pop(key).owner
        state.pods.pop(key, None)
        state.note(key, owner)
    if keys:
        text = f"{_named(keys)}: forgotten, though the node has not confirmed the end of its containers"
        state.event(now, "Warning", "ForcedDeletion", text)


def _remove(state: FleetNodeState, _: Nothing, now: datetime) -> None:
    """Remove the node from the fleet. Pods that it has not ended count as gone: nobody will ever report them."""
    if state.removed:
        return
    owners = {key: state.owner_of(key) for key in sorted({*state.placed, *state.withdrawn})}
    state.placed, state.withdrawn, state.refused = {}, {}, {}
    for key, owner in owners.items():
        state.note(key, owner)
    # With this presence, no survey offers the node any more.
    state.removed, state.presence, state.presence_since = True, "Unknown", now
    left = f"{_named(owners)} count as gone" if owners else "it had no pods"
    state.event(now, "Normal", "RemovingNode", f"the node is removed from the fleet: {left}")


def _end(state: FleetNodeState, key: str, why: str, now: datetime) -> None:
    """Move a pod to the withdrawn pods. It may still run on the node until the node reports it gone."""
    containers, placed = state.containers(key), state.placed.pop(key)
    state.refused.pop(key, None)
    gone = Withdrawn(owner=placed.owner, why=why, generation=state.generation, containers=containers, since=now)
    state.withdrawn[key] = gone
    state.note(key)


def _cordon(state: FleetNodeState, _: Nothing, now: datetime) -> None:
    _schedulable(state, schedulable=False, draining=state.draining, now=now)


def _uncordon(state: FleetNodeState, _: Nothing, now: datetime) -> None:
    _schedulable(state, schedulable=True, draining=False, now=now)


def _drain(state: FleetNodeState, _: Nothing, now: datetime) -> None:
    _schedulable(state, schedulable=False, draining=True, now=now)


def _schedulable(state: FleetNodeState, *, schedulable: bool, draining: bool, now: datetime) -> None:
    """Cordon or uncordon the node, and begin or end a drain, during which owners move their pods elsewhere."""
    if state.unschedulable == schedulable:
        state.unschedulable = not schedulable
        state.note_all()  # so that no DaemonSet ends a pod here that it could not replace
        reason = "NodeSchedulable" if schedulable else "NodeNotSchedulable"
        state.event(now, "Normal", reason, f"Node {state.name} status is now: {reason}")
    if draining != state.draining:
        state.draining = draining
        state.note_all()
        text = "its pods are being moved elsewhere" if draining else "the pods that are left stay"
        state.event(now, "Normal", "Draining" if draining else "DrainingEnded", text)


# --- the node's answers -----------------------------------------------------------------------------------------------


def sending(state: FleetNodeState, now: datetime) -> Intent:
    """Return the newest list to send to the node now, and record that the node may have it from now on."""
    stamp = max(state.stamp + 1, microseconds(now))
    intent = state.intent().model_copy(update={"stamp": stamp})
    state.stamp = stamp
    _may_have(state, stamp)
    return intent


def _may_have(state: FleetNodeState, stamp: int) -> None:
    sent = (*state.sent, stamp)
    state.sent = sent if len(sent) <= 2 * SENT else (*sent[:SENT], *sent[-SENT:])


def recalled(state: FleetNodeState, intent: Intent, claims: ClaimedPods, now: datetime, *, replaces: bool) -> None:
    """Take over the list that the node was last given. With `replaces`, pods that are not in it count as gone.

    Documents that cannot be a fleet's, or do not fit, are left out and shown.
    """
    generation = min(max(0, intent.generation), LAST_GENERATION)
    _may_have(state, min(max(0, intent.stamp), LAST_GENERATION))
    ending = state.withdrawn.keys() - claims.pods.keys()
    new, left_out = _with_room({} if replaces else state.placed, ending, claims)
    if replaces:
        for key in [key for key in state.placed if key not in new]:
            owner = state.placed.pop(key).owner
            state.note(key, owner)
    state.generation = max(state.generation, generation) + 1
    for key in new:
        state.withdrawn.pop(key, None)
        state.placed[key] = Placed(document=claims.pods[key], generation=generation, recalled=True)
        state.note(key)
    state.is_recalled = True
    if new:
        text = f"the node has {_named(new)} from this fleet, which has no record of that; nothing is removed"
        state.event(now, "Warning", "Recalled", text)
    wrong = [*claims.wrong, *(f"pod {key}: there is no room for it in the node's list" for key in left_out)]
    if wrong:
        text = f"{len(wrong)} of the pods that the node claims to have are not taken over: {'; '.join(wrong[:3])}"
        state.event(now, "Warning", "RefusedClaim", text)


def _with_room(
    staying: Mapping[str, Placed], ending: Collection[str], claims: ClaimedPods
) -> tuple[list[str], list[str]]:
    """Return the claimed pods that fit into the node's list beside `staying`, and the claimed pods that do not.

    The pods that are ending count too. Otherwise a stolen node that ends no pod could claim pods without limit.
    """
    count, size, fit, left_out = len(staying), sum(_size(placed.document) for placed in staying.values()), [], []
    most = min(PLACED_LIMIT, PLACED_LIMIT + ENDING_LIMIT - len(ending))
    for key in [key for key in claims.pods if key not in staying]:
        larger = size + _size(claims.pods[key])
        if count >= most or larger > LIST_LIMIT:
            left_out.append(key)
        else:
            count, size = count + 1, larger
            fit.append(key)
    return fit, left_out


def stale(state: FleetNodeState, now: datetime) -> int:
    """Record that the node announces a newer list; return how many times it has done so lately.

    The count stays if the node accepts a list in between: otherwise a stolen node could lie every second time.
    """
    if state.stale_at is None or now - state.stale_at >= FORGIVEN_AFTER:
        state.stale = 0
    state.stale, state.stale_at = state.stale + 1, now
    return state.stale


def taken(state: FleetNodeState, answer: IntentTaken, now: datetime) -> None:
    """Record that the node has accepted the list sent last, and which of its pods and objects it refuses."""
    state.taken = max(state.taken, answer.generation)
    state.sent = ()
    refused = {key: clipped(why) for key, why in answer.refused.items() if key in state.placed}
    # Replay: the keys are sorted, since a set's order differs from process to process, and owners are signalled in this
    # order.
    for key in sorted(refused.keys() ^ state.refused.keys()):
        state.note(key)
    for key in sorted(refused.keys() - state.refused.keys()):
        state.event(now, "Warning", "RefusedPod", f"{key}: {refused[key]}")
    state.refused = refused
    objects = {key: clipped(why) for key, why in answer.objects.items() if key in state.referred}
    for key, why in objects.items():
        if state.objects_refused.get(key) != why:
            state.event(now, "Warning", "RefusedObject", f"{key}: {why}")
    state.objects_refused = objects
    if answer.key:
        state.event(now, "Warning", "RefusedKey", clipped(f"the node does not take the fleet's new key: {answer.key}"))


def key_changed(state: FleetNodeState) -> None:
    """Send the node its list again. The list has the key that the fleet uses, if the node trusts another key."""
    state.generation += 1
    state.key_generation = state.generation


def _key_changed(state: FleetNodeState, _: Nothing, _now: datetime) -> None:
    key_changed(state)


def _object_changed(state: FleetNodeState, ref: FleetObjectRef, _now: datetime) -> None:
    """Send the node its list again if its pods refer to this object, which has changed or is gone."""
    if ref.key in state.referred:
        state.generation += 1


def sealed(state: FleetNodeState, answer: ObjectsSealed, now: datetime) -> None:
    """Record the objects that the node's pods refer to, and those that do not fit into the list."""
    state.referred, state.fleet_key = answer.referred, answer.current
    if answer.left_out:
        text = f"objects that do not fit into the node's list are left out: {', '.join(answer.left_out)}"
        state.event(now, "Warning", "TooManyObjects", text)


def attended(state: FleetNodeState, answer: Attended, now: datetime) -> None:
    """Fold the node's report into the state."""
    state.version = answer.version
    _take_back(state, answer, now)
    was_cordoned = state.is_cordoned
    if answer.node is not None:
        _seal_anew(state, answer.node.key, now)
        _trust(state, answer.node.fleet_key, now)
        state.report = answer.node
        state.joined = state.joined or now
    if state.is_cordoned != was_cordoned:
        state.note_all()
    before = state.presence
    if state.joined is not None and state.set_presence("Ready" if state.report.ready else "NotReady", now):
        _record_presence(state, before, now)
    answered = {each.key: each for each in answer.pods}
    gone = {each.key for each in answer.gone}
    if answer.present is not None:
        gone |= (state.pods | answered).keys() - unchanged(answer)
    # Replay: the keys are sorted, for the same reason as in `taken`.
    for key in [*sorted(gone), *(key for key, report in answered.items() if state.pods.get(key) != report)]:
        state.note(key)
    state.pods = {key: report for key, report in (state.pods | answered).items() if key not in gone}
    for key in [key for key, each in state.withdrawn.items() if each.generation <= answer.generation]:
        # The report was made after the node had taken the withdrawal, so a pod that is not in it has ended.
        if key not in state.pods and key not in unchanged(answer):
            state.note(key)
            del state.withdrawn[key]


def _take_back(state: FleetNodeState, answer: Attended, now: datetime) -> None:
    """Send the node its list again if the node has an older one than it once took: its disk was restored from a backup.

    A report does not count if the node has taken another list since the report was requested, or will be sent a list
    anyway.
    """
    # Replay: an earlier version sent no `taken` with its requests, so no answer in its histories has `lacks`.
    if not answer.lacks or answer.lacks != state.settled_generation or answer.generation >= state.taken:
        return
    text = (
        f"the node has list {answer.generation}, although it had taken list {state.taken}: it was restored from a"
        f" backup, or has lost its files; list {state.taken} is sent again"
    )
    state.event(now, "Warning", "LostIntent", text)
    # If two machines answer as this node, the other one may have taken the list that was sent last, and must not refuse
    # that list now.
    _may_have(state, state.stamp)
    state.taken = max(0, answer.generation)


def _seal_anew(state: FleetNodeState, key: str, now: datetime) -> None:
    """Send the node its list again if the node has another key: the list's objects were sealed for the earlier key."""
    before = state.report.key
    if before and key and before != key and state.referred:
        state.generation += 1
        text = "the node has another key: the ConfigMaps and Secrets of its pods are sealed for that"
        state.event(now, "Normal", "SealedAnew", text)


def _trust(state: FleetNodeState, key: str, now: datetime) -> None:
    """Record which key of the fleet the node trusts. If it is not the key in use, the next list carries that key."""
    before = state.report.fleet_key
    if not key or key == before:
        return
    if before:
        state.fleet_key_since = now
        state.event(now, "Normal", "KeyChanged", f"the node trusts the fleet's key {clipped(key)}")
    if key != state.fleet_key:
        key_changed(state)


def unchanged(answer: Attended) -> set[str]:
    """Return the keys of all pods that a report lists as present on the node, changed or not."""
    return {each.key for each in answer.present or ()}


def reports_refused(state: FleetNodeState, now: datetime) -> None:
    """Set the presence to Unknown, since the node's reports are refused. The next report must then be complete."""
    if state.joined is not None:
        state.set_presence("Unknown", now)


def fell_silent(state: FleetNodeState, now: datetime) -> None:
    """Record that the node has sent nothing for its grace period."""
    before = state.presence
    if state.set_presence("Unknown", now):
        text = f"the node has sent no report for {state.grace:g} s; it was {before}"
        state.event(now, "Warning", "NodeNotReady", text)


def _record_presence(state: FleetNodeState, before: str, now: datetime) -> None:
    why = "; ".join(each.message for each in state.report.conditions if each.type == "Ready" and not state.report.ready)
    kind, reason = ("Normal", "NodeReady") if state.report.ready else ("Warning", "NodeNotReady")
    text = f"the node is {state.presence}; it was {before}" + (f": {why}" if why else "")
    state.event(now, kind, reason, text)  # type: ignore[arg-type]


def _named(keys: Iterable[str]) -> str:
    """Return pods for use in a sentence: up to five by name."""
    names = sorted(keys)
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return f"pods {', '.join(names[:5])}{more}" if len(names) > 1 else f"pod {names[0]}"


SIGNALS: Final[Mapping[str, Effect[FleetNodeState, Any, None]]] = effects(
    Effect(KEY_CHANGED, _key_changed), Effect(OBJECT_CHANGED, _object_changed)
)
"""The effect of each signal. `renew` is absent, since it concerns only the run."""
UPDATES: Final[Mapping[str, Effect[FleetNodeState, Any, None]]] = effects(
    Effect(PLACE, _place),
    Effect(WITHDRAW, _withdraw),
    Effect(CORDON, _cordon),
    Effect(UNCORDON, _uncordon),
    Effect(DRAIN, _drain),
    Effect(REMOVE, _remove),
)
"""The effect of each update."""


def note_life(state: FleetNodeState, answer: Spoken, asked: datetime, now: datetime) -> None:
    """Record which life of the node's worker has answered a request that was sent at `asked`.

    An event shows that two machines answer as this node, or no longer do. While two answer, the node takes no new pods.
    An id that is too long counts as none.
    """
    life = answer.life if len(answer.life) <= LIFE_LIMIT else ""
    state.lives = state.lives.after(life, answer.machine[:MACHINE_LIMIT], asked, now)
    before, state.duplicate_nodes = (
        state.duplicate_nodes,
        _duplicates(state.name, state.lives) if state.lives.are_two else "",
    )
    if bool(before) == bool(state.duplicate_nodes):
        return
    state.note_all()  # owners are notified: a DaemonSet must not end a pod that it could not replace
    if state.duplicate_nodes:
        state.event(now, "Warning", "TwoMachines", state.duplicate_nodes)
    else:
        minutes = f"{FORGOTTEN_AFTER.total_seconds() / 60:g}"
        state.event(now, "Normal", "OneMachine", f"only one machine has answered as {state.name} for {minutes} minutes")


def _duplicates(name: str, lives: Lives) -> str:
    first, second = sorted(each.machine for each in lives.known[-2:])
    named = f", {first} and {second}," if first else ""
    if first and first == second:
        named = f", both called {first}, as a copy of a whole machine is,"
    return (
        f"two machines answer as {name}{named} and both run its pods: on one of them run `syncpod leave` and"
        f" `syncpod down`, or invite {name} anew, let the right one join, and revoke the earlier certificate with"
        f" `syncpod fleet revoke {name} --serial SERIAL`"
    )
