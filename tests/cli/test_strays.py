"""What runs without a workflow, where a name is that of several pods."""

from __future__ import annotations

import asyncio
import math
import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes

from syncpod.agent.takeover.search_attributes import register_search_attributes
from syncpod.cli.failure import Failure
from syncpod.cli.strays import adoption, listing
from syncpod.cli.strays.listing import Here, Standing, Stray, standing_of, taken, told_apart
from syncpod.cli.temporal import pod_apply, pod_reads
from syncpod.cri.port import ContainerSummary, SandboxSummary
from syncpod.messages.identity import POD_WORKFLOW, pod_workflow_id
from syncpod.node.inventory import PodInRuntime
from syncpod.node.pod_records import PodRecord
from syncpod.pod import admit_pod
from syncpod.translation.context import NodeContext
from tests.cli.conftest import Command
from tests.cli.manifests import manifest
from tests.runtimes.temporal import DevServer

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def stray(uid: str, standing: Standing, *, made: int = 0, runs: bool = True, namespace: str = "default") -> Stray:
    at = NOON + timedelta(seconds=made)
    sandbox = SandboxSummary(f"s-{uid}", 0, uid, "cat", namespace, "SANDBOX_READY", at, {}, {}, "")
    container = ContainerSummary(
        id=f"c-{uid}",
        name="main",
        attempt=0,
        sandbox_id=sandbox.id,
        state="running" if runs else "exited",
        created_at=at,
        image="",
        image_ref="",
        labels={},
        annotations={},
    )
    return Stray(PodInRuntime(namespace, "cat", uid, "", "", (sandbox,), (container,)), None, standing)


@pytest.fixture
def place(tmp_path: Path) -> Here:
    """A node that no worker serves."""
    context = NodeContext("n1", tmp_path / "state", tmp_path / "memory", tmp_path / "logs", "", "syncpod")
    return Here(context, "unix:///nowhere")


def standings(*strays: Stray) -> dict[str, Standing]:
    return {each.pod.uid: each.standing for each in told_apart(strays)}


@pytest.mark.parametrize("order", [1, -1])
def test_one_of_several_pods_without_a_workflow_can_have_the_name_in_any_order(order: int) -> None:
    namesakes = [stray("a", "none"), stray("b", "none", made=1), stray("c", "none", made=2, runs=False)]
    assert standings(*namesakes[::order]) == {"a": "another", "b": "none", "c": "another"}


def test_who_has_the_name_keeps_it() -> None:
    assert standings(stray("a", "another"), stray("b", "open")) == {"a": "another", "b": "open"}
    assert standings(stray("a", "none")) == {"a": "none"}


def test_the_one_whose_name_is_anothers_is_told_apart_by_its_uid() -> None:
    assert stray("a", "none").called == "pod/cat"
    assert stray("a", "another").called == "pod/cat (uid a)"
    assert stray("a", "another", namespace="prod").called == "pod/cat in namespace prod (uid a)"


def test_why_it_cannot_be_adopted_names_commands_that_can_be_typed() -> None:
    said = taken(stray("a", "another", namespace="prod"))
    assert said.startswith('pod "cat" (uid a) cannot be adopted, since its name is another pod\'s now')
    assert "`syncpod prune -n prod cat`" in said and "`syncpod delete -n prod pod cat`" in said


async def test_a_few_of_many_pods_are_adopted_at_once_and_the_server_is_asked_once_for_all(
    syncpod: Command, place: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = PodRecord(pod=admit_pod(manifest("cat")))
    many = [replace(stray(f"u{number}", "none"), record=record) for number in range(30)]
    started: list[bool] = []
    asked, under_way, most = 0, 0, 0

    async def chosen(*_: object, **__: object) -> Any:
        return many, ()

    async def has_search_attributes(_: Client) -> bool:
        nonlocal asked
        asked += 1
        return True

    async def start_for(*_: object, has_attributes: bool, **__: object) -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        started.append(has_attributes)

    async def until_adopted(*_: object) -> None:
        nonlocal under_way
        await asyncio.sleep(0)
        under_way -= 1

    monkeypatch.setattr(listing, "here", lambda: place)
    monkeypatch.setattr(listing, "chosen", chosen)
    monkeypatch.setattr(pod_apply, "has_search_attributes", has_search_attributes)
    monkeypatch.setattr(adoption, "start_for", start_for)
    monkeypatch.setattr(adoption, "until_adopted", until_adopted)
    done = await syncpod("adopt", "--all")
    assert (done.code, done.out.count("adopted; running: c-u")) == (0, 30), done.err
    assert (started, asked, most) == ([True] * 30, 1, 8)


async def test_nobody_waits_for_a_node_that_no_worker_serves(
    client: Client, place: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adoption, "ADOPTED_SECONDS", math.inf)
    async with asyncio.timeout(60):
        with pytest.raises(Failure, match="its node does not answer"):
            await adoption.until_adopted(client, place, stray("a", "none"))


async def test_what_was_recorded_of_a_workflow_that_does_not_answer_is_nothing_against_a_pod(
    temporal_server: DevServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that follows a deleted pod begins with the search attributes of that one's, and its worker may be away."""
    monkeypatch.setattr(pod_reads, "QUERY_DEADLINE", timedelta(seconds=1))
    client = await Client.connect(temporal_server.address)
    assert await register_search_attributes(client)
    heir = stray("heir", "open", namespace=f"ns-{uuid.uuid4()}").pod
    handle = await client.start_workflow(
        POD_WORKFLOW,
        id=pod_workflow_id(heir.namespace, heir.name),
        task_queue=f"node/{uuid.uuid4()}",
        search_attributes=TypedSearchAttributes(
            [SearchAttributePair(SearchAttributeKey.for_keyword("PodUID"), "elder")]
        ),
    )
    assert await standing_of(client, heir) == "open"
    await handle.terminate()
    assert await standing_of(client, heir) == "none"
