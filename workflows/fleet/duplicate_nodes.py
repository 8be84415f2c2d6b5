"""Two machines that answer as one node: the node's state says so, and the node takes no new pods meanwhile."""

from __future__ import annotations

from datetime import datetime

from syncpod.messages.fleet import LIFE_LIMIT, MACHINE_LIMIT, Spoken
from workflows.fleet.lives import FORGOTTEN_AFTER, Lives
from workflows.fleet.node_state import FleetNodeState


def heard(state: FleetNodeState, answer: Spoken, asked: datetime, now: datetime) -> None:
    """Note who has given an answer to a question that was asked at a time. An id that is too long counts as none."""
    life = answer.life if len(answer.life) <= LIFE_LIMIT else ""
    state.lives = state.lives.after(life, answer.machine[:MACHINE_LIMIT], asked, now)
    before, state.duplicate_nodes = (
        state.duplicate_nodes,
        _sentence(state.name, state.lives) if state.lives.are_two else "",
    )
    if bool(before) == bool(state.duplicate_nodes):
        return
    state.note_all()  # a DaemonSet must not end a pod that it could not replace
    if state.duplicate_nodes:
        state.event(now, "Warning", "TwoMachines", state.duplicate_nodes)
    else:
        minutes = f"{FORGOTTEN_AFTER.total_seconds() / 60:g}"
        state.event(now, "Normal", "OneMachine", f"only one machine has answered as {state.name} for {minutes} minutes")


def _sentence(name: str, lives: Lives) -> str:
    first, second = sorted(each.machine for each in lives.known[-2:])
    named = f", {first} and {second}," if first else ""
    if first and first == second:
        named = f", both called {first}, as a copy of a whole machine is,"
    return (
        f"two machines answer as {name}{named} and both run its pods: on one of them run `syncpod leave` and"
        f" `syncpod down`, or invite {name} anew, let the right one join, and revoke the earlier certificate with"
        f" `syncpod fleet revoke {name} --serial SERIAL`"
    )
