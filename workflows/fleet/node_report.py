"""How the workflow of a fleet's node presents itself: its query, its memo, and its page in the UI."""

from __future__ import annotations

from syncpod.messages.fleet import FleetNodeSummary, FleetNodeView
from workflows.fleet.node_state import FleetNodeState
from workflows.rejections import last_rejected

_SHOWN = 50
"""The most pods that the page names."""


def summary(state: FleetNodeState) -> FleetNodeSummary:
    """Return the node's memo."""
    return FleetNodeSummary(
        name=state.name,
        presence=state.presence,
        since=state.presence_since,
        unschedulable=state.is_cordoned,
        draining=state.draining,
        doubled=state.is_doubled,
        joined=state.joined,
        labels=state.report.labels,
        allocatable=state.report.allocatable,
        unenforced_limits=state.report.unenforced_limits,
        addresses=state.report.addresses,
        node_info=state.report.node_info,
        pods=len(state.placed),
        endpoint=state.report.endpoint,
        fleet_key=state.report.fleet_key,
        fleet_key_since=state.fleet_key_since,
    )


def view(state: FleetNodeState) -> FleetNodeView:
    """Return the whole node, with the fleet's records of it."""
    return FleetNodeView(
        **summary(state).model_dump(),
        fleet=state.fleet,
        removed=state.removed,
        generation=state.generation,
        taken=state.taken,
        trouble=state.trouble,
        conditions=state.report.conditions,
        capacity=state.report.capacity,
        images=state.report.images,
        cordons=state.cordons,
        placed=tuple(state.pod(key) for key in sorted({*state.placed, *state.withdrawn})),
        events=state.events,
    )


def details(state: FleetNodeState) -> str:
    """Return the node as a page: its presence, the intent that it has taken, and its pods."""
    cordoned = ", cordoned" if state.is_cordoned else ""
    cordoned = f"{cordoned}, being drained" if state.draining else cordoned
    lines = [f"**{state.name}**: {state.presence}{cordoned}", ""]
    behind = "" if state.taken >= state.generation else f"; the node has taken {state.taken}"
    lines.append(f"- intent {state.generation}{behind}")
    if state.trouble:
        lines.append(f"- {state.trouble}")
    shown = sorted({*state.placed, *state.withdrawn})[:_SHOWN]
    if shown:
        lines += ["", "**Pods**", ""]
    for key in shown:
        pod = state.pod(key)
        status, restarts = (pod.report.status, pod.report.restarts) if pod.report else ("", 0)
        said = [pod.state, *([status] if status else []), *([f"{restarts} restarts"] if restarts else [])]
        lines.append(f"- **{key}**: {', '.join(said)}")
    return "\n".join([*lines, *last_rejected(state.events)])
