"""The pod lifecycle event generator: notices changes in the runtime, and signals them to each pod's workflow.

For each pod it keeps two listings: the newest one read, and the newest one that the workflow has received, in a signal
or from a step. A signal carries the difference between the two as events, and the whole newest listing. So there is no
queue: each pod has at most one signal in flight, and the next signal carries everything that changed meanwhile, if
there is still a difference. Events decide nothing; they only wake the workflow.

Mirrors pleg/generic.go, v1.36. Differences: a pod's record advances when its workflow has the listing, not when the
listing was read; a pod that hangs or cannot be read does not delay other pods; a listing that a step is about to return
is not signalled too.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

from opentelemetry import trace
from temporalio.service import RPCError

from syncpod.agent import metrics
from syncpod.agent.background import cancel_all
from syncpod.cri.errors import CriError
from syncpod.lifecycle.container_gc import is_dead
from syncpod.lifecycle.observed import ObservedPod, Seq
from syncpod.lifecycle.pleg import PodLifecycleEvent, pod_lifecycle_events
from syncpod.messages.identity import PodRef
from syncpod.messages.signals import PlegEvent
from syncpod.node.reader import Relist
from syncpod.rare_lines import RareLines

log = logging.getLogger(__name__)
_tracer = trace.get_tracer("syncpod.agent")

RELIST_SECONDS = 1.0
"""genericPlegRelistPeriod."""
SECONDS_PER_POD = 0.005
"""Seconds between two relists for each pod of the node, while the relist may rest. A relist costs worker and runtime 50
to 100 µs of CPU for each pod, so relists take 1 to 2 % of a core, whatever the number of pods."""
LONGEST_REST_SECONDS = 60.0
"""The most seconds between two relists."""
OFTEN_SECONDS = 30.0
"""Seconds for which the runtime is relisted each second after an event may have been missed."""
RELIST_THRESHOLD_SECONDS = 180.0
"""genericPlegRelistThreshold: PLEG is not healthy after this many seconds without a relist."""
STEP_PATIENCE = 2.0
"""Seconds to wait for the result of a running step before its intermediate states are signalled."""
CROWD_PATIENCE = (0.1, 8.0)
"""Seconds added to `STEP_PATIENCE` for each other pod that has a running step, and the most that is added: concurrent
steps slow each other down. A signal costs the pod a workflow task, so without this a pod would cost more on a busy
node."""
NO_WORKFLOW_SECONDS = 60.0
"""Seconds until a pod that had no workflow is signalled again."""
RETRY_SECONDS = (0.1, 5.0)
"""The first pause before a failed signal is sent again, and the longest."""
FORGOTTEN_SECONDS = 60.0
"""Seconds for which a removed pod's last listing number is kept; late events may still refer to the pod."""
_RELIST = "relist"
"""The key of log lines about failed relists."""
_COMPLAINT_SECONDS = 60.0
"""Seconds between two log lines about the same failing pod, or about failing relists."""
_EVENTS_MAX = 50
"""The most events in a signal; the newest ones are kept. Events are for people; the workflow reads `status`."""


class Reader(Protocol):
    """Reads pods from the runtime. Implemented by :class:`syncpod.node.reader.PodReader`."""

    async def read(self, uid: str) -> ObservedPod:
        """Read one pod now. Raises CriError."""

    async def read_all(self) -> Relist:
        """Read all pods of this node. Raises CriError."""


Send = Callable[[PodRef, tuple[PlegEvent, ...], ObservedPod], Awaitable[bool]]
"""Sends a pod's signal; returns whether the pod has a workflow. Raises RPCError while the server is away."""


@dataclass
class _Pod:
    """PLEG's state of one pod."""

    newest: ObservedPod
    """The newest listing read."""
    known: ObservedPod | None = None
    """The newest listing that the workflow has."""
    owed: list[PlegEvent] = field(default_factory=list)
    """Events that no listing shows (`Boot`, `RuntimeReady`): sent whether or not anything changed."""
    flight: asyncio.Task[None] | None = None
    """The signal in flight."""
    steps: int = 0
    """How many steps of this pod run on the node now."""
    step_began: float = 0.0
    """Monotonic time at which the first of these steps began, or at which one of them last got its turn."""
    step_over: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when one of these steps ends."""
    no_workflow_until: float = 0.0
    """Monotonic time before which nothing is sent, because the pod had no workflow; 0 if it has one."""


class Pleg:
    """One node's PLEG. All methods belong to one event loop."""

    def __init__(
        self,
        reader: Reader,
        send: Send,
        *,
        watch: Callable[[ObservedPod], None],
        watch_unchanged: Callable[[ObservedPod], None] = lambda listing: None,
        may_rest: Callable[[], bool] = lambda: False,
    ) -> None:
        """Read with `reader` and signal with `send`.

        `watch` is called with each listing of a pod in which something has changed, including the first empty one, and
        `watch_unchanged` with each listing that shows no change. `may_rest` returns True while every end in the runtime
        is announced by events, so that relists may be rare.
        """
        self._reader = reader
        self._send = send
        self._watch = watch
        self._watch_unchanged = watch_unchanged
        self._may_rest = may_rest
        self._often_until = 0.0
        self._no_more_rest = asyncio.Event()
        self._pods: dict[str, _Pod] = {}
        self._forgotten: OrderedDict[str, tuple[float, Seq]] = OrderedDict()
        """Recently forgotten pods, oldest first: when each was forgotten, and the number of its last, empty listing."""
        self._with_steps = 0
        """How many pods have a step now."""
        self._apart: dict[str, asyncio.Task[None]] = {}
        """By UID: reads of pods that the relist could not read."""
        self._last_relist: float | None = None
        self._complaints = RareLines(_COMPLAINT_SECONDS)

    async def run(self) -> None:
        """Relist each second, or more rarely while the relist may rest, until cancelled."""
        while True:
            begun = time.monotonic()
            try:
                await self.relist()
                self._complaints.over(_RELIST)
            except CriError as error:
                self._complaints.warn(log, _RELIST, f"relist failed: {error}")
                self.relist_often()
            await asyncio.sleep(max(0.0, RELIST_SECONDS - (time.monotonic() - begun)))
            await self._rest(begun)

    def relist_often(self) -> None:
        """Relist each second for a while, from now on: something may have been missed."""
        self._often_until = time.monotonic() + OFTEN_SECONDS
        self._no_more_rest.set()

    async def _rest(self, begun: float) -> None:
        """Wait until the next relist is due, or `relist_often` is called."""
        self._no_more_rest.clear()
        if time.monotonic() < self._often_until or not self._may_rest():
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(begun + rest_seconds(len(self._pods)) - time.monotonic()):
                await self._no_more_rest.wait()

    async def relist(self) -> None:
        """List all pods once and signal the changes. Raises CriError; then no record has changed."""
        begun = time.monotonic()
        if self._last_relist is not None:
            metrics.relist_interval.record(begun - self._last_relist)
        with _tracer.start_as_current_span("relist"):
            listed = await self._reader.read_all()
        self._last_relist = begun
        while self._forgotten and begun - next(iter(self._forgotten.values()))[0] > FORGOTTEN_SECONDS:
            self._forgotten.popitem(last=False)
        changed = [listing.uid for listing in listed.pods.values() if self.observe(listing)]
        for uid, pod in tuple(self._pods.items()):
            if uid not in listed.pods and uid not in listed.failures and not _empty(pod.newest):
                self.observe(ObservedPod(seq=listed.seq, uid=uid))
                changed.append(uid)
        for uid in listed.failures:
            self._read_apart(uid)
        if listed.failures or any(not self._has_steps(uid) for uid in changed):
            # No event announced this change: one was missed, or arrives just now, which does no harm.
            self.relist_often()
        metrics.relist_duration.record(time.monotonic() - begun)
        metrics.relisted()

    def unhealthy(self) -> str:
        """Return why PLEG is not healthy, "" if it is (pleg/generic.go, v1.36, Healthy).

        Difference: the text does not say how long ago the last relist was. It goes into the node's status, which would
        otherwise change every second.
        """
        if self._last_relist is None:
            return "pleg has yet to be successful"
        if time.monotonic() - self._last_relist > RELIST_THRESHOLD_SECONDS:
            return f"pleg was last seen active more than {RELIST_THRESHOLD_SECONDS:.0f}s ago"
        return ""

    async def look(self, uid: str) -> ObservedPod:
        """Read one pod now and signal the changes; return the listing. Raises CriError."""
        listing = await self._reader.read(uid)
        self.observe(listing)
        return listing

    def observe(self, listing: ObservedPod) -> bool:
        """Take a listing, unless a newer one was read already, and signal the workflow if something changed.

        Returns whether the listing differs from the one before.
        """
        pod = self._pods.get(listing.uid)
        if pod is None:
            if _empty(listing):
                return False
            pod = self._pods[listing.uid] = _Pod(ObservedPod(uid=listing.uid))
        before = pod.newest
        if self._renew(pod, listing):
            self._settle(listing.uid, pod)
        return not _has_same_records(before, pod.newest)

    def returned(self, listing: ObservedPod) -> None:
        """Take a listing that a step is about to return to the workflow: no signal repeats it."""
        pod = self._pods.setdefault(listing.uid, _Pod(ObservedPod(uid=listing.uid)))
        self._renew(pod, listing)
        self._advance(pod, listing)
        pod.no_workflow_until = 0.0

    def step_began(self, uid: str) -> None:
        """Delay signals about this pod for a moment: a step will return the pod's listing itself."""
        pod = self._pods.setdefault(uid, _Pod(ObservedPod(uid=uid)))
        pod.steps += 1
        if pod.steps == 1:
            self._with_steps += 1
            pod.step_began = time.monotonic()

    def step_acts(self, uid: str) -> None:
        """Restart the delay of signals: the step had to wait for its turn, so its listing comes that much later."""
        pod = self._pods.get(uid)
        if pod is not None and pod.steps:
            pod.step_began = time.monotonic()

    def step_ended(self, uid: str) -> None:
        """Signal changes that the step did not return, if there are any."""
        pod = self._pods.get(uid)
        if pod is not None:
            pod.steps -= 1
            self._with_steps -= pod.steps == 0
            pod.step_over.set()
            self._settle(uid, pod)

    def busy(self, uid: str) -> bool:
        """Say whether a step of the pod began recently, so that its own listing should be awaited."""
        pod = self._pods.get(uid)
        return pod is not None and pod.steps > 0 and time.monotonic() - pod.step_began < self._patience

    async def until_not_busy(self, uid: str) -> None:
        """Wait until `busy` is False: until the pod's last step has ended, or has taken too long."""
        while self.busy(uid) and (pod := self._pods.get(uid)) is not None:
            pod.step_over.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pod.step_began + self._patience - time.monotonic()):
                    await pod.step_over.wait()

    @property
    def _patience(self) -> float:
        each, most = CROWD_PATIENCE
        return STEP_PATIENCE + min(each * max(0, self._with_steps - 1), most)

    def _has_steps(self, uid: str) -> bool:
        pod = self._pods.get(uid)
        return pod is not None and pod.steps > 0

    def newest(self, uid: str) -> ObservedPod | None:
        """Return the newest listing of the pod, if any."""
        pod = self._pods.get(uid)
        return pod.newest if pod else None

    def has_seen(self, uid: str, since: Seq) -> bool:
        """Say whether a newer listing of the pod than this number has arrived; an empty one counts too."""
        pod = self._pods.get(uid)
        newest = pod.newest.seq if pod else Seq()
        _, forgotten = self._forgotten.get(uid, (0.0, Seq()))
        return since < max(newest, forgotten)

    def listings(self) -> tuple[ObservedPod, ...]:
        """Return the newest listing of every pod."""
        return tuple(pod.newest for pod in self._pods.values())

    async def wake(self, ref: PodRef, *events: str) -> None:
        """Read the pod and signal its workflow with these events, even if nothing changed. Raises CriError."""
        self.tell(ref, await self._reader.read(ref.uid), *events)

    def tell(self, ref: PodRef, listing: ObservedPod, *events: str) -> None:
        """Signal the pod's workflow with these events, and with `listing` or a newer one."""
        pod = self._pods.setdefault(ref.uid, _Pod(ObservedPod(uid=ref.uid)))
        self._renew(pod, _named(listing, ObservedPod(name=ref.name, namespace=ref.namespace)))
        pod.owed.extend(PlegEvent(type=event, id=ref.uid) for event in events)
        pod.no_workflow_until = 0.0
        self._settle(ref.uid, pod)

    async def close(self) -> None:
        """Cancel the signals in flight, and the reads of single pods."""
        flights = (pod.flight for pod in self._pods.values() if pod.flight)
        await cancel_all([*self._apart.values(), *flights])

    def _settle(self, uid: str, pod: _Pod) -> None:
        """Send the pod's signal if one is due and none is in flight; drop the pod if its listing is empty."""
        if pod.flight is not None or time.monotonic() < pod.no_workflow_until:
            return
        if not pod.owed and self.busy(uid):
            return
        if pod.owed or _worth_telling(pod):
            pod.flight = asyncio.create_task(self._deliver(uid, pod), name=f"pleg {uid}")
        elif not pod.steps and _empty(pod.newest):
            self._forget(uid, pod)

    def _forget(self, uid: str, pod: _Pod) -> None:
        del self._pods[uid]
        self._forgotten[uid] = (time.monotonic(), pod.newest.seq)
        self._forgotten.move_to_end(uid)

    async def _deliver(self, uid: str, pod: _Pod) -> None:
        """Send the pod's newest listing until the workflow has it, or turns out not to exist."""
        pause, longest = RETRY_SECONDS
        try:
            while pod.owed or _worth_telling(pod):
                listing, signalled = pod.newest, len(pod.owed)
                events = (*pod.owed, *(PlegEvent(type=e.type, id=e.id) for e in _difference(pod)))[-_EVENTS_MAX:]
                try:
                    taken = await self._send(_ref(listing), events, listing)
                except RPCError as error:
                    log.debug("signal to pod %s/%s: %s", listing.namespace, listing.name, error)
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, longest)
                    continue
                del pod.owed[:signalled]
                if not taken:
                    self._has_no_workflow(uid, pod, len(events))
                    break
                pause, _ = RETRY_SECONDS
                self._advance(pod, listing)
        finally:
            pod.flight = None
        if self._pods.get(uid) is pod:
            self._settle(uid, pod)

    def _renew(self, pod: _Pod, listing: ObservedPod) -> bool:
        """Store the listing as the newest, unless a newer one was read already; say whether it was stored."""
        if not pod.newest.seq < listing.seq:
            return False
        before, pod.newest = pod.newest, _named(listing, pod.newest)
        (self._watch_unchanged if _has_same_records(before, listing) else self._watch)(pod.newest)
        return True

    def _advance(self, pod: _Pod, listing: ObservedPod) -> None:
        if pod.known is None or pod.known.seq < listing.seq:
            pod.known = listing

    def _has_no_workflow(self, uid: str, pod: _Pod, events: int) -> None:
        """Leave a pod without a workflow as it is: the server's database may be empty or another cluster's.

        A dead pod is not logged: most likely its workflow has completed, and the node will remove the remains.
        """
        metrics.discarded_events.add(events)
        if _empty(pod.newest) and not pod.steps:
            self._forget(uid, pod)
            return
        if pod.no_workflow_until == 0.0 and not is_dead(pod.newest):
            log.warning(
                "pod %s/%s (uid %s) is in the runtime, but no workflow asks for it; it is left as it is",
                pod.newest.namespace,
                pod.newest.name,
                pod.newest.uid,
            )
        pod.no_workflow_until = time.monotonic() + NO_WORKFLOW_SECONDS

    def _read_apart(self, uid: str) -> None:
        """Read a pod that the relist could not read, in a task of its own, since that may take long."""
        if uid not in self._apart:
            task = asyncio.create_task(self._look_quietly(uid), name=f"read {uid}")
            self._apart[uid] = task
            task.add_done_callback(lambda _: self._apart.pop(uid, None))

    async def _look_quietly(self, uid: str) -> None:
        try:
            await self.look(uid)
            self._complaints.over(uid)
        except CriError as error:
            self._complaints.warn(log, uid, f"pod {uid} cannot be read: {error}")


def rest_seconds(pods: int) -> float:
    """Return the seconds between two relists on a node with this many pods, while events announce every end.

    The kubelet then relists each 300 s (kubelet.go, v1.36, eventedPlegRelistPeriod), whatever the number of pods.
    """
    return max(RELIST_SECONDS, min(SECONDS_PER_POD * pods, LONGEST_REST_SECONDS))


def _difference(pod: _Pod) -> tuple[PodLifecycleEvent, ...]:
    """Return the events between the listing that the workflow has and the newest one."""
    known, newest = pod.known, pod.newest
    if known is not None:
        if not known.seq < newest.seq:
            return ()
        if _has_same_records(known, newest):
            return ()
    return pod_lifecycle_events(known, newest)


def _worth_telling(pod: _Pod) -> bool:
    """Say whether the difference is worth a signal.

    Two differences are not: a created container, which is about to be started, and the removal of an ended container or
    sandbox that has a successor, since no decision depends on that. The workflow's view keeps the removed one until the
    next listing.
    """
    events = _difference(pod)
    if not events:
        return False
    created = {container.id for container in pod.newest.containers if container.state == "created"}
    superseded = _superseded(pod.known) if pod.known is not None else frozenset()
    return any(
        not (event.type == "ContainerChanged" and event.id in created)
        and not (event.type == "ContainerRemoved" and event.id in superseded)
        for event in events
    )


def _superseded(listing: ObservedPod) -> frozenset[str]:
    """Return the ids of containers and sandboxes in a listing that have ended and have a successor."""
    newest = {container.id for container in listing.newest_by_name().values()}
    older = listing.ordered().sandboxes[1:]
    return frozenset(
        (
            *(each.id for each in listing.containers if each.state == "exited" and each.id not in newest),
            *(each.id for each in older if not each.ready),
        )
    )


def _named(listing: ObservedPod, earlier: ObservedPod) -> ObservedPod:
    """Return the listing with the pod's name, which an empty listing lacks."""
    if listing.name:
        return listing
    return listing.model_copy(update={"name": earlier.name, "namespace": earlier.namespace})


def _has_same_records(one: ObservedPod, other: ObservedPod) -> bool:
    # Fast, since unchanged records are identical objects: few of thousands of pods change in a second.
    return one.sandboxes == other.sandboxes and one.containers == other.containers


def _empty(listing: ObservedPod) -> bool:
    return not listing.sandboxes and not listing.containers


def _ref(listing: ObservedPod) -> PodRef:
    return PodRef(namespace=listing.namespace, name=listing.name, uid=listing.uid)
