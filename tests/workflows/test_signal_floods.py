"""Many signals to one pod at once are cheap, none is lost, and the run continues as new in time.

Holds: A flood of signals is absorbed in parts.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client, WorkflowHandle

from syncpod.lifecycle.observed import ObservedContainer, ObservedPod, Seq
from syncpod.lifecycle.version import DECISION_VERSION
from syncpod.pod.parse import parse_pod
from tests.workflows.scripted import (
    ScriptedNode,
    container,
    in_another_run,
    phase,
    query_pod,
    scripted_worker,
    until,
)
from tests.workflows.test_pod_workflow import manifest, running
from workflows.entity import LONGEST_EVENTS, Signal
from workflows.node.state import NodeState
from workflows.pod import absorb, start, workflow
from workflows.pod.inbox import PART, PodInbox
from workflows.pod.state import PodState
from workflows.rejections import REJECTIONS_KEPT
from workflows.runner import workflow_runner

SUGGESTED_AT = 4096
"""The events from which a server suggests continue-as-new. Our runs do so from 1,000 events on."""
SENDERS = 24


async def flood(handle: WorkflowHandle[Any, Any], signals: list[tuple[str, Any]]) -> None:
    """Send signals as fast as possible, with several concurrent calls."""
    each = iter(signals)

    async def sender() -> None:
        for name, payload in each:
            await handle.signal(name, payload)

    await asyncio.gather(*(sender() for _ in range(SENDERS)))


async def chain(client: Client, handle: WorkflowHandle[Any, Any]) -> list[Sequence[HistoryEvent]]:
    """The events of each run of a pod's workflow, oldest run first."""
    runs = [each async for each in client.list_workflows(f"WorkflowId = '{handle.id}'")]
    return [
        (await client.get_workflow_handle(run.id, run_id=run.run_id).fetch_history()).events
        for run in sorted(runs, key=lambda each: each.start_time)
    ]


async def test_a_flood_of_signals_leads_to_continue_as_new_before_the_server_suggests_it(client: Client) -> None:
    """Repeated, different, wrong and unknown signals, with an exit among them."""
    node = ScriptedNode(unhurried=True)
    async with scripted_worker(client, node):
        first = await running(client, node, manifest())
        handle = client.get_workflow_handle(first.id)
        uid = (await query_pod(handle))["metadata"]["uid"]
        facts = node.facts.model_dump(mode="json", by_alias=True)
        signals: list[tuple[str, Any]] = []
        for number in range(500):
            signals += [
                ("pleg", {"status": (await node.list(uid)).model_dump(mode="json"), "node": facts}),
                (
                    "probe",
                    {"container": "web", "containerID": f"other-{number}", "probe": "liveness", "result": "failure"},
                ),
                ("pleg" if number % 2 else "nobody_knows", number),
            ]
        await asyncio.gather(
            flood(handle, signals),
            node.tell(handle, await node.exits(uid, "web", 1, ago=400)),
        )
        await until(handle, lambda pod: container(pod, "web")["restartCount"] == 1, patience=60)
        await node.tell(handle, await node.exits(uid, "web", 1, ago=400))
        pod = await until(handle, lambda pod: container(pod, "web")["restartCount"] == 2, patience=60)
        assert (phase(pod), pod["metadata"]["uid"]) == ("Running", uid)
        await in_another_run(handle, first.result_run_id)
        runs = await chain(client, handle)
        kinds = Counter(event.event_type for run in runs for event in run)
        signalled = kinds[EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED]
        decided = kinds[EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED]
        assert signalled >= len(signals)
        assert len(signals) > LONGEST_EVENTS
        assert max(map(len, runs)) < SUGGESTED_AT
        assert decided < signalled, "what comes while a task is under way is decided at once"
        described = await handle.fetch_history()
        begun_with = described.events[0].workflow_execution_started_event_attributes.input.payloads[0]
        assert len(begun_with.data) < 100_000, "the snapshot that is carried on"


@pytest.mark.parametrize("ends", ["", "by update", "put out"])
async def test_signals_queued_without_a_worker_are_processed_in_parts(
    client: Client, ends: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More listings than one workflow task absorbs, each different from the one before."""
    part = 100
    monkeypatch.setattr(workflow, "PART", part)  # without the sandbox, which would load the module with its own value
    node = ScriptedNode(unhurried=True)
    async with scripted_worker(client, node):
        handle = await running(client, node, manifest())
        uid = (await query_pod(handle))["metadata"]["uid"]
    signals = []
    for number in range(part + 20):
        listing = await node.list_with(uid, message=f"listing {number}")
        signals.append(("pleg", {"status": listing.model_dump(mode="json")}))
    await flood(handle, signals)
    await node.tell(handle, await node.exits(uid, "web", 1, ago=400))
    flooded = await handle.describe()
    run = client.get_workflow_handle(handle.id, run_id=flooded.run_id)  # this long run continues as new soon after
    if ends == "put out":
        await handle.signal("evict", {"uid": uid, "reason": "Evicted", "message": "low", "gracePeriodSeconds": 1})
    async with scripted_worker(client, node, workflow_runner=workflow_runner()):
        if ends == "by update":
            await handle.execute_update("delete", {"gracePeriodSeconds": 1})
        await until(handle, lambda pod: "running" not in container(pod, "web")["state"] or not ends, patience=60)
        if not ends:
            await until(handle, lambda pod: container(pod, "web")["restartCount"] == 1, patience=60)
        history = await run.fetch_history()
    after = history.events[flooded.history_length :]
    assert not [each for each in after if each.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED]
    timers = [each for each in after if each.event_type == EventType.EVENT_TYPE_TIMER_STARTED]
    pauses = [each for each in timers if b"signals are yet to be taken" in each.user_metadata.summary.data]
    assert len(pauses) == 1, "one pause, two parts"
    assert ends or not [line for line in node.steps(uid) if line.startswith("kill")]


# --- repeats ----------------------------------------------------------------------------------------------------------

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def begun() -> PodState:
    document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a", "namespace": "default", "uid": "7f3a"},
        "spec": {"containers": [{"name": "web", "image": "busybox:1"}]},
    }
    state, refusal = start.initial_state(
        {"pod": document}, "pod/default/a", NOON, lambda: uuid.UUID(int=1), "node/n", decisions=DECISION_VERSION
    )
    assert not refusal
    return state


def listing(counter: int, containers: dict[str, str]) -> dict[str, Any]:
    pod = ObservedPod(
        uid="7f3a",
        seq=Seq(boot=1, counter=counter),
        observed_at=NOON + timedelta(seconds=counter),
        containers=tuple(
            ObservedContainer(id=id_, name="web", state=state, created_at=NOON, started_at=NOON, finished_at=None)
            for id_, state in containers.items()
        ),
    )
    return {"status": pod.model_dump(mode="json")}


worlds = st.dictionaries(st.sampled_from(["one", "two"]), st.sampled_from(["created", "running", "exited"]))


@given(st.lists(st.tuples(st.integers(1, 6), worlds, st.integers(1, 4)), min_size=1, max_size=12))
@example([(1, {}, 1), (1, {"one": "exited", "two": "exited"}, 2)])
@example([(1, {"two": "created"}, 1), (1, {"one": "exited", "two": "exited"}, 2)])
def test_merging_repeated_signals_gives_the_same_state(seen: list[tuple[int, dict[str, str], int]]) -> None:
    each, inbox = begun(), PodInbox()
    for counter, containers, times in seen:
        for repeat in range(times):
            payload = listing(counter + repeat, containers)
            inbox.put("pleg", (payload,))
            absorb.absorb(each, "pleg", (payload,), NOON)
    once = begun()
    kept = inbox.take()
    assert len(kept) <= sum(times for _, _, times in seen)
    for signal in kept:
        absorb.absorb(once, signal.name, signal.args, NOON)
    assert once.observed.model_copy(update={"observed_at": None}) == each.observed.model_copy(
        update={"observed_at": None}
    )
    assert [(exit_.id, exit_.exit_code) for exit_ in once.exits] == [
        (exit_.id, exit_.exit_code) for exit_ in each.exits
    ]


def test_signals_that_differ_in_more_than_time_are_kept_in_order() -> None:
    inbox = PodInbox()
    first, again = listing(1, {"one": "running"}), listing(2, {"one": "running"})
    boot = {**listing(3, {"one": "running"}), "events": [{"type": "Boot"}]}
    exited = listing(4, {"one": "exited"})
    for payload in (first, again, first, boot, exited, exited, first):
        inbox.put("pleg", (payload,))
    for poison in (1, 1, {"status": {"seq": 1}}, {"status": {"seq": 2}}):
        inbox.put("pleg", (poison,))
    inbox.put("restart", ({},))
    payloads = [again, boot, exited, first, 1, {"status": {"seq": 1}}, {"status": {"seq": 2}}]
    assert inbox.take() == [*(Signal("pleg", (payload,)) for payload in payloads), Signal("restart", ({},))]
    assert not inbox


def test_ten_thousand_equal_signals_are_merged_and_distinct_ones_kept() -> None:
    inbox, state = PodInbox(), begun()
    for number in range(10_000):
        inbox.put("pleg", (listing_of(number),))
    assert len(inbox) == 1
    for number in range(10_000):
        inbox.put(
            "probe", ({"container": "web", "containerID": str(number), "probe": "liveness", "result": "failure"},)
        )
    assert len(inbox) == 10_001
    while inbox:
        for signal in inbox.take(PART):
            absorb.absorb(state, signal.name, signal.args, NOON)
    assert len(json.dumps(start.snapshot(state))) < 100_000


def test_an_expired_back_off_signal_without_a_matching_back_off_is_dropped() -> None:
    state = begun()
    for number in range(3):
        absorb.absorb(state, "backoff_expired", ({"container": f"nobody-{number}", "restart": 0},), NOON)
    assert (state.over, state.released) == ({}, {})


def test_long_messages_are_truncated_so_that_a_snapshot_stays_small() -> None:
    state = begun()
    state.pod = parse_pod(
        {
            "metadata": {"name": "a", "namespace": "default", "uid": "7f3a"},
            "spec": {
                "containers": [{"name": "web", "image": "busybox:1", "livenessProbe": {"tcpSocket": {"port": 1}}}]
            },
        }
    )
    for number in range(3):
        told = {"container": "web", "containerID": str(number), "probe": "liveness", "result": "failure"}
        absorb.absorb(state, "probe", ({**told, "message": f"{number} " + "x" * 1_000_000},), NOON)
    absorb.absorb(state, "evict", ({"uid": "7f3a", "reason": "Evicted", "message": "y" * 1_000_000},), NOON)
    assert state.failure is not None
    assert len(json.dumps(start.snapshot(state))) < 20_000


def listing_of(number: int) -> dict[str, Any]:
    return {"status": {"uid": "7f3a", "seq": {"boot": 1, "counter": number}, "observed_at": f"{NOON.isoformat()}"}}


def test_a_flood_of_rejected_signals_hides_nothing_that_has_happened() -> None:
    state = PodState(pod=parse_pod(manifest()))
    now = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
    for number in range(5):
        state.note(now, "step", f"step {number}")
        state.event(now, "Normal", "Started", f"start {number}")
    for number in range(1000):
        absorb.absorb(state, f"nonsense-{number}", ({},), now)
    state.note(now, "exit", "web")
    assert [each.subject for each in state.history[:5]] == [f"step {number}" for number in range(5)]
    assert [each.message for each in state.events[:5]] == [f"start {number}" for number in range(5)]
    last = [f"nonsense-{number}" for number in range(1000 - REJECTIONS_KEPT, 1000)]
    assert [each.subject for each in state.history[5:]] == [*last, "web"]
    assert [name for name, each in zip(last, state.events[5:], strict=True) if name in each.message] == last


def test_a_flood_of_rejected_signals_hides_nothing_of_a_node() -> None:
    state = NodeState(name="n")
    now = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
    state.event(now, "Normal", "NodeReady", "before")
    for number in range(1000):
        state.reject(now, "signal nonsense", f"not {number}")
    first, *others = state.events
    assert first.reason == "NodeReady"
    assert [each.message for each in others] == [
        f"signal nonsense: not {number}" for number in range(1000 - REJECTIONS_KEPT, 1000)
    ]
