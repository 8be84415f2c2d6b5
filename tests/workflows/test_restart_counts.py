"""A restart is counted when its process has run, whatever the runtime lists before and after."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from temporalio.client import Client

from syncpod.lifecycle.container_status import WaitingReason
from syncpod.lifecycle.observed import ObservedContainer
from syncpod.messages.steps import Fault
from tests.workflows.scripted import ScriptedNode, container, query_pod, until
from tests.workflows.test_facts import NOW, SANDBOX, a_pod, exited, listing, running
from tests.workflows.test_pod_workflow import manifest
from tests.workflows.test_pod_workflow import running as running_pod
from workflows.pod import facts, report
from workflows.pod.observing import observe
from workflows.pod.state import PodState

CANCELED = "failed to create containerd task: failed to create shim task: context canceled"
"""containerd's error for a start whose caller was killed before anything ran."""


def created(name: str, restart: int) -> ObservedContainer:
    """An instance whose worker or runtime died before starting it."""
    never = {"state": "created", "reason": "", "started_at": None, "finished_at": None}
    return exited(name, 0, restart).model_copy(update={"id": f"{name}-{restart}-created", **never})


def cut_off(name: str, restart: int) -> ObservedContainer:
    """An instance whose worker was killed while the runtime made its task."""
    never = {"reason": "StartError", "message": CANCELED, "started_at": None}
    return exited(name, 128, restart).model_copy(update={"id": f"{name}-{restart}-cut-off", **never})


UNSTARTED = {"created": created, "cut off": cut_off}


@st.composite
def stories(draw: st.DrawFn) -> list[list[ObservedContainer]]:
    """Listings of a container that runs, ends and is removed; some of its starts fail."""
    listings, kept = list[list[ObservedContainer]](), list[ObservedContainer]()
    for restart in range(draw(st.integers(1, 4))):
        for unstarted in draw(st.lists(st.sampled_from([created, cut_off]), max_size=3)):
            listings += [[unstarted("web", restart), *kept], kept][: draw(st.integers(1, 2))]
        alive = running("web", restart)
        lives = [[alive, *kept], [alive.model_copy(update={"state": "unknown"}), *kept]]
        listings += lives[: draw(st.integers(0, 2))]
        kept = [exited("web", draw(st.sampled_from([0, 1, 137])), restart)]
        listings += [kept]
        kept = kept if draw(st.booleans()) else []
    return listings


@given(stories())
def test_the_restart_count_is_the_number_of_the_newest_instance_that_has_run(
    story: Sequence[Sequence[ObservedContainer]],
) -> None:
    state, ran = PodState(pod=a_pod("Always", "web")), 0
    for counter, containers in enumerate(story, start=1):
        observe(state, listing(counter, *containers), NOW)
        facts.record_lost(state, NOW)
        report.update_status(state, (), NOW)
        ran = max([ran, *(each.restart_count for each in containers if each.has_run)])
        assert state.status.container_statuses[0].restart_count == ran


def test_an_init_container_whose_restart_was_lost_with_its_sandbox_is_shown_as_it_ended_last() -> None:
    """After its next instance was created, the runtime was killed and the sandbox was gone."""
    state = PodState(pod=a_pod("Always", "web", init=["first"]))
    first, gone = exited("first", 3), SANDBOX.model_copy(update={"state": "SANDBOX_NOTREADY", "ip": None})
    anew = SANDBOX.model_copy(update={"id": "s1", "attempt": 1})
    for told in (
        listing(1, first),
        listing(2, created("first", 1), first),
        listing(3, first, sandboxes=(gone,)),
        listing(4, sandboxes=(gone,)),
        listing(5, sandboxes=(anew, gone)),
    ):
        observe(state, told, NOW)
        failed = {"first": WaitingReason(reason=Fault.CREATE_CONTAINER_ERROR.value)}
        state.waiting = failed if told.seq.counter in (3, 4) else {}
        report.update_status(state, (), NOW)
    state.removed = True
    report.update_status(state, (), NOW)
    (status,) = state.status.init_container_statuses
    assert status.state.terminated is not None
    assert (status.state.terminated.exit_code, status.restart_count) == (3, 0)


@pytest.mark.parametrize("unstarted", UNSTARTED.values(), ids=UNSTARTED)
async def test_a_pod_that_is_deleted_while_a_restart_has_not_begun_ends_without_it(
    client: Client, node: ScriptedNode, unstarted: Callable[[str, int], ObservedContainer]
) -> None:
    """The worker is killed within the start, its remains are listed, and then the pod is deleted."""
    handle = await running_pod(client, node, manifest())
    uid = (await query_pod(handle))["metadata"]["uid"]
    node.gate["start_container"] = asyncio.Event()
    await node.tell(handle, await node.exits(uid, "web", 1), "ContainerDied")
    before = container(await until(handle, lambda _: node.steps(uid)[-2:] == ["start_container web"] * 2), "web")
    ended = (await node.list(uid)).containers
    of_this_life = {"incarnation": ended[0].incarnation, "created_at": ended[0].finished_at}
    left = unstarted("web", 1).model_copy(update=of_this_life)
    await node.tell(handle, await node.list(uid, containers=(left, *ended)), "ContainerChanged")
    await handle.signal("set_condition", {"type": "example.com/seen", "status": "True"})

    def is_seen(pod: dict[str, Any]) -> bool:
        return any(each["type"] == "example.com/seen" for each in pod["status"]["conditions"])

    assert container(await until(handle, is_seen), "web") == before
    await handle.execute_update("delete", {})
    last = container(await handle.result(), "web")
    assert (last["restartCount"], last["state"]["terminated"]["exitCode"], last.get("lastState", {})) == (0, 1, {})
