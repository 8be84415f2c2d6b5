"""Pods that wait for resources are notified when there is room, and again only if they ask and are refused again.

Holds: A rejected pod of a node's list starts as soon as it fits.
"""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from activities.between import tier_weights
from activities.node.context import Node
from activities.node.ledger import Ledger, LockedLedger, WaitsForRoom
from activities.pods import admission
from activities.step_attempt import StepAttempt
from syncpod.lifecycle.actions import StepName
from syncpod.messages.identity import PodRef
from syncpod.messages.steps import StepInput
from syncpod.node.pod_records import PodRecord, write_pod_record
from syncpod.pod import Pod
from syncpod.translation.context import NodeContext
from syncpod.translation.paths import pod_directory

CAPACITY = {"cpu": 1500, "pods": 110}


def asking(cpu: str, *, priority: int = 0) -> Pod:
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu}}}
    return Pod.model_validate({"metadata": {"name": "web"}, "spec": {"containers": [container], "priority": priority}})


def ref(name: str) -> PodRef:
    return PodRef(namespace="default", name=name, uid=name)


def resize(name: str) -> WaitsForRoom:
    return WaitsForRoom(ref(name), StepName.ALLOCATE_RESOURCES)


def admission_of(name: str) -> WaitsForRoom:
    return WaitsForRoom(ref(name), StepName.CREATE_SANDBOX)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(NodeContext(name="n", state_dir=tmp_path, memory_dir=tmp_path, log_dir=tmp_path, cluster="c/default"))


def full(page: LockedLedger) -> None:
    """Admit three pods that fill the node."""
    for name in ("reverted", "patient", "gone"):
        page.enter(ref(name), asking("500m"))


async def test_a_waiting_pod_that_does_not_ask_again_is_notified_once(ledger: Ledger) -> None:
    """Row 115: a resize that was taken back leaves nothing that the end of each other pod would signal."""
    async with ledger.open() as page:
        full(page)
        assert page.refusal_of_resize(ref("reverted"), asking("600m"), CAPACITY)
        assert page.strike(ref("gone"))
        assert page.take_waiting("pod_terminated", CAPACITY) == (resize("reverted"),)
        for name in ("short", "lived"):
            page.enter(ref(name), asking("100m"))
            assert page.strike(ref(name))
            assert page.take_waiting("pod_terminated", CAPACITY) == ()


async def test_a_pod_refused_again_waits_again_by_rank(ledger: Ledger) -> None:
    """Row 115: each pod that asks and is refused is notified when there is room again."""
    async with ledger.open() as page:
        full(page)
        for _ in range(2):
            assert page.refusal_of_resize(ref("reverted"), asking("600m"), CAPACITY)
            assert page.refusal_of_resize(ref("patient"), asking("600m", priority=10), CAPACITY)
            assert page.take_waiting("pod_terminated", CAPACITY) == (resize("patient"), resize("reverted"))
        assert page.refusal_of_resize(ref("patient"), asking("600m"), CAPACITY)
        assert page.strike(ref("patient"))
        assert page.take_waiting("pod_terminated", CAPACITY) == (), "who has gone waits for nothing"


async def test_rejected_pods_are_told_once_they_fit_together_by_rank(ledger: Ledger) -> None:
    """A node that has room for one of many pods again does not have all of them ask in vain."""
    async with ledger.open() as page:
        full(page)
        for name, priority in (("last", 0), ("first", 10), ("big", 20)):
            pod = asking("900m" if name == "big" else "400m", priority=priority)
            assert page.refusal(ref(name), pod, CAPACITY)
            page.reject(ref(name), pod)
        assert page.strike(ref("gone"))
        assert page.take_waiting("pod_terminated", CAPACITY) == (admission_of("first"),)
        page.enter(ref("first"), asking("400m"))
        assert page.take_waiting("pod_terminated", CAPACITY) == ()
        assert not page.strike(ref("big")), "it was never counted"
        assert page.strike(ref("patient"))
        assert page.take_waiting("pod_terminated", CAPACITY) == (admission_of("last"),)


@pytest.mark.parametrize("own", [True, False], ids=["it has ended", "others were removed"])
async def test_waiting_pods_are_notified_even_if_cgroup_weights_cannot_be_set(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: bool
) -> None:
    """The step is repeated, and at the second attempt no pod disappears."""
    told: list[WaitsForRoom] = []

    def fails(*_: Any) -> None:
        raise OSError("no cgroup can be written")

    monkeypatch.setattr(admission, "weigh_tiers", fails)
    context = NodeContext(name="n", state_dir=tmp_path, memory_dir=tmp_path, log_dir=tmp_path, cluster="c/default")
    views = SimpleNamespace(before=lambda *_: None)
    node = SimpleNamespace(ledger=ledger, context=context, views=views, agent=SimpleNamespace(room_freed=told.extend))
    attempt = StepAttempt(cast(Node, node), StepInput(ref=ref("gone" if own else "another")), number=1)
    async with ledger.open() as page:
        full(page)
        assert page.refusal_of_resize(ref("patient"), asking("600m"), CAPACITY)
        if not own:
            write_record(context, "patient")
            with pytest.raises(OSError, match="no cgroup"):
                await admission.strike_what_is_gone(attempt.node, attempt.ref, page)
    if own:
        with pytest.raises(OSError, match="no cgroup"):
            await admission.free_resources(attempt, "pod_terminated")
    assert told == [resize("patient")]


def write_record(context: NodeContext, uid: str) -> None:
    pod_directory(context, uid).mkdir(parents=True)
    pod = asking("500m")
    metadata = pod.metadata.model_copy(update={"uid": uid})
    write_pod_record(context, PodRecord(pod=pod.model_copy(update={"metadata": metadata})))


async def test_tiers_are_weighed_again_and_again_whatever_became_of_the_last_try(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that was killed just after it had noted the end of a pod has not set the weights."""
    weighed, again = list[int](), asyncio.Event()

    def weigh(_context: NodeContext, milli_cpu: int) -> None:
        weighed.append(milli_cpu)
        if len(weighed) == 1:
            raise OSError(errno.EIO, "no cgroup can be written")
        loop.call_soon_threadsafe(again.set)

    loop = asyncio.get_running_loop()
    monkeypatch.setattr(tier_weights, "weigh_tiers", weigh)
    monkeypatch.setattr(tier_weights, "PERIOD_SECONDS", 0.01)
    async with ledger.open() as page:
        page.enter(ref("web"), asking("500m"))
    context = NodeContext(name="n", state_dir=tmp_path, memory_dir=tmp_path, log_dir=tmp_path, cluster="c/default")
    task = asyncio.create_task(
        tier_weights.keep_tiers_weighed(cast(Node, SimpleNamespace(ledger=ledger, context=context)))
    )
    await again.wait()
    task.cancel()
    assert weighed[:2] == [500, 500]
