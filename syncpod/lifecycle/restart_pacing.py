"""Decides when a container may restart: now, later, or only after an operator's ``syncpod retry``.

The kubelet has one policy, its crash-loop back-off (`syncpod.lifecycle.backoff`), which never gives up. Here a pod may
set the numbers of that back-off, exempt exit codes that are no crashes, and limit the restarts
(`syncpod.pod.restart_settings`). A pod without such settings is treated as by the kubelet.

No setting makes a container restart in a hot loop: after an exempt exit it restarts at once five times, then once in
each `backoff-initial`. Settings with which the back-off would never grow are refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from syncpod.go_durations import go_duration
from syncpod.lifecycle import backoff
from syncpod.lifecycle.backoff import EXEMPT_AT_ONCE, BackoffEntry, BackoffStore, StartDecision
from syncpod.lifecycle.exit import Exit
from syncpod.pod import Container, EphemeralContainer, ObjectMeta, Pod
from syncpod.pod.restart_settings import LIMIT, RestartSettings

CRASH_LOOP: Final = "CrashLoopBackOff"
LIMIT_REACHED: Final = "RestartLimitReached"
"""Reason of a container that is held back, and of a pod that has failed, because the limit of restarts is reached."""


@dataclass(frozen=True)
class RestartPermission:
    """The decision about a restart: allowed now, allowed at `retry_at`, or held until an operator's retry."""

    allowed: bool
    delay: timedelta = backoff.NO_DELAY
    retry_at: datetime | None = None
    """When a start that is held back will be allowed; None = it is allowed, or waits for an operator."""
    reason: str = ""
    """`CrashLoopBackOff` or `RestartLimitReached`; "" if it is allowed."""
    message: str = ""
    fails: bool = False
    """The pod must fail, by its `restart-limit-action`."""


def restart_container(
    store: BackoffStore,
    settings: RestartSettings,
    pod: ObjectMeta,
    container: Container | EphemeralContainer,
    exit_: Exit,
    *,
    now: datetime,
) -> tuple[RestartPermission, BackoffStore]:
    """Decide whether the next instance of `container` may start, and record the start in the returned store if it may.

    `exit_` is how the newest instance ended. For a pod without settings, `backoff.start_decision` decides.
    """
    what = f"container={container.name} pod={pod.name}_{pod.namespace}({pod.uid})"
    key = backoff.crash_loop_key(pod, container)
    if _is_exempt(settings, exit_):
        return _paced(store, settings, f"exempt/{key}", what, exit_, now)
    before = backoff.restarts_before(store, key, exit_.id, finished_at=exit_.since, settings=settings)
    if held := _at_limit(settings, before, f"container {container.name}"):
        return held, store
    decision, after = backoff.start_decision(store, pod, container, finished_at=exit_.since, now=now, settings=settings)
    return _counted(decision, after, key, before, exit_)


def restart_all(
    store: BackoffStore, settings: RestartSettings, pod: ObjectMeta, cause: str, exit_: Exit, *, now: datetime
) -> tuple[RestartPermission, BackoffStore]:
    """Decide whether a restart of all containers may begin now, and record it in the returned store if it may.

    `exit_` is the exit that triggered it, and `cause` a phrase for that exit. All containers together count as one
    restart.
    """
    key = backoff.step_key(backoff.RESTART_ALL)
    if _is_exempt(settings, exit_):
        what = f"all containers of pod={pod.name}_{pod.namespace}({pod.uid})"
        return _paced(store, settings, f"exempt/{backoff.RESTART_ALL}/all", what, exit_, now)
    before = backoff.restarts_before(store, key, exit_.id, finished_at=exit_.since, settings=settings)
    if held := _at_limit(settings, before, "all containers together"):
        return held, store
    decision, after = backoff.restart_all_decision(
        store, pod, cause, finished_at=exit_.since, now=now, settings=settings
    )
    return _counted(decision, after, key, before, exit_)


def restart_keys(pod: Pod) -> tuple[str, ...]:
    """Return the keys of all crash loops that the pod can be in. The pod's limit of restarts needs their entries."""
    spec = pod.spec
    every = (*spec.init_containers, *spec.containers, *spec.ephemeral_containers)
    return (*(backoff.crash_loop_key(pod.metadata, one) for one in every), backoff.step_key(backoff.RESTART_ALL))


def _is_exempt(settings: RestartSettings, exit_: Exit) -> bool:
    # A cause means that the node ended the container (a failed probe, a changed definition): its code means nothing.
    return exit_.exit_code in settings.exempt and not exit_.cause


def _at_limit(settings: RestartSettings, before: int, who: str) -> RestartPermission | None:
    """Return the refusal of a start if the limit of restarts is reached, else None."""
    limit = settings.limit
    if limit is None or before < limit:
        return None
    times = "once" if limit == 1 else f"{limit} times"
    message = f"restarted {who} {times} in a row, which is the pod's {LIMIT}"
    fails = settings.action == "fail"
    if not fails:
        message += "; waits for `syncpod retry`"
    return RestartPermission(False, reason=LIMIT_REACHED, message=message, fails=fails)


def _paced(
    store: BackoffStore, settings: RestartSettings, key: str, what: str, exit_: Exit, now: datetime
) -> tuple[RestartPermission, BackoffStore]:
    """Decide on a restart after an exempt exit: at once, or later if there were too many recently.

    This is a token bucket: each restart takes one of `EXEMPT_AT_ONCE` tokens, and one token comes back after each
    `backoff-initial`. The entry counts tokens and not a time, so that a changed `backoff-initial` applies at once.
    """
    entry, every = store.entries.get(key), settings.initial
    taken, since = (entry.taken, entry.last_update) if entry is not None else (0.0, now)
    due = since + (taken - (EXEMPT_AT_ONCE - 1)) * every
    if now < due:
        words = f"back-off {go_duration(every)} restarting {what}"
        message = f"{words}: it exits with {exit_.exit_code} too often to be restarted at once each time"
        return RestartPermission(False, every, due, CRASH_LOOP, message), store
    left = max(0.0, taken - (now - since) / every)
    return RestartPermission(True), store.with_entry(key, BackoffEntry(taken=left + 1, last_update=now))


def _counted(
    decision: StartDecision, store: BackoffStore, key: str, before: int, exit_: Exit
) -> tuple[RestartPermission, BackoffStore]:
    """Return the back-off's decision as a permission; if the start is allowed, count this restart in the store."""
    if not decision.allowed:
        return RestartPermission(False, decision.delay, decision.retry_at, CRASH_LOOP, decision.message), store
    return RestartPermission(True, decision.delay), backoff.with_restarts(store, key, before + 1, exit_.id)
