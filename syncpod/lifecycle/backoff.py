"""Back-off as a value: how long to wait before the next try, and the data that has to be kept between tries.

A `BackoffStore` has an entry for each key: the delay (or for a crash loop, how often the delay has grown), and the time
at which it was last set. The store is frozen and part of the workflow's snapshot, as JSON. A function that changes
something returns a new store. Nothing here reads a clock or adds jitter.

Three kinds of failure share one mechanism and one set of numbers (10 s, doubling, 300 s at most, forgotten after 600
s). A pod may set other numbers for its crash loops only:

* **crash loop** (`start_decision`): measured from the moment the last instance *finished*; the delay grows with each
  start that is allowed, whether or not that start succeeds.
* **image pull** (`record_failure`, `held_until`): measured from the last *failure*; expires by itself. A successful
  pull forgets it (`forget`), so the next failure waits 10 s again. The kubelet keeps the failure until it expires
  (image_manager.go, v1.36, pullImage).
* **failed step**, such as CreateContainerError (`record_failure`, `held_until`): as for images.

Units: instants are timezone-aware datetimes, delays are timedeltas. In JSON they are RFC 3339 and ISO 8601 strings.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from pydantic import Field

from syncpod.go_durations import go_duration
from syncpod.pod import Container, EphemeralContainer, Model, ObjectMeta, Time
from syncpod.pod.restart_settings import KUBELETS, RestartSettings

FIRST_DELAY: Final = KUBELETS.initial
EXPIRY: Final = KUBELETS.reset_after

EXEMPT_AT_ONCE: Final = 5
"""How many restarts may follow each other without a delay after exempt exits (`RestartSettings.exempt`)."""

RESTART_ALL: Final = "restart_all_containers"
"""The name of the back-off before a restart of all containers. An operator ends that back-off by this name."""

NO_DELAY: Final = timedelta(0)
LONG_AGO: Final = datetime.fromtimestamp(0, UTC)


class BackoffEntry(Model):
    """The back-off under one key."""

    delay: timedelta = FIRST_DELAY
    """How long the next try of a pull or step must wait."""
    grown: int = 0
    """For a crash loop: how often its delay has grown since the first one. The delay itself is computed from the pod's
    settings at each use, so that changed settings apply at once."""
    taken: float = 0.0
    """For exempt exits: how many of the `EXEMPT_AT_ONCE` immediate restarts had been used up at `last_update`. It may
    be a fraction, since restarts become available again with time."""
    last_update: Time = LONG_AGO
    """When the delay was last set; expiry is measured from here."""
    reason: str = ""
    """The failure's reason (`ErrImagePull`, `CreateContainerError`); empty for a crash loop."""
    message: str = ""
    """The failure's message, shown while waiting."""
    restarts: int = 0
    """For a crash loop: how many restarts in a row have been allowed."""
    counted: str = ""
    """For a crash loop: the id of the exit that was counted last. If a start fails, the next try is for the same exit,
    and is not counted again."""


class BackoffStore(Model):
    """All the back-offs of one pod. Frozen: a change is a new store."""

    entries: Mapping[str, BackoffEntry] = Field(default_factory=dict)
    """By key, in the order in which the keys were first seen."""

    def with_entry(self, key: str, entry: BackoffEntry) -> BackoffStore:
        """Return a store in which `key` holds `entry`."""
        return BackoffStore(entries={**self.entries, key: entry})


@dataclass(frozen=True)
class StartDecision:
    """A decision about the start of a container: it is allowed now, or it is held back until `retry_at`."""

    allowed: bool
    delay: timedelta
    """The delay in the store after the decision. If the start is allowed, this delay applies after the next exit."""
    retry_at: datetime | None = None
    """When a start that is held back will be allowed; None if it is allowed now."""
    message: str = ""
    """The kubelet's message for a start that is held back; "" if the start is allowed."""


def start_decision(
    store: BackoffStore,
    pod: ObjectMeta,
    container: Container | EphemeralContainer,
    *,
    finished_at: datetime | None,
    now: datetime,
    settings: RestartSettings = KUBELETS,
) -> tuple[StartDecision, BackoffStore]:
    """Decide whether `container` may be started now, and record the start in the returned store if it may.

    `finished_at` is when the container's newest *exited* instance finished, by the clock of `now`, even if a newer
    instance is in another state. None: no instance has exited, so the start is allowed and the store stays. Call this
    once for each start that will really be tried: an allowed start doubles the delay (up to five minutes) even when it
    then fails at the image.

    Mirrors kuberuntime_manager.go, v1.36, doBackOff. The caller chooses which instance counts. After a failed probe,
    the kubelet uses a snapshot from before the kill, and so allows the first such restart at once. A caller that lists
    the pod again after the kill counts the kill as a crash.
    """
    key = crash_loop_key(pod, container)
    if finished_at is None:
        entry = store.entries.get(key)
        return StartDecision(allowed=True, delay=_crash_delay(entry, settings) if entry else NO_DELAY), store
    what = f"restarting failed container={container.name} pod={pod.name}_{pod.namespace}({pod.uid})"
    return _decide(store, key, what, settings, finished_at=finished_at, now=now)


def restart_all_decision(
    store: BackoffStore,
    pod: ObjectMeta,
    cause: str,
    *,
    finished_at: datetime,
    now: datetime,
    settings: RestartSettings = KUBELETS,
) -> tuple[StartDecision, BackoffStore]:
    """Decide whether a restart of all containers may begin now, and record it in the returned store if it may.

    `finished_at` is when the container that triggered it ended, and `cause` is how it ended, in words. The kubelet has
    no such back-off: it computes back-offs from existing containers, and a restart of all removes them.
    """
    what = f"restarting all containers of pod={pod.name}_{pod.namespace}({pod.uid}): {cause}"
    return _decide(store, step_key(RESTART_ALL), what, settings, finished_at=finished_at, now=now)


def _decide(
    store: BackoffStore, key: str, what: str, settings: RestartSettings, *, finished_at: datetime, now: datetime
) -> tuple[StartDecision, BackoffStore]:
    entry = store.entries.get(key)
    if entry is not None and not _expired(entry, finished_at, settings):
        delay = _crash_delay(entry, settings)
        if now - finished_at < delay:
            words = f"back-off {go_duration(delay)} {what}"
            held = StartDecision(allowed=False, delay=delay, retry_at=finished_at + delay, message=words)
            return held, store

    times = 0 if entry is None or _expired(entry, finished_at, settings) else entry.grown + 1
    grown = BackoffEntry(grown=times, last_update=now)
    return StartDecision(allowed=True, delay=_crash_delay(grown, settings)), store.with_entry(key, grown)


def _crash_delay(entry: BackoffEntry, settings: RestartSettings) -> timedelta:
    """Return the delay of a crash loop that is in force with these settings."""
    try:
        return min(settings.initial * float(settings.factor) ** entry.grown, settings.maximum)
    except OverflowError:
        return settings.maximum


def restarts_before(
    store: BackoffStore, key: str, ended: str, *, finished_at: datetime, settings: RestartSettings
) -> int:
    """Return how many restarts in a row had been allowed when the newest instance ended; `ended` is that exit's id."""
    entry = store.entries.get(key)
    if entry is None or _expired(entry, finished_at, settings):
        return 0
    return entry.restarts - 1 if ended and entry.counted == ended else entry.restarts


def with_restarts(store: BackoffStore, key: str, restarts: int, ended: str) -> BackoffStore:
    """Return a store in which the crash loop under `key` has had `restarts` restarts, the last after the exit `ended`.

    `ended` is the exit's id. Raises KeyError if the store has no such crash loop.
    """
    return store.with_entry(key, store.entries[key].model_copy(update={"restarts": restarts, "counted": ended}))


def uncounted(store: BackoffStore, key: str) -> BackoffStore:
    """Return a store in which the restarts under `key` count from 0 again; its delay stays."""
    entry = store.entries.get(key)
    if entry is None or not entry.restarts:
        return store
    return store.with_entry(key, entry.model_copy(update={"restarts": 0, "counted": ""}))


def started_by_operator(store: BackoffStore, key: str, *, now: datetime) -> BackoffStore:
    """Return a store after an operator's start at `now`: the delay stays, and restarts are counted from 0 again."""
    entry = store.entries.get(key)
    return store.with_entry(key, BackoffEntry(grown=entry.grown if entry else 0, last_update=now))


def held_until(store: BackoffStore, key: str, *, now: datetime) -> datetime | None:
    """Return when the next try under `key` is due, or None when it may be made now.

    Mirrors flowcontrol's IsInBackOffSinceUpdate, which image_manager.go calls before each pull: the delay runs from the
    last failure, and an entry older than ten minutes is ignored.
    """
    entry = store.entries.get(key)
    if entry is None or _expired(entry, now) or now - entry.last_update >= entry.delay:
        return None
    return entry.last_update + entry.delay


def record_failure(
    store: BackoffStore, key: str, *, now: datetime, reason: str = "", message: str = ""
) -> BackoffStore:
    """Return a store in which `key` has failed at `now`: 10 s the first time, then twice the delay, 300 s at most."""
    delay = _next_delay(store.entries.get(key), now)
    return store.with_entry(key, BackoffEntry(delay=delay, last_update=now, reason=reason, message=message))


def forget(store: BackoffStore, key: str) -> BackoffStore:
    """Return a store without `key`: the thing that failed has succeeded, or no longer exists."""
    if key not in store.entries:
        return store
    return BackoffStore(entries={name: entry for name, entry in store.entries.items() if name != key})


def collect_garbage(
    store: BackoffStore, *, now: datetime, settings: RestartSettings = KUBELETS, current: Collection[str] = ()
) -> BackoffStore:
    """Return a store without the entries that were last set more than ten minutes ago.

    Mirrors flowcontrol's GC, which the kubelet's housekeeping calls. It can drop a crash loop in the middle of a wait,
    if the container ran for nearly ten minutes. If the pod has its own settings, a crash loop is kept as long as it can
    still delay a start. A crash loop at the pod's limit of restarts is kept while its key is in `current`.
    """
    kept = {
        key: entry
        for key, entry in store.entries.items()
        if now - entry.last_update <= _memory(key, settings)
        or (settings.limit is not None and key in current and entry.restarts >= settings.limit)
    }
    return store if len(kept) == len(store.entries) else BackoffStore(entries=kept)


def _memory(key: str, settings: RestartSettings) -> timedelta:
    if key.startswith("exempt/"):
        return max(EXPIRY, EXEMPT_AT_ONCE * settings.initial)
    if settings == KUBELETS or not (key.startswith("crash/") or key == step_key(RESTART_ALL)):
        return EXPIRY
    return max(EXPIRY, settings.reset_after + settings.maximum)


def crash_loop_key(pod: ObjectMeta, container: Container | EphemeralContainer) -> str:
    """Return the key of a container's crash loop. It depends on the pod and on the name, image and resources.

    Mirrors helpers.go, v1.36, GetBackoffKey: resources count as written, so `1` and `1000m` are two keys. The digest is
    our own (the kubelet hashes a struct as Go prints it). The name in front is for people who read a snapshot.
    """
    written = container.resources.model_dump(mode="json")
    identity = [pod.name, pod.namespace, pod.uid, container.name, container.image, written]
    return f"crash/{container.name}/{_digest(identity)}"


def image_key(pod_uid: str, image: str) -> str:
    """Return the key of an image's pull back-off, shared by the pod's containers that use the image."""
    return f"image/{pod_uid}/{image}"


def step_key(step: str, container: str = "") -> str:
    """Return the key of a failing step's back-off: `create_sandbox`, or `start` of one container."""
    return f"step/{step}/{container}" if container else f"step/{step}"


def image_backoff_message(image: str, previous_error: str) -> str:
    """Return the waiting message of ImagePullBackOff, which carries the error of the last pull (image_manager.go)."""
    message = f'Back-off pulling image "{image}"'
    return f"{message}: {previous_error}" if previous_error else message


def _expired(entry: BackoffEntry, at: datetime, settings: RestartSettings = KUBELETS) -> bool:
    return at - entry.last_update > settings.reset_after


def _next_delay(entry: BackoffEntry | None, event: datetime) -> timedelta:
    """Return the delay after a failed pull or step that follows `entry`, given the time of the failure."""
    if entry is None or _expired(entry, event):
        return FIRST_DELAY
    return min(entry.delay * KUBELETS.factor, KUBELETS.maximum)


def _digest(value: object) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
