"""The probe workers of one node: one for each probe of each container instance that runs.

::

    listings ──► Prober ──► one task per probe ──► ask ──► a changed result ──► the pod's signals, until acknowledged

Nothing is said while nothing changes; that a container is not ready from the start is said once it has failed its
probe often enough. Mirrors prober/prober_manager.go and prober/worker.go, v1.36. Differences: the
first question is asked as soon as the delay is over, not at the next tick of the period; after a worker's start it is
put off by a fixed share of the period, where the kubelet's is random; results survive a restart of the worker.
"""

from __future__ import annotations

import asyncio
import logging
import time
import zlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from temporalio.service import RPCError

from syncpod.agent import metrics
from syncpod.agent.probing.ask import ask
from syncpod.agent.probing.results import read_results, write_results
from syncpod.cri.node import NodeContext
from syncpod.cri.pod_records import read_pod_record
from syncpod.cri.port import CriRuntime
from syncpod.handlers.answer import Answer, NoAnswer, Target
from syncpod.lifecycle.observed import ObservedContainer, ObservedPod
from syncpod.lifecycle.probing import (
    PROBE_TYPES,
    ProbeResult,
    ProbeState,
    ProbeType,
    answered,
    begin,
    period_seconds,
    probe_of,
    says_something,
    waits_for_start,
)
from syncpod.lifecycle.restart import is_sidecar
from syncpod.messages import PodRef, ProbeChanged
from syncpod.pod import Container, Pod, Probe

log = logging.getLogger(__name__)

Send = Callable[[PodRef, ProbeChanged], Awaitable[bool]]
"""Signals a changed result; returns whether there was a workflow to take it. Raises RPCError while nobody answers."""

_RETRY_SECONDS = (0.1, 5.0)
_TEXT_LIMIT = 1024
"""Characters of an answer that the pod is told."""


@dataclass
class _Instance:
    """One running container that has probes."""

    container: Container
    observed: ObservedContainer
    started: asyncio.Event = field(default_factory=asyncio.Event)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)


@dataclass
class _Pod:
    """A pod of which something runs that has probes."""

    ref: PodRef
    spec: Pod
    listing: ObservedPod
    results: dict[tuple[str, ProbeType], ProbeResult]
    """What the workflow has been told, by container id and type."""
    instances: dict[str, _Instance] = field(default_factory=dict)
    """By container id."""
    outbox: dict[tuple[str, ProbeType], ProbeChanged] = field(default_factory=dict)
    """What is still to be told: the newest of each probe."""
    flight: asyncio.Task[None] | None = None


class Prober:
    """The probe workers of one node. All methods belong to one event loop."""

    def __init__(
        self,
        cri: CriRuntime,
        node: NodeContext,
        send: Send,
        *,
        host_ip: Callable[[], str],
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Ask by `cri` and the network, tell by `send`; `host_ip` is where pods on the node's network are asked."""
        self._cri = cri
        self._node = node
        self._send = send
        self._host_ip = host_ip
        self._clock = clock
        self._born = clock()
        self._pods: dict[str, _Pod] = {}
        self._without: dict[str, frozenset[str]] = {}
        """Pods without probes, by UID, with the containers that were seen of them: they cost nothing further."""

    def observe(self, listing: ObservedPod) -> None:
        """Take a listing: ask what has begun to run, and stop asking what no longer does."""
        running = {c.id: c for c in listing.containers if c.state == "running" and c.started_at is not None}
        pod = self._pods.get(listing.uid) or (self._meet(listing) if running else None)
        if not running:
            self._without.pop(listing.uid, None)
        if pod is None:
            return
        pod.listing = listing
        for container_id in tuple(pod.instances):
            if container_id not in running:
                _cancel(pod.instances.pop(container_id))
        for container_id, observed in running.items():
            if container_id not in pod.instances and (container := _with_probes(pod.spec, observed.name)) is not None:
                pod.instances[container_id] = self._begin(pod, container, observed)
        if not pod.instances and not pod.outbox:
            del self._pods[listing.uid]

    async def close(self) -> None:
        """Stop asking; nothing is told any more."""
        tasks = [task for pod in self._pods.values() for one in pod.instances.values() for task in one.tasks]
        tasks += [pod.flight for pod in self._pods.values() if pod.flight is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _meet(self, listing: ObservedPod) -> _Pod | None:
        """Read what a pod's containers are to be asked; None where there is nothing to ask."""
        present = frozenset(container.id for container in listing.containers)
        if self._without.get(listing.uid) == present:
            return None
        record = read_pod_record(self._node, listing.uid)
        if record is None or not any(_with_probes(record.pod, container.name) for container in listing.containers):
            self._without[listing.uid] = present
            return None
        self._without.pop(listing.uid, None)
        ref = PodRef(namespace=listing.namespace, name=listing.name, uid=listing.uid)
        pod = _Pod(ref, record.pod, listing, read_results(self._node, listing.uid))
        self._pods[listing.uid] = pod
        return pod

    def _begin(self, pod: _Pod, container: Container, observed: ObservedContainer) -> _Instance:
        instance = _Instance(container, observed)
        if container.startup_probe is None or pod.results.get((observed.id, "startup")) == "success":
            instance.started.set()
        for type_ in PROBE_TYPES:
            probe = probe_of(container, type_)
            if probe is not None:
                work = self._work(pod, instance, type_, probe)
                instance.tasks.append(asyncio.create_task(work, name=f"{type_} {pod.ref.name}/{container.name}"))
        return instance

    async def _work(self, pod: _Pod, instance: _Instance, type_: ProbeType, probe: Probe) -> None:
        """Ask one probe of one instance until it is on hold or the instance is gone."""
        state = begin(type_, pod.results.get((instance.observed.id, type_)))
        period = period_seconds(probe)
        await asyncio.sleep(self._first_delay(instance, type_, probe))
        while not state.on_hold:
            if waits_for_start(type_, started=instance.started.is_set()):
                await instance.started.wait()
            asked = time.monotonic()
            try:
                state = await self._ask(pod, instance, state, probe)
            except Exception:  # whatever it is, a container is not to be left unasked for good
                log.exception("%s probe of %s in %s", type_, instance.container.name, pod.ref.name)
            await asyncio.sleep(max(0.0, period - (time.monotonic() - asked)))

    def _first_delay(self, instance: _Instance, type_: ProbeType, probe: Probe) -> float:
        """Return the seconds until the first question; those that ran before this worker did are spread out."""
        started_at = instance.observed.started_at
        began = started_at.timestamp() if started_at is not None else self._clock()
        delay = max(0.0, began + (probe.initial_delay_seconds or 0) - self._clock())
        if began >= self._born:
            return delay
        share = zlib.crc32(f"{instance.observed.id}/{type_}".encode()) % 1000 / 1000
        return delay + share * period_seconds(probe)

    async def _ask(self, pod: _Pod, instance: _Instance, state: ProbeState, probe: Probe) -> ProbeState:
        began = time.monotonic()
        try:
            answer = await ask(probe, self._target(pod, instance), self._cri)
        except NoAnswer as error:
            metrics.probed(state.type, "unknown", pod.ref, instance.container.name, time.monotonic() - began)
            log.debug("%s probe of %s in %s: %s", state.type, instance.container.name, pod.ref.name, error)
            return state
        success = answer.result != "failure"
        result: ProbeResult = "success" if success else "failure"
        took = time.monotonic() - began
        metrics.probed(state.type, "successful" if success else "failed", pod.ref, instance.container.name, took)
        after = answered(state, probe, result)
        if says_something(state, after):
            self._tell(pod, instance, after, answer)
        if after.type == "startup" and after.result == "success":
            instance.started.set()
        return after

    def _target(self, pod: _Pod, instance: _Instance) -> Target:
        ready = next((sandbox for sandbox in pod.listing.sandboxes if sandbox.ready), None)
        on_node = pod.spec.spec.host_network
        ip = self._host_ip() if on_node else (ready.ip or "" if ready is not None else "")
        ports = {port.name: port.container_port for port in instance.container.ports if port.name}
        return Target(instance.observed.id, ip, ports)

    # --- telling ------------------------------------------------------------------------------------------------------

    def _tell(self, pod: _Pod, instance: _Instance, state: ProbeState, answer: Answer) -> None:
        key = (instance.observed.id, state.type)
        pod.outbox[key] = ProbeChanged(
            uid=pod.ref.uid,
            container=instance.container.name,
            container_id=instance.observed.id,
            probe=state.type,
            result=state.result,
            message=answer.text[:_TEXT_LIMIT],
            warning=answer.result == "warning",
        )
        if pod.flight is None:
            pod.flight = asyncio.create_task(self._deliver(pod), name=f"probes of {pod.ref.name}")

    async def _deliver(self, pod: _Pod) -> None:
        """Send what is to be told, the newest of each probe, until the workflow has it or there is none."""
        pause, longest = _RETRY_SECONDS
        try:
            while pod.outbox:
                key, change = next(iter(pod.outbox.items()))
                try:
                    taken = await self._send(pod.ref, change)
                except RPCError as error:
                    log.debug("probe signal to %s/%s: %s", pod.ref.namespace, pod.ref.name, error)
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, longest)
                    continue
                pause, _ = _RETRY_SECONDS
                if pod.outbox.get(key) is change:
                    del pod.outbox[key]
                if taken:
                    self._keep(pod, key, change)
        finally:
            pod.flight = None

    def _keep(self, pod: _Pod, key: tuple[str, ProbeType], change: ProbeChanged) -> None:
        present = {container.id for container in pod.listing.containers}
        pod.results = {known: result for known, result in pod.results.items() if known[0] in present}
        pod.results[key] = change.result
        try:
            write_results(self._node, pod.ref.uid, pod.results)
        except OSError as error:
            log.warning("the probes' results of pod %s cannot be kept: %s", pod.ref.uid, error)


def _with_probes(pod: Pod, name: str) -> Container | None:
    """Return the pod's container of that name if it is one that is asked: a main container or a sidecar with probes."""
    asked = (*pod.spec.containers, *(one for one in pod.spec.init_containers if is_sidecar(one)))
    return next((one for one in asked if one.name == name and any(probe_of(one, type_) for type_ in PROBE_TYPES)), None)


def _cancel(instance: _Instance) -> None:
    for task in instance.tasks:
        task.cancel()
