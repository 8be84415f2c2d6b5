"""Runs the probes of the node's containers: one probe worker for each probe of each running instance.

::

    listings ──► Prober ──► a worker per probe ──► run_probe ──► a changed result ──► outbox, until acknowledged
                                  ▲   │
                                  └ schedule: one heap, one timer

Only changes of results and counts of failures are signalled. If a readiness probe fails from the start, that is
signalled once it has failed `failureThreshold` times. Mirrors prober/prober_manager.go and prober/worker.go, v1.36.
Differences:

- The first probe runs as soon as the initial delay is over, not at the next tick of the period.
- After a start of the worker the first probe is delayed by a fixed share of the period; the kubelet's share is random.
- Results survive a restart of the worker. The time for which an exec probe has waited survives it too
  (`slow_answers.py`).
- If a probe succeeds with a warning, only the first such answer in a row is reported.
- This module counts failures, and how often a probe cannot be run. A count is signalled at 1, 10, 100 and so on, and
  when the instance ends; the count of failures is also signalled with a change of the result. Events that are read
  through the node's API include all of them.
"""

from __future__ import annotations

import asyncio
import logging
import time
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial

from syncpod.agent.probing.outbox import Outbox, Send
from syncpod.agent.probing.results import read_results, read_slow, write_results
from syncpod.agent.probing.run_probe import run_probe, with_static_variables
from syncpod.agent.probing.schedule import Schedule
from syncpod.agent.probing.slow_answers import NOT_SLOW, Slow, SlowAnswers
from syncpod.agent.probing.unreported import UnreportedFailures
from syncpod.agent.probing.worker import ProbeWorker, Report
from syncpod.cri.port import CriRuntime
from syncpod.go_durations import go_duration
from syncpod.handlers.answer import NoAnswer, ProbeAnswer, Target
from syncpod.kernel.os_errors import where_and_why
from syncpod.lifecycle.observed import ObservedContainer, ObservedPod
from syncpod.lifecycle.probing import (
    PROBE_TYPES,
    ProbeResult,
    ProbeState,
    ProbeType,
    error_text,
    failure_text,
    first_state,
    period_seconds,
    probe_of,
)
from syncpod.lifecycle.restart import is_sidecar
from syncpod.messages.identity import PodRef
from syncpod.messages.signals import ProbeChanged
from syncpod.node.pod_records import read_pod_record
from syncpod.node.start_marks import read_start_mark
from syncpod.pod import Container, Pod, Probe
from syncpod.redaction import of_process
from syncpod.translation.context import NodeContext

log = logging.getLogger(__name__)

_TEXT_LIMIT = 1000
"""The most characters of a probe's output that are sent to the workflow, which keeps 1,024 characters of an event."""

CountProbe = Callable[[str, str, PodRef, str, float], None]
"""Takes the type of a probe, `successful`, `failed` or `unknown`, the pod, the container, and the seconds it took."""

_STEPS_ARE_BACK_SECONDS = 60.0
"""Seconds after a worker's start within which Temporal retries the steps that the previous worker was running."""

_AS_BEFORE = "result from before the pod was adopted"
"""The text of a repeated result: the original output was sent to a workflow that no longer exists."""


@dataclass
class _Instance:
    """One running container that has probes."""

    container: Container
    observed: ObservedContainer
    workers: tuple[ProbeWorker, ...] = ()
    slow: dict[ProbeType, SlowAnswers] = field(default_factory=dict)
    """By type: the measurement of its exec probe's answers."""


@dataclass
class _Pod:
    """A pod with a running container that has probes, or with results that were not sent yet."""

    ref: PodRef
    spec: Pod
    listing: ObservedPod
    outbox: Outbox
    results: dict[tuple[str, ProbeType], ProbeResult]
    """The results that the workflow has received, by container id and type."""
    slow: dict[tuple[str, ProbeType], Slow]
    """How slow its exec probes are, by container id and type."""
    instances: dict[str, _Instance] = field(default_factory=dict)
    """By container id."""


class Prober:
    """The prober of one node. All methods belong to one event loop."""

    def __init__(
        self,
        cri: CriRuntime,
        node: NodeContext,
        send: Send,
        *,
        host_ip: Callable[[], str],
        unprobed: Collection[tuple[str, str]] = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Probe through `cri` and the network, and signal with `send`.

        `host_ip` returns the address of pods on the host network. `unprobed` has the pod's UID and the name of each
        container whose postStart hook still runs: it is not probed. The collection changes over time.
        """
        self._unprobed = unprobed
        self._cri = cri
        self._node = node
        self._send = send
        self._host_ip = host_ip
        self._clock = clock
        self._born = clock()
        self._schedule = Schedule()
        self._pods: dict[str, _Pod] = {}
        self._count: CountProbe | None = None
        self._without: dict[str, frozenset[str]] = {}
        """By pod UID: the container ids of a pod without probes, whose record need not be read again."""
        self._complaints: dict[str, str] = {}
        """By pod UID: why the pod's record cannot be read; each reason is logged once."""

    def count_probes(self, count: CountProbe) -> None:
        """Call `count` with each probe that ends."""
        self._count = count

    def observe(self, listing: ObservedPod) -> None:
        """Take a listing: start probing containers that have started, and stop probing those that no longer run."""
        running = {
            c.id: c
            for c in listing.containers
            if c.state == "running" and c.started_at is not None and (listing.uid, c.name) not in self._unprobed
        }
        pod = self._pods.get(listing.uid) or (self._meet(listing) if running else None)
        if not running:
            self._without.pop(listing.uid, None)
            self._complaints.pop(listing.uid, None)
        if pod is None:
            return
        pod.listing = listing
        for container_id in tuple(pod.instances):
            if container_id not in running:
                _end(pod.instances.pop(container_id).workers)
        for container_id, observed in running.items():
            if container_id in pod.instances or (container := _with_probes(pod.spec, observed.name)) is None:
                continue
            if not self._awaits_hook(listing.uid, container, observed):
                pod.instances[container_id] = self._begin(pod, container, observed)
        self._forget_if_done(pod)

    def ending(self, uid: str) -> None:
        """Note that the pod is being killed: only its readiness probes continue, until its containers have ended.

        Mirrors prober_manager.go, v1.36, StopLivenessAndStartup.
        """
        pod = self._pods.get(uid)
        for instance in pod.instances.values() if pod is not None else ():
            _end(worker for worker in instance.workers if worker.state.type != "readiness")

    def send_again(self, uid: str) -> None:
        """Send all results of a pod again, since its new workflow has received none of them."""
        pod = self._pods.get(uid)
        if pod is None:
            return
        for instance in pod.instances.values():
            for worker in instance.workers:
                if worker.state.settled:
                    answer = ProbeAnswer("failure" if worker.state.result == "failure" else "success", _AS_BEFORE)
                    self._tell(pod, instance, worker.state, Report(worker.state.result, answer))

    def unreported(self, uid: str) -> tuple[UnreportedFailures, ...]:
        """Return the failures of a pod's probes that were not signalled yet, and its exec probes that are overdue."""
        pod = self._pods.get(uid)
        instances = tuple(pod.instances.values()) if pod is not None else ()
        failed = (
            UnreportedFailures(
                container=instance.container.name,
                message=said(worker.state.type, _text(counted.text)),
                failures=counted.unreported,
                at=datetime.fromtimestamp(at, UTC),
            )
            for instance in instances
            for worker in instance.workers
            for counted, at, said in (
                (worker.failures, worker.failed_at, failure_text),
                (worker.errors, worker.errored_at, error_text),
            )
            if counted.unreported
        )
        return (*failed, *(overdue for instance in instances for overdue in _overdue(instance)))

    async def close(self) -> None:
        """Stop probing and signalling."""
        self._schedule.close()
        workers = [worker for pod in self._pods.values() for one in pod.instances.values() for worker in one.workers]
        asked = [worker.task for worker in workers if worker.task is not None]
        _end(workers)
        await asyncio.gather(*asked, *(pod.outbox.close() for pod in self._pods.values()), return_exceptions=True)

    def _meet(self, listing: ObservedPod) -> _Pod | None:
        """Read a pod's record, and begin to keep the pod; None if it has no probes, or the record cannot be read."""
        present = frozenset(container.id for container in listing.containers)
        if self._without.get(listing.uid) == present:
            return None
        try:
            record = read_pod_record(self._node, listing.uid)
        except OSError as error:
            if self._complaints.get(listing.uid) != where_and_why(error):
                log.warning("pod %s/%s is not probed for now: %s", listing.namespace, listing.name, error)
            self._complaints[listing.uid] = where_and_why(error)
            return None
        self._complaints.pop(listing.uid, None)
        if record is None or not any(_with_probes(record.pod, container.name) for container in listing.containers):
            self._without[listing.uid] = present
            return None
        self._without.pop(listing.uid, None)
        ref = PodRef(namespace=listing.namespace, name=listing.name, uid=listing.uid)
        outbox = Outbox(
            ref,
            self._send,
            taken=lambda change: self._keep(pod, change),
            emptied=lambda: self._forget_if_done(pod),
        )
        pod = _Pod(
            ref, record.pod, listing, outbox, read_results(self._node, listing.uid), read_slow(self._node, listing.uid)
        )
        self._pods[listing.uid] = pod
        return pod

    def _awaits_hook(self, uid: str, container: Container, observed: ObservedContainer) -> bool:
        """Say whether the previous worker died during the container's postStart hook, which must run again first.

        Temporal retries that step soon after this worker's start. If it does not, because the pod's workflow is gone,
        the container is probed after `_STEPS_ARE_BACK_SECONDS`.
        """
        if container.lifecycle is None or container.lifecycle.post_start is None:
            return False
        if self._clock() - self._born > _STEPS_ARE_BACK_SECONDS:
            return False
        try:
            mark = read_start_mark(self._node, uid, container.name)
        except OSError:
            return False
        return mark is not None and mark.id == observed.id and mark.hook_pending

    def _forget_if_done(self, pod: _Pod) -> None:
        if not pod.instances and not pod.outbox and self._pods.get(pod.ref.uid) is pod:
            del self._pods[pod.ref.uid]

    def _begin(self, pod: _Pod, container: Container, observed: ObservedContainer) -> _Instance:
        instance = _Instance(container, observed)
        started = container.startup_probe is None or pod.results.get((observed.id, "startup")) == "success"
        workers = []
        for type_ in PROBE_TYPES:
            probe = probe_of(container, type_)
            if probe is not None:
                key = observed.id, type_
                slow = pod.slow.get(key, NOT_SLOW)
                if probe.exec is not None:
                    instance.slow[type_] = SlowAnswers(probe, slow, partial(self._note_slow, pod, key))
                worker = ProbeWorker(
                    f"{type_} probe of {container.name} in {pod.ref.namespace}/{pod.ref.name}",
                    first_state(type_, pod.results.get(key), slow.failures),
                    probe,
                    self._schedule,
                    partial(self._ask, pod, instance, type_),
                    partial(self._tell, pod, instance),
                    started=started,
                )
                worker.begin(self._first_delay(observed, type_, probe))
                workers.append(worker)
        instance.workers = tuple(workers)
        return instance

    def _first_delay(self, observed: ObservedContainer, type_: ProbeType, probe: Probe) -> float:
        """Return the seconds until the first probe: a fixed share more if the container is older than the worker."""
        began = observed.started_at.timestamp() if observed.started_at is not None else self._clock()
        delay = max(0.0, began + (probe.initial_delay_seconds or 0) - self._clock())
        if began >= self._born:
            return delay
        share = zlib.crc32(f"{observed.id}/{type_}".encode()) % 1000 / 1000
        return delay + share * period_seconds(probe)

    async def _ask(self, pod: _Pod, instance: _Instance, type_: ProbeType, probe: Probe) -> ProbeAnswer:
        began, result = time.monotonic(), "unknown"
        try:
            # Expanded for each run and not cached, since commands of many containers would take much memory.
            expanded = with_static_variables(probe, instance.container)
            ask = partial(run_probe, expanded, self._target(pod, instance), self._cri)
            if expanded.exec is not None:
                answer = await instance.slow[type_].answer(expanded.exec, ask)
            else:
                answer = await ask()
            result = "failed" if answer.result == "failure" else "successful"
        except NoAnswer as error:
            log.debug("%s probe of %s in %s: %s", type_, instance.container.name, pod.ref.name, error)
            raise
        finally:
            if self._count is not None:
                self._count(type_, result, pod.ref, instance.container.name, time.monotonic() - began)
        return answer

    def _target(self, pod: _Pod, instance: _Instance) -> Target:
        ready = next((sandbox for sandbox in pod.listing.sandboxes if sandbox.ready), None)
        on_node = pod.spec.spec.host_network
        ip = self._host_ip() if on_node else (ready.ip or "" if ready is not None else "")
        ports = {port.name: port.container_port for port in instance.container.ports if port.name}
        return Target(pod.ref.uid, instance.observed.id, ip, ports)

    # --- signalling ---------------------------------------------------------------------------------------------------

    def _tell(self, pod: _Pod, instance: _Instance, state: ProbeState, report: Report) -> None:
        change = ProbeChanged(
            uid=pod.ref.uid,
            container=instance.container.name,
            container_id=instance.observed.id,
            probe=state.type,
            result=report.result,
            message=_text(report.answer.text),
            warning=report.answer.result == "warning",
            failures=report.failures.unreported,
            failure=_text(report.failures.text) if report.answer.result != "failure" else "",
            errors=report.errors.unreported,
        )
        pod.outbox.put(change)
        if state.type == "startup" and report.result == "success":
            for worker in instance.workers:
                worker.container_started()

    def _keep(self, pod: _Pod, change: ProbeChanged) -> None:
        """Store a result that the workflow has received, for the next worker; `unknown` changes no result."""
        if change.result == "unknown":
            return
        pod.results[change.container_id, change.probe] = change.result
        self._store(pod)

    def _note_slow(self, pod: _Pod, key: tuple[str, ProbeType], slow: Slow) -> None:
        """Store for the next worker how long an exec probe has waited for an answer."""
        pod.slow[key] = slow
        self._store(pod)

    def _store(self, pod: _Pod) -> None:
        present = {container.id for container in pod.listing.containers}
        pod.results = {known: result for known, result in pod.results.items() if known[0] in present}
        pod.slow = {known: slow for known, slow in pod.slow.items() if known[0] in present}
        try:
            write_results(self._node, pod.ref.uid, pod.results, pod.slow)
        except OSError as error:
            log.warning("the probe results of pod %s cannot be stored: %s", pod.ref.uid, error)


def _with_probes(pod: Pod, name: str) -> Container | None:
    """Return the main container or sidecar with that name, if it has probes."""
    asked = (*pod.spec.containers, *(one for one in pod.spec.init_containers if is_sidecar(one)))
    return next((one for one in asked if one.name == name and any(probe_of(one, type_) for type_ in PROBE_TYPES)), None)


def _overdue(instance: _Instance) -> Iterator[UnreportedFailures]:
    """Yield a record of each exec probe whose answer from the runtime is overdue."""
    for type_, slow in instance.slow.items():
        if slow.overdue_since is not None:
            since = datetime.fromtimestamp(slow.overdue_since, UTC)
            fails = go_duration(timedelta(seconds=slow.limit_seconds))
            said = f"no answer from the runtime since {since:%FT%TZ}; without one it fails after {fails}"
            yield UnreportedFailures(
                instance.container.name, f"{type_.capitalize()} probe is overdue: {said}", 1, since
            )


def _end(workers: Iterable[ProbeWorker]) -> None:
    for worker in workers:
        worker.end()


def _text(answer: str) -> str:
    """Return the part of a probe's output that is sent, without values of Secrets."""
    return of_process.part(answer, 0, _TEXT_LIMIT)
