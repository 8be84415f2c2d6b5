"""resize_pod: apply the resources that are allocated to a pod to its running containers and its cgroup."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Mapping
from typing import Literal

from activities.node.clock import monotonic
from activities.node.metrics import time_resize
from activities.step_attempt import PodFault, StepAttempt
from syncpod.cri.errors import CriError, NotFound, TransportFault, Unimplemented
from syncpod.cri.port import ContainerStats, LinuxResources
from syncpod.kernel.os_errors import where_and_why
from syncpod.messages.steps import Amounts, ContainerUpdate, Fault, ResizePod, StepResult
from syncpod.node.pod_cgroups import (
    Enforced,
    LimitsRefused,
    change_pod_cgroup,
    read_memory_limit,
    read_pod_cgroup,
    weigh_tiers,
)
from syncpod.pod import Container, ResourceRequirements
from syncpod.translation.cgroup_limits import CgroupLimits, pod_limits
from syncpod.translation.resources import PERIOD_US, container_resources, overhead_resources

STATS_SECONDS = 10.0
"""How long the runtime may take to measure a pod's containers."""

Resource = Literal["memory", "cpu"]


async def resize_pod(attempt: StepAttempt, request: ResizePod) -> StepResult:
    """Apply the resources that are allocated to a pod: first memory, then CPU.

    Each resource is changed in this order, so that a container's limit never exceeds its pod's:

    1. the pod's limit and weight, where they grow;
    2. the containers, in the order given;
    3. the pod's weight, where it shrinks, and then its limit.

    Nothing is changed if a memory limit would fall to the current usage or below. At the end the CPU weight of the
    node's burstable tier is set from the sum of its pods' requests.

    The current values are read from the kernel first, so a retry skips changes that an earlier attempt made. The fault
    contains the changes that were made before the failure. A container that has gone meanwhile is skipped.

    Mirrors kuberuntime_manager.go, v1.36, doPodResizeAction, validateMemoryResizeAction, updatePodContainerResources.
    Differences: a new limit where there was none counts as a decrease, and is applied last. The runtime gets only the
    changed values of the sandbox, and no change is rolled back if the kernel refuses one. A container that requests no
    CPU keeps the weight of its limit, with which it was created. Raises PodFault ResizePodInPlaceError.
    """
    resize = _Resize(attempt, request)
    began, done = monotonic(), False
    try:
        await resize.run()
        done = True
    except (LimitsRefused, OSError) as error:
        raise resize.failed(where_and_why(error)) from error
    except TransportFault:
        raise
    except CriError as error:
        raise resize.failed(error.message) from error
    finally:
        time_resize(monotonic() - began, done=done)
    return StepResult()


class _Resize:
    """One try of a resize, with the changes that it has already applied."""

    def __init__(self, attempt: StepAttempt, request: ResizePod) -> None:
        self.attempt = attempt
        self.request = request
        self.cri = attempt.node.cri
        self.context = attempt.node.context
        self.wanted = pod_limits(request.pod, self.context.host)
        self.given: dict[str, Amounts] = {}
        """Each container's resources after its last update, by container name."""

    async def run(self) -> None:
        pod = self.request.pod
        self.attempt.doing = "reads the limits of the pod's cgroup"
        enforced = await asyncio.to_thread(read_pod_cgroup, self.context, pod)
        await self._check_memory(enforced)
        await self._apply("memory", self.request.memory, *_changes_of_memory(enforced, self.wanted))
        await self._apply("cpu", self.request.cpu, *_changes_of_cpu(enforced, self.wanted))
        async with self.attempt.node.ledger.open() as page:
            await asyncio.to_thread(weigh_tiers, self.context, page.burstable_milli_cpu)

    def failed(self, message: str) -> PodFault:
        """Build the fault, with the changes that were applied before the failure."""
        actuated = {name: _written(amounts) for name, amounts in self.given.items()}
        return PodFault(Fault.RESIZE_POD_IN_PLACE_ERROR, message, actuated=actuated)

    # --- before anything ----------------------------------------------------------------------------------------------

    async def _check_memory(self, enforced: Enforced) -> None:
        """Raise PodFault if a memory limit would shrink to the current usage or below."""
        shrinking = [each for each in self.request.memory if await self._shrinks(each)]
        whole = self.wanted.memory
        pod_shrinks = whole is not None and whole < _or_infinite(enforced.memory)
        if not shrinking and not pod_shrinks:
            return
        self.attempt.doing = "measures the memory that is used"
        measured = await self.cri.list_container_stats(
            sandbox_id=self.request.sandbox_id, timeout_seconds=STATS_SECONDS
        )
        usage = {stats.id: used for stats in measured if (used := _memory_used(stats)) is not None}
        wrong: list[str] = []
        if pod_shrinks and whole is not None:
            used = enforced.memory_usage if enforced.memory_usage is not None else sum(usage.values())
            if used >= whole:
                wrong.append(f"attempting to set pod memory limit ({whole}) below current usage ({used})")
        for update in shrinking:
            limit, mine = update.desired.memory_limit, usage.get(update.id)
            if mine is None:
                wrong.append(f'missing container "{update.name}" memory usage')
            elif mine >= limit:
                wrong.append(
                    f'attempting to set container "{update.name}" memory limit ({limit}) below current usage ({mine})'
                )
        if wrong:
            text = wrong[0] if len(wrong) == 1 else f"[{', '.join(wrong)}]"
            raise self.failed(f"cannot decrease memory limits: {text}")

    async def _shrinks(self, update: ContainerUpdate) -> bool:
        """Return whether a container's memory limit has yet to shrink; an earlier attempt may have shrunk it."""
        wanted, current = update.desired.memory_limit, update.current.memory_limit
        if not wanted or (current and wanted >= current):
            return False
        limit = await asyncio.to_thread(read_memory_limit, self.context, self.request.pod, update.id)
        return limit is None or limit > wanted

    # --- one resource -------------------------------------------------------------------------------------------------

    async def _apply(
        self,
        resource: Resource,
        updates: tuple[ContainerUpdate, ...],
        grows: tuple[CgroupLimits, ...],
        shrinks: tuple[CgroupLimits, ...],
    ) -> None:
        for limits in grows:
            await self._change_pod(limits)
        for update in updates:
            await self._update(resource, update)
        for limits in shrinks:
            await self._change_pod(limits)

    async def _change_pod(self, limits: CgroupLimits) -> None:
        """Send the pod's new limits to the runtime, which may refuse them, and then write them to the pod's cgroup."""
        pod, host = self.request.pod, self.context.host
        self.attempt.doing = "changes the limits of the pod as a whole"
        self.attempt.checkpoint()
        with contextlib.suppress(Unimplemented):  # most runtimes do not implement it
            await self.cri.update_pod_sandbox_resources(
                self.request.sandbox_id, overhead=overhead_resources(pod, host), resources=_as_resources(limits)
            )
        await asyncio.to_thread(change_pod_cgroup, self.context, pod, limits)

    async def _update(self, resource: Resource, update: ContainerUpdate) -> None:
        """Update one resource of a container; the other resource keeps its last value."""
        current = self.given.get(update.name, update.current)
        names = ("memory_limit", "memory_request") if resource == "memory" else ("cpu_limit", "cpu_request")
        amounts = current.model_copy(update={name: getattr(update.desired, name) for name in names})
        container = self._container(update.name).model_copy(update={"resources": _written(amounts)})
        self.attempt.doing = f"changes the {resource} of {update.name}"
        self.attempt.checkpoint()
        resources = container_resources(self.request.pod, container, self.context.host)
        try:
            await self.cri.update_container_resources(update.id, resources)
        except NotFound:
            return  # it has ended and is gone; its successor starts with the allocated resources
        self.given[update.name] = amounts

    def _container(self, name: str) -> Container:
        spec = self.request.pod.spec
        return next(each for each in (*spec.containers, *spec.init_containers) if each.name == name)


_Changes = tuple[tuple[CgroupLimits, ...], tuple[CgroupLimits, ...]]
"""Changes to the pod as a whole: increases, made before its containers' changes, and decreases, made after them."""


def _changes_of_memory(enforced: Enforced, wanted: CgroupLimits) -> _Changes:
    limit = CgroupLimits(memory=wanted.memory)
    return _sorted((limit, _or_infinite(enforced.memory), wanted.memory))


def _changes_of_cpu(enforced: Enforced, wanted: CgroupLimits) -> _Changes:
    limit, shares = CgroupLimits(cpu_quota=wanted.cpu_quota), CgroupLimits(cpu_shares=wanted.cpu_shares)
    weighs = enforced.cpu_shares if enforced.cpu_shares is not None else wanted.cpu_shares
    return _sorted(
        (limit, _or_infinite(enforced.cpu_quota), wanted.cpu_quota), (shares, weighs or 0, wanted.cpu_shares)
    )


def _sorted(*changes: tuple[CgroupLimits, float, int | None]) -> _Changes:
    """Sort changes into increases, with the limit first, and decreases, with the limit last.

    A limit that is no longer wanted stays, since limits cannot be removed.
    """
    grows = tuple(limits for limits, now, then in changes if then is not None and then > now)
    shrinks = tuple(limits for limits, now, then in reversed(changes) if then is not None and then < now)
    return grows, shrinks


def _or_infinite(limit: int | None) -> float:
    return math.inf if limit is None else limit


def _as_resources(limits: CgroupLimits) -> LinuxResources:
    quota = limits.cpu_quota or 0
    return LinuxResources(
        memory_limit_in_bytes=limits.memory or 0,
        cpu_quota=quota,
        cpu_period=PERIOD_US if quota else 0,
        cpu_shares=limits.cpu_shares or 0,
    )


def _memory_used(stats: ContainerStats) -> int | None:
    used = stats.memory.usage_bytes if stats.memory is not None else None
    return used if used is not None else stats.working_set_bytes


def _written(amounts: Amounts) -> ResourceRequirements:
    """Return amounts as in a manifest, without those that are not set."""
    return ResourceRequirements(
        limits=_nonzero(memory=amounts.memory_limit, cpu=amounts.cpu_limit),
        requests=_nonzero(memory=amounts.memory_request, cpu=amounts.cpu_request),
    )


def _nonzero(*, memory: int, cpu: int) -> Mapping[str, str]:
    found = {"memory": str(memory)} if memory else {}
    return found | ({"cpu": f"{cpu}m"} if cpu else {})
