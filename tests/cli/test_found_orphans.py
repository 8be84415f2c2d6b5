"""Adoption of pods without a workflow if several of them have the same name."""

from __future__ import annotations

import asyncio
import json
import math
import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from temporalio.client import Client
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes

from syncpod.agent.takeover.search_attributes import register_search_attributes
from syncpod.cli.actions import adopt
from syncpod.cli.failure import Failure
from syncpod.cli.orphans import adoption, found_orphans, notice
from syncpod.cli.orphans.found_orphans import FoundOrphan, Here, Standing, standing_of, taken, with_one_heir
from syncpod.cli.orphans.from_manifest import record_from
from syncpod.cli.temporal import pod_queries
from syncpod.cri.port import ContainerSummary, SandboxSummary
from syncpod.messages.identity import POD_WORKFLOW, pod_workflow_id
from syncpod.messages.node import FILE_SOURCE, SOURCE_ANNOTATION
from syncpod.node.inventory import PodInRuntime
from syncpod.node.pod_records import PodRecord
from syncpod.pod import admit_pod, container_hash
from syncpod.pod.static import HASH_ANNOTATION
from syncpod.translation.context import NodeContext
from syncpod.translation.names import CONTAINER_HASH_ANNOTATION, CONTAINER_NAME_LABEL
from tests.cli.conftest import Command
from tests.cli.manifests import manifest
from tests.runtimes.temporal import DevServer
from tests.runtimes.temporal_client import connect

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
GONE: Final = "SANDBOX_NOTREADY"


def orphan(
    uid: str, standing: Standing, *, made: int = 0, runs: bool = True, namespace: str = "default"
) -> FoundOrphan:
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
    return FoundOrphan(PodInRuntime(namespace, "cat", uid, "", "", (sandbox,), (container,)), None, standing)


@pytest.fixture
def place(tmp_path: Path) -> Here:
    """A node without a worker."""
    context = NodeContext("n1", tmp_path / "state", tmp_path / "memory", tmp_path / "logs", "", "syncpod")
    return Here(context, "unix:///nowhere")


def standings(*orphans: FoundOrphan) -> dict[str, Standing]:
    return {each.pod.uid: each.standing for each in with_one_heir(orphans)}


@pytest.mark.parametrize("order", [1, -1])
def test_one_of_several_orphans_gets_the_name_in_any_order(order: int) -> None:
    namesakes = [orphan("a", "none"), orphan("b", "none", made=1), orphan("c", "none", made=2, runs=False)]
    assert standings(*namesakes[::order]) == {"a": "another", "b": "none", "c": "another"}


def test_a_pod_with_a_workflow_keeps_the_name() -> None:
    assert standings(orphan("a", "another"), orphan("b", "open")) == {"a": "another", "b": "open"}
    assert standings(orphan("a", "none")) == {"a": "none"}


def test_an_orphan_whose_name_is_taken_is_named_by_uid() -> None:
    assert orphan("a", "none").called == "pod/cat"
    assert orphan("a", "another").called == "pod/cat (uid a)"
    assert orphan("a", "another", namespace="prod").called == "pod/cat in namespace prod (uid a)"


def test_a_refused_adoption_lists_usable_commands() -> None:
    said = taken(orphan("a", "another", namespace="prod"))
    assert said.startswith('pod "cat" (uid a) cannot be adopted, since its name is another pod\'s now')
    assert "`syncpod prune -n prod cat`" in said and "`syncpod delete -n prod pod cat`" in said


def made(name: str, image: str) -> ContainerSummary:
    """A running container with this name and image."""
    (one,) = orphan("a", "none").pod.containers
    labels = {CONTAINER_NAME_LABEL: name}
    return replace(one, labels=labels, annotations={CONTAINER_HASH_ANNOTATION: container_hash(name, image)})


def with_containers(*containers: ContainerSummary, incarnation: str = "life") -> FoundOrphan:
    lost = orphan("a", "none")
    return replace(lost, pod=replace(lost.pod, containers=containers, incarnation=incarnation))


def test_a_lost_record_is_made_anew_from_the_manifest_and_what_runs() -> None:
    pod = admit_pod(manifest("cat", containers=[{"name": "main", "image": "busybox:1"}]))
    record = record_from(pod, with_containers(made("main", "busybox:1")), "n1")
    meta = record.pod.metadata
    assert (record.incarnation, meta.uid, meta.creation_timestamp, meta.generation) == ("life", "a", NOON, 1)
    assert record.pod.spec.node_name == "n1" and record.pod.spec.containers == pod.spec.containers


@pytest.mark.parametrize(
    ("lost", "said"),
    [
        (
            with_containers(made("main", "busybox:2")),
            r"spec\.containers\[0\]\.image: main runs with another image than",
        ),
        (with_containers(made("main", "busybox:1"), made("log", "busybox:1")), r"spec\.containers: has no log, which"),
        (with_containers(made("main", "busybox:1"), incarnation=""), "nothing in the runtime says which life"),
    ],
)
def test_a_pod_of_another_manifest_is_not_adopted(lost: FoundOrphan, said: str) -> None:
    """It would be restarted."""
    pod = admit_pod(manifest("cat", containers=[{"name": "main", "image": "busybox:1"}]))
    with pytest.raises(Failure, match=said):
        record_from(pod, lost, "n1")
    ended = replace(lost, pod=replace(lost.pod, incarnation="life", containers=()))
    assert record_from(pod, ended, "n1").pod.metadata.uid == "a"
    for other, path in (({"uid": "b"}, "metadata.uid"), ({}, "spec.nodeName")):
        meta, spec = pod.metadata.model_copy(update=other), pod.spec.model_copy(update={"node_name": "n2"})
        wrong = pod.model_copy(update={"metadata": meta, "spec": spec if path == "spec.nodeName" else pod.spec})
        with pytest.raises(Failure, match=f"{path}: is"):
            record_from(wrong, ended, "n1")


async def test_manifests_name_the_pods_to_be_adopted_alone(syncpod: Command, tmp_path: Path) -> None:
    path = tmp_path / "cat.json"
    path.write_text(json.dumps(manifest("cat")))
    for more in (("cat",), ("--all",)):
        refused = await syncpod("adopt", "-f", str(path), *more)
        assert (refused.code, refused.err.count("\n")) == (2, 1) and "-f names the pods" in refused.err


async def test_adoptions_are_limited_in_parallel_and_ask_the_server_once(
    syncpod: Command, place: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = PodRecord(pod=admit_pod(manifest("cat")))
    many = [replace(orphan(f"u{number}", "none"), record=record) for number in range(30)]
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

    monkeypatch.setattr(adopt, "here", lambda: place)
    monkeypatch.setattr(adopt, "chosen", chosen)
    monkeypatch.setattr(adopt, "has_search_attributes", has_search_attributes)
    monkeypatch.setattr(adopt, "start_for", start_for)
    monkeypatch.setattr(adopt, "until_adopted", until_adopted)
    done = await syncpod("adopt", "--all")
    assert (done.code, done.out.count("adopted; running: c-u")) == (0, 30), done.err
    assert (started, asked, most) == ([True] * 30, 1, 8)


async def test_what_a_deletion_has_left_is_no_pod_to_adopt(
    syncpod: Command, place: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    alive = orphan("u1", "none", runs=False)
    ended = replace(alive, pod=replace(alive.pod, sandboxes=(replace(alive.pod.sandboxes[0], state=GONE),)))
    assert not found_orphans.is_leaving(place, alive)

    async def chosen(*_: object, **__: object) -> Any:
        return [ended], ()

    monkeypatch.setattr(adopt, "here", lambda: place)
    monkeypatch.setattr(adopt, "chosen", chosen)
    done = await syncpod("adopt", "--all")
    assert (done.code, done.out, done.err) == (0, "", "No pods without a workflow\n")
    named = await syncpod("adopt", "cat")
    assert (named.code, "has no record of its manifest" in named.err) == (1, True), named


async def test_a_pod_that_has_got_a_workflow_meanwhile_fails_an_adoption_by_name_alone(
    client: Client, syncpod: Command, place: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = PodRecord(pod=admit_pod(manifest(f"attended-{uuid.uuid4()}")))

    async def chosen(*_: object, **__: object) -> Any:
        return [replace(orphan("u1", "none"), record=record)], ()

    monkeypatch.setattr(adopt, "here", lambda: place)
    monkeypatch.setattr(adopt, "chosen", chosen)
    await adoption.start_for(client, "nobody", record, has_attributes=False)
    named = await syncpod("adopt", "cat")
    assert (named.code, named.err.endswith("once a worker serves this node again (`syncpod up`)\n")) == (1, True), named
    every = await syncpod("adopt", "--all")
    assert (every.code, every.out, every.err) == (0, "", "")


def test_a_copy_of_a_static_pod_is_not_left_to_the_directory_of_manifests() -> None:
    """Nothing applies it by itself, although its annotations name the directory."""
    lost = orphan("u1", "none").pod

    def made_for(uid: str) -> PodInRuntime:
        annotations = {SOURCE_ANNOTATION: FILE_SOURCE, HASH_ANNOTATION: uid}
        return replace(lost, sandboxes=(replace(lost.sandboxes[0], annotations=annotations),))

    assert (notice._is_static(made_for("the-original")), notice._is_static(made_for("u1"))) == (False, True)


async def test_an_adoption_takes_the_place_of_a_workflow_that_is_not_a_pods(client: Client) -> None:
    record = PodRecord(pod=admit_pod(manifest(f"squatted-{uuid.uuid4()}")))
    workflow_id = f"pod/default/{record.pod.metadata.name}"
    await client.start_workflow("Squatter", id=workflow_id, task_queue="elsewhere")
    pod = replace(orphan("u1", "none").pod, namespace="default", name=record.pod.metadata.name)
    assert await found_orphans.standing_of(client, pod) == "none"
    await adoption.start_for(client, "nobody", record, has_attributes=False)
    found = client.get_workflow_handle(workflow_id)
    assert (await found.describe()).workflow_type == "PodWorkflow"
    await found.terminate()


async def test_adoption_does_not_wait_for_a_node_without_a_worker(
    client: Client, place: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adoption, "ADOPTED_SECONDS", math.inf)
    async with asyncio.timeout(60):
        with pytest.raises(Failure, match="has a workflow now, but no worker serves this node"):
            await adoption.until_adopted(client, place, orphan("a", "none"))


async def test_search_attributes_of_an_unanswering_workflow_do_not_rule_out_an_adoption(
    temporal_server: DevServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that follows a deleted pod begins with the search attributes of that one's, and its worker may be away."""
    monkeypatch.setattr(pod_queries, "QUERY_DEADLINE", timedelta(seconds=1))
    client = await connect(temporal_server.address)
    assert await register_search_attributes(client)
    heir = orphan("heir", "open", namespace=f"ns-{uuid.uuid4()}").pod
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
