"""The records that a pod's workflow gives its node's journal: events since a moment, and the pod's present state.

They are made from the published state, in the journal's thread, and cost no history.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from itertools import takewhile
from typing import Any

from syncpod.journal.records import HistoryEntry, Instance, PodLife, TaskRecords
from syncpod.lifecycle.exit import Exit
from syncpod.lifecycle.kill_cause import KillCause
from syncpod.lifecycle.observed import ObservedContainer
from syncpod.pod import ContainerStatus
from workflows.pod.decision import Hold, UnderWay
from workflows.pod.search_attributes import printed
from workflows.pod.state import PodState


def journal_records(
    state: PodState,
    holds: Sequence[Hold],
    under_way: Sequence[UnderWay],
    at: datetime,
    *,
    since: datetime | None,
    is_gone: bool,
) -> TaskRecords:
    """Return the records from `since` on (None: all that the state still has), and the pod's state at `at`.

    The journal keeps a repeated record once, so `since` only saves work.
    """
    return TaskRecords(
        life=PodLife(*(getattr(state.ref, part) for part in PodLife._fields)),
        at=at,
        entries=_newest(state.history, since),
        events=tuple(each for each in state.events if since is None or each.last >= since),
        instances=_instances(state),
        present=json.dumps(_present(state, holds, under_way), separators=(",", ":")),
        is_gone=is_gone,
    )


def _newest(entries: Sequence[HistoryEntry], since: datetime | None) -> tuple[HistoryEntry, ...]:
    """Return the lines from `since` on, oldest first: they stand in the order of their times."""
    newest = takewhile(lambda entry: since is None or entry.at >= since, reversed(entries))
    return tuple(newest)[::-1]


def _instances(state: PodState) -> tuple[Instance, ...]:
    """Return each instance whose end is recorded, and each listed instance that has run."""
    listed = {(each.name, each.restart_count): each for each in state.own.containers if each.has_run}
    # The journal keeps a hook's output, unlike the pod's history: only the node's user can read the journal.
    hooks = {(each.container, each.restart): each.message for each in state.failed_hooks}
    found = {
        key: _ended(each, listed.get(key), hooks.get(key))
        for each in state.exits
        for key in [(each.name, each.restart)]
    }
    for key, container in listed.items():
        found.setdefault(key, _listed(container))
    return tuple(found.values())


def _ended(exit_: Exit, container: ObservedContainer | None, failed_hook: str | None) -> Instance:
    """Return an ended instance; `failed_hook` says how its postStart hook failed, if that is why it was ended."""
    cause, killed_by = exit_.cause, exit_.killed_by
    if failed_hook is not None and not killed_by:
        cause, killed_by = failed_hook, KillCause.HOOK
    started = exit_.started_at or (container.started_at if container is not None else None)
    return Instance(
        container=exit_.name,
        restart=exit_.restart,
        id=exit_.id,
        image=container.image if container is not None else "",
        started_at=started,
        exit=replace(exit_, cause=cause, killed_by=killed_by),
    )


def _listed(container: ObservedContainer) -> Instance:
    return Instance(
        container=container.name,
        restart=container.restart_count,
        id=container.id,
        image=container.image,
        started_at=container.started_at,
    )


# --- the pod's present state ------------------------------------------------------------------------------------------


def _present(state: PodState, holds: Sequence[Hold], under_way: Sequence[UnderWay]) -> dict[str, Any]:
    """Return the pod's present state for the journal, without environment, commands and annotations."""
    status, spec = state.status, state.pod.spec
    inits = {each.name for each in spec.init_containers}
    statuses = (*status.init_container_statuses, *status.container_statuses, *status.ephemeral_container_statuses)
    limits = {each.name: dict(each.resources.limits) for each in (*spec.init_containers, *spec.containers)}
    return {
        "phase": status.phase or "Pending",
        "status": printed(state).word,
        "reason": status.reason,
        "message": status.message,
        "node": state.node.name or spec.node_name or "",
        "restartPolicy": spec.restart_policy or "Always",
        "conditions": [
            {"type": each.type, "status": each.status, "reason": each.reason, "message": each.message}
            for each in status.conditions
        ],
        "containers": [
            {**_container(each), "init": each.name in inits, "limits": limits.get(each.name, {})} for each in statuses
        ],
        "waits": [
            {
                "subject": hold.subject,
                "until": hold.until.isoformat() if hold.until is not None else None,
                "reason": hold.reason,
                "message": hold.message,
            }
            for hold in holds
        ],
        "underWay": [
            {"step": each.step, "container": each.container, "what": each.what, "since": each.since.isoformat()}
            for each in under_way
        ],
        "deletion": (
            {"at": state.deletion.requested_at.isoformat(), "graceSeconds": state.deletion.grace_seconds}
            if state.deletion is not None
            else None
        ),
        "activeDeadlineSeconds": spec.active_deadline_seconds,
        "startTime": status.start_time.isoformat() if status.start_time is not None else None,
    }


def _container(status: ContainerStatus) -> dict[str, Any]:
    return {
        "name": status.name,
        "ready": status.ready,
        "restarts": status.restart_count,
        "image": status.image,
        "state": status.state.model_dump(mode="json", by_alias=True, exclude_none=True),
    }
