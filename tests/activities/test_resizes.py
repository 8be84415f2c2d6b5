"""Resizes: the resources that a node allocates to pods, and their application to running containers.

Holds: Desired, allocated and applied resources are three things.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from activities.node.ledger import Ledger
from syncpod.cri.errors import RuntimeFailure, Unavailable
from syncpod.cri.port import LinuxResources
from syncpod.lifecycle.actions import StepName
from syncpod.messages.steps import AllocateResources, Allocation, Amounts, ContainerUpdate, Fault, ResizePod
from syncpod.node.directories import remove_pod_files
from syncpod.pod import Pod, ResourceRequirements, resized
from tests.activities.bench import Bench, PodOnBench, container, fault_of
from tests.runtimes import kernel_limits

MIB = 1 << 20
SMALL = Amounts(memory_limit=64 * MIB, memory_request=32 * MIB, cpu_limit=200, cpu_request=100)
LARGE = Amounts(memory_limit=128 * MIB, memory_request=32 * MIB, cpu_limit=400, cpu_request=200)

by_cgroups_of_the_kernel = pytest.mark.skipif(
    not kernel_limits.IS_THERE, reason="the CPU controller is not mounted here"
)


def written(amounts: Amounts) -> dict[str, Any]:
    return {
        "limits": {"cpu": f"{amounts.cpu_limit}m", "memory": str(amounts.memory_limit)},
        "requests": {"cpu": f"{amounts.cpu_request}m", "memory": str(amounts.memory_request)},
    }


def asking(pod: Pod, amounts: Amounts, *names: str) -> Pod:
    """The pod with these resources for the named containers, or for all if none is named."""
    chosen = names or tuple(each.name for each in pod.spec.containers)
    return resized(pod, {"containers": [{"name": name, "resources": written(amounts)} for name in chosen]})


async def allocate(pod: PodOnBench, wanted: Pod, *, attempt: int = 1) -> Allocation:
    request = AllocateResources(ref=pod.ref, fence=pod.next_fence(), pod=wanted)
    result = await pod.step(StepName.ALLOCATE_RESOURCES, request, attempt=attempt).result()
    assert result.allocation is not None
    return result.allocation


def resize_request(pod: PodOnBench, wanted: Pod, *updates: ContainerUpdate) -> ResizePod:
    return ResizePod(
        ref=pod.ref, fence=pod.next_fence(), pod=wanted, sandbox_id=pod.sandbox_id, memory=updates, cpu=updates
    )


# --- allocating -------------------------------------------------------------------------------------------------------


def with_cores(bench: Bench, milli_cpu: int) -> None:
    bench.node.context = replace(bench.node.context, capacity={"cpu": milli_cpu})


def cpu_of(pod: PodOnBench, cpu: str) -> Pod:
    return resized(pod.pod, {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]})


async def test_allocated_resources_survive_a_worker_restart(bench: Bench) -> None:
    """Row 115: the node stores its allocations, and gives the same answer to a repeated request."""
    with_cores(bench, 2000)
    one, other = (bench.pod(container(resources={"requests": {"cpu": "500m"}})) for _ in range(2))
    await one.create_sandbox()
    await other.create_sandbox()
    for attempt in (1, 2):
        assert await allocate(one, cpu_of(one, "1500m"), attempt=attempt) == Allocation()
    bench.node.ledger = Ledger(bench.node.context)
    assert await allocate(other, cpu_of(other, "600m")) == Allocation(
        pending="Deferred",
        message="Node didn't have enough resource: cpu, requested: 600, used: 1500, capacity: 2000",
    )
    assert await allocate(other, cpu_of(other, "2100m")) == Allocation(
        pending="Infeasible", message="Node didn't have enough capacity: cpu, requested: 2100, capacity: 2000"
    )
    late = bench.pod(container(resources={"requests": {"cpu": "1m"}}))
    fault, error, _ = await fault_of(late.create_sandbox())
    assert (fault, "used: 2000" in error.message) == (Fault.POD_REJECTED, True), "who is put off is counted as it was"


async def test_a_resize_does_not_admit_a_pod(bench: Bench) -> None:
    with_cores(bench, 2000)
    pod = bench.pod(container(resources={"requests": {"cpu": "500m"}}))
    wanted = cpu_of(pod, "3")
    assert await allocate(pod, wanted) == Allocation()
    pod.pod = wanted
    fault, error, _ = await fault_of(pod.create_sandbox())
    assert (fault, "requested: 3000, used: 0" in error.message) == (Fault.POD_REJECTED, True)


async def test_pods_that_wait_for_room_are_notified_by_rank(bench: Bench) -> None:
    """Row 115: when a pod shrinks, and when one goes; not when nothing is left that was not before."""
    with_cores(bench, 2000)
    told = bench.agent.freed
    big, gone, first, second = (bench.pod(container(resources={"requests": {"cpu": "500m"}})) for _ in range(4))
    for pod in (big, gone, first, second):
        await pod.create_sandbox()
    wanted = cpu_of(second, "600m")
    await allocate(first, cpu_of(first, "600m"))
    await allocate(second, wanted.model_copy(update={"spec": wanted.spec.model_copy(update={"priority": 10})}))
    assert await allocate(big, cpu_of(big, "500m")) == Allocation()
    assert told == []
    assert await allocate(big, cpu_of(big, "400m")) == Allocation()
    assert told == [[second.ref, first.ref]]
    assert await allocate(second, cpu_of(second, "600m")) == Allocation()
    assert (await allocate(first, cpu_of(first, "600m"))).pending == "Deferred", "and so it waits again"
    await gone.kill(grace=0)
    assert await gone.remove()
    assert told[1:] == [[first.ref]]


async def test_a_resize_gets_the_room_of_a_pod_removed_by_raw_calls(bench: Bench) -> None:
    """Row 115 (ours): `syncpod prune` removes pods by raw calls; the next step that needs resources notices that."""
    with_cores(bench, 2000)
    told = bench.agent.freed
    gone, waits, asks = (bench.pod(container(resources={"requests": {"cpu": "600m"}})) for _ in range(3))
    for pod in (gone, waits, asks):
        await pod.create_sandbox()
    assert (await allocate(waits, cpu_of(waits, "900m"))).pending == "Deferred"
    meta = gone.pod.metadata
    await bench.cri.stop_pod_sandbox(gone.sandbox_id)
    await bench.cri.remove_pod_sandbox(gone.sandbox_id)
    remove_pod_files(bench.node.context, namespace=meta.namespace, name=meta.name, uid=meta.uid)
    assert await allocate(asks, cpu_of(asks, "1")) == Allocation()
    assert told == [[waits.ref]]
    assert await allocate(waits, cpu_of(waits, "900m")) == Allocation()
    assert (await allocate(asks, cpu_of(asks, "1200m"))).pending == "Deferred"
    assert told == [[waits.ref]], "nothing else was freed"


# --- applying ---------------------------------------------------------------------------------------------------------


def outside(bench: Bench, pod: PodOnBench, below: str = "") -> tuple[str, str, str]:
    """The kernel's weight, quota and memory limit of the pod's cgroup, or of a cgroup in it."""
    return kernel_limits.enforced(f"{bench.node.context.cgroup_parent}/burstable/pod{pod.uid}/{below}")


async def two_small_ones(bench: Bench) -> tuple[PodOnBench, dict[str, str]]:
    """A pod of two small containers that run, and their ids."""
    resources = written(SMALL)
    pod = bench.pod(container("one", resources=resources), container("two", resources=resources))
    await pod.create_sandbox()
    return pod, {name: (await pod.start(name)).id for name in ("one", "two")}


def update(name: str, ids: dict[str, str], desired: Amounts, current: Amounts) -> ContainerUpdate:
    return ContainerUpdate(name=name, id=ids[name], desired=desired, current=current)


class Recorded:
    """Records each change that is requested from the runtime, with the pod's cgroup values at that time."""

    def __init__(self, bench: Bench, pod: PodOnBench, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pods: list[tuple[str, str, str]] = []
        self.asked: list[LinuxResources] = []
        self.fails: Callable[[int], Exception | None] = lambda call: None
        update = bench.node.cri.update_container_resources

        async def recorded(container_id: str, resources: LinuxResources) -> None:
            self.asked.append(resources)
            self.pods.append(await asyncio.to_thread(outside, bench, pod))
            if (failure := self.fails(len(self.asked))) is not None:
                raise failure
            await update(container_id, resources)

        monkeypatch.setattr(bench.node.cri, "update_container_resources", recorded)


@by_cgroups_of_the_kernel
async def test_a_pod_grows_before_its_containers_and_shrinks_after_them(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Row 116: memory, then CPU; at each step, the pod's limit allows its containers' limits."""
    pod, ids = await two_small_ones(bench)
    recorded = Recorded(bench, pod, monkeypatch)
    small, large = ("204", "40000", str(128 * MIB)), ("307", "60000", str(192 * MIB))
    wanted = asking(pod.pod, LARGE, "one")
    assert await allocate(pod, wanted) == Allocation()
    for attempt in (1, 2):  # the second as if the first had died: everything is found done
        request = resize_request(pod, wanted, update("one", ids, LARGE, SMALL))
        await pod.step(StepName.RESIZE_POD, request, attempt=attempt).result()
        assert outside(bench, pod) == large
        assert outside(bench, pod, ids["one"]) == ("204", "40000", str(128 * MIB))
    assert recorded.pods[:2] == [("204", "40000", large[2]), large]
    assert [(each.memory_limit_in_bytes, each.cpu_quota) for each in recorded.asked[:2]] == [
        (128 * MIB, 20000),  # of the other resource what it was last given
        (128 * MIB, 40000),
    ]

    assert await allocate(pod, pod.pod) == Allocation()
    await pod.step(StepName.RESIZE_POD, resize_request(pod, pod.pod, update("one", ids, SMALL, LARGE))).result()
    assert recorded.pods[4:] == [large, ("307", "60000", small[2])]
    assert outside(bench, pod) == small
    assert outside(bench, pod, ids["one"]) == ("102", "20000", str(64 * MIB))
    assert outside(bench, pod, ids["two"]) == ("102", "20000", str(64 * MIB))


@by_cgroups_of_the_kernel
async def test_a_failed_resize_reports_what_was_applied_before(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Row 116: the order is kept, so nothing after a failure is tried; a transport failure reports no result."""
    pod, ids = await two_small_ones(bench)
    recorded = Recorded(bench, pod, monkeypatch)
    wanted = asking(pod.pod, LARGE)
    updates = tuple(update(name, ids, LARGE, SMALL) for name in ("one", "two"))
    recorded.fails = lambda call: RuntimeFailure("update_container", "UNKNOWN", "no such luck") if call == 2 else None
    fault, error, detail = await fault_of(pod.step(StepName.RESIZE_POD, resize_request(pod, wanted, *updates)).result())
    assert (fault, error.message) == (Fault.RESIZE_POD_IN_PLACE_ERROR, "no such luck")
    half = SMALL.model_copy(update={"memory_limit": LARGE.memory_limit})
    assert detail.actuated == {"one": ResourceRequirements.model_validate(written(half))}
    assert outside(bench, pod, ids["one"]) == ("102", "20000", str(128 * MIB))
    assert outside(bench, pod, ids["two"]) == ("102", "20000", str(64 * MIB))

    recorded.fails = lambda call: Unavailable("update_container", "UNAVAILABLE", "gone") if call == 4 else None
    request = resize_request(pod, wanted, *updates)
    with pytest.raises(Exception, match="gone") as retried:
        await pod.step(StepName.RESIZE_POD, request).result()
    assert not getattr(retried.value, "non_retryable", True)
    await pod.step(StepName.RESIZE_POD, request, attempt=2).result()
    assert outside(bench, pod, ids["one"]) == outside(bench, pod, ids["two"]) == ("204", "40000", str(128 * MIB))


@by_cgroups_of_the_kernel
async def test_a_resize_skips_a_missing_container(bench: Bench) -> None:
    pod, ids = await two_small_ones(bench)
    await pod.kill_container(ids["one"], grace=0, name="one")
    await pod.remove_containers(ids["one"])
    wanted = asking(pod.pod, LARGE)
    updates = tuple(update(name, ids, LARGE, SMALL) for name in ("one", "two"))
    await pod.step(StepName.RESIZE_POD, resize_request(pod, wanted, *updates)).result()
    assert outside(bench, pod, ids["two"]) == ("204", "40000", str(128 * MIB))
