"""Whether a container that has ended is started again now, later, or not before an operator says so.

The kubelet knows one answer, its crash-loop back-off (`syncpod.lifecycle.backoff`), which goes on for ever. Here a pod
may set that back-off's numbers, name exit codes that are no crashes, and say how many restarts are enough
(`syncpod.pod.restart_settings`). A pod that says nothing is treated as the kubelet treats it.

Whatever a pod says, no container runs hot: an exempt exit is restarted at once five times, then once in each
`backoff-initial`, and settings that would let every restart be the first of its row are refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from syncpod.lifecycle import backoff
from syncpod.lifecycle.backoff import BackoffEntry, BackoffStore, StartDecision
from syncpod.lifecycle.exit import RecordedExit
from syncpod.pod import Container, EphemeralContainer, ObjectMeta, Pod
from syncpod.pod.restart_settings import LIMIT, RestartSettings

CRASH_LOOP: Final = "CrashLoopBackOff"
LIMIT_REACHED: Final = "RestartLimitReached"
"""Reason of a container that is held, and of a pod that has failed, because there were restarts enough."""

EXEMPT_AT_ONCE: Final = 5
"""Restarts after exempt exits that may follow at once on one another, before they are spaced out."""


@dataclass(frozen=True)
class Restart:
    """Whether to start, and if not what holds it back."""

    allowed: bool
    delay: timedelta = backoff.NO_DELAY
    retry_at: datetime | None = None
    """When a start that is held back will be allowed; None = when an operator says so, or it is allowed."""
    reason: str = ""
    """`CrashLoopBackOff` or `RestartLimitReached`; "" where it is allowed."""
    message: str = ""
    fails: bool = False
    """The pod is to fail, as its `restart-limit-action` says."""


def restart_container(
    store: BackoffStore,
    settings: RestartSettings,
    pod: ObjectMeta,
    container: Container | EphemeralContainer,
    exit_: RecordedExit,
    *,
    now: datetime,
) -> tuple[Restart, BackoffStore]:
    """Decide whether the next instance of `container` may start, and remember the start if it may.

    As `backoff.start_decision`, whose answer it is for a pod without settings.
    """
    what = f"container={container.name} pod={pod.name}_{pod.namespace}({pod.uid})"
    key = backoff.crash_loop_key(pod, container)
    if _is_exempt(settings, exit_):
        return _paced(store, settings, f"exempt/{key}", what, exit_, now)
    before = backoff.restarts_before(store, key, exit_.id, finished_at=exit_.at, settings=settings)
    if held := _at_limit(settings, before, f"container {container.name}"):
        return held, store
    decision, after = backoff.start_decision(store, pod, container, finished_at=exit_.at, now=now, settings=settings)
    return _counted(decision, after, key, before, exit_)


def restart_all(
    store: BackoffStore, settings: RestartSettings, pod: ObjectMeta, cause: str, exit_: RecordedExit, *, now: datetime
) -> tuple[Restart, BackoffStore]:
    """Decide whether a pod of which all containers are to run anew may begin, and remember it if it may.

    `exit_` is the exit that asked for it, `cause` its words. One round is one restart.
    """
    key = backoff.step_key(backoff.RESTART_ALL)
    if _is_exempt(settings, exit_):
        what = f"all containers of pod={pod.name}_{pod.namespace}({pod.uid})"
        return _paced(store, settings, f"exempt/{backoff.RESTART_ALL}/all", what, exit_, now)
    before = backoff.restarts_before(store, key, exit_.id, finished_at=exit_.at, settings=settings)
    if held := _at_limit(settings, before, "all containers together"):
        return held, store
    decision, after = backoff.restart_all_decision(store, pod, cause, finished_at=exit_.at, now=now, settings=settings)
    return _counted(decision, after, key, before, exit_)


def restart_keys(pod: Pod) -> tuple[str, ...]:
    """Return the keys of the crash loops that the pod can be in, as it is now: those that must not be forgotten."""
    spec = pod.spec
    every = (*spec.init_containers, *spec.containers, *spec.ephemeral_containers)
    return (*(backoff.crash_loop_key(pod.metadata, one) for one in every), backoff.step_key(backoff.RESTART_ALL))


def _is_exempt(settings: RestartSettings, exit_: RecordedExit) -> bool:
    # The code of a container that we ended, for a failed probe or another definition, says nothing.
    return exit_.exit_code in settings.exempt and not exit_.cause


def _at_limit(settings: RestartSettings, before: int, who: str) -> Restart | None:
    """Return that there were restarts enough, where there were."""
    limit = settings.limit
    if limit is None or before < limit:
        return None
    times = "once" if limit == 1 else f"{limit} times"
    message = f"restarted {who} {times} in a row, which is the pod's {LIMIT}"
    fails = settings.action == "fail"
    if not fails:
        message += "; waits for `syncpod retry`"
    return Restart(False, reason=LIMIT_REACHED, message=message, fails=fails)


def _paced(
    store: BackoffStore, settings: RestartSettings, key: str, what: str, exit_: RecordedExit, now: datetime
) -> tuple[Restart, BackoffStore]:
    """Decide on a restart after an exempt exit: at once, as long as there were not too many of late.

    Each takes one of `EXEMPT_AT_ONCE` places, of which one is free again after each `backoff-initial`. The entry's
    `last_update` is when all of them will be.
    """
    entry, every = store.entries.get(key), settings.initial
    all_free = max(now, entry.last_update) if entry is not None else now
    due = all_free - (EXEMPT_AT_ONCE - 1) * every
    if now < due:
        words = f"back-off {backoff.go_duration(every)} restarting {what}"
        message = f"{words}: it exits with {exit_.exit_code} too often to be restarted at once each time"
        return Restart(False, every, due, CRASH_LOOP, message), store
    return Restart(True), store.with_entry(key, BackoffEntry(delay=every, last_update=all_free + every))


def _counted(
    decision: StartDecision, store: BackoffStore, key: str, before: int, exit_: RecordedExit
) -> tuple[Restart, BackoffStore]:
    """Return the back-off's answer, and where it is yes the store with this restart counted."""
    if not decision.allowed:
        return Restart(False, decision.delay, decision.retry_at, CRASH_LOOP, decision.message), store
    return Restart(True, decision.delay), backoff.with_restarts(store, key, before + 1, exit_.id)
