"""`events` on a scripted node."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import yaml
from temporalio.client import Client

from syncpod.api.views.events import PodEvent, by_time
from syncpod.api.views.text import Columns
from syncpod.cli.actions.events import lines
from syncpod.cli.machine import own_journal
from syncpod.cli.temporal import pod_queries, pod_source
from syncpod.journal.reading import LifeRecords
from syncpod.journal.records import SENDER, EventRecord, HistoryEntry, PodLife
from syncpod.messages.identity import POD_WORKFLOW
from syncpod.messages.steps import Fault
from tests.cli.conftest import Command
from tests.cli.manifests import as_json, fresh_name, manifest
from tests.workflows.scripted import ScriptedNode, container, start_pod, until

NOW = datetime(2026, 1, 31, 12, 0, 0, tzinfo=UTC)


def waiting(pod: dict[str, Any]) -> str:
    """The reason why the pod's container waits."""
    return str(container(pod, "app").get("state", {}).get("waiting", {}).get("reason", ""))


def event(
    reason: str, *, ago: float, first: float = 0.0, count: int = 1, message: str = "", container: str = ""
) -> PodEvent:
    """An event of the pod web."""
    record = EventRecord(
        type="Normal",
        reason=reason,
        message=message or reason,
        count=count,
        first=NOW - timedelta(seconds=first or ago),
        last=NOW - timedelta(seconds=ago),
        container=container,
    )
    return PodEvent("default", "web", "u", "vm", "", record)


def test_the_newest_event_is_last_and_a_repeated_one_is_counted() -> None:
    events = by_time([event("BackOff", ago=5, first=65, count=4), event("Started", ago=60), event("Pulled", ago=61)])
    assert lines(events, NOW, wide=False, namespaces=True, headers=True, table=Columns()) == [
        "NAMESPACE   LAST SEEN          TYPE     REASON    OBJECT    MESSAGE",
        "default     61s                Normal   Pulled    Pod/web   Pulled",
        "default     60s                Normal   Started   Pod/web   Started",
        "default     5s (x4 over 65s)   Normal   BackOff   Pod/web   BackOff",
    ]


def test_an_event_names_its_container_and_those_of_one_moment_keep_their_order() -> None:
    killed = event("Killing", ago=5, container="app")
    found = by_time([killed, event("Started", ago=5, first=65, count=2, container="app"), event("BackOff", ago=60)])
    gone = replace(killed, is_gone=True)
    shown = lines([*found, gone], NOW, wide=False, namespaces=False, headers=False, table=Columns())
    assert [" ".join(line.split()[-4:]) for line in shown] == [
        "Normal BackOff Pod/web BackOff",
        "Killing Pod/web (app) Killing",
        "Started Pod/web (app) Started",
        "Pod/web (app, gone) Killing",
    ]


def test_event_output_has_no_terminal_control_characters() -> None:
    (line,) = lines(
        [event("Failed", ago=1, message="a\n\x1b[2Jb")],
        NOW,
        wide=False,
        namespaces=False,
        headers=False,
        table=Columns(),
    )
    assert line.endswith(r"a \x1b[2Jb")


def test_repeated_events_share_a_name_and_others_do_not() -> None:
    once, again, other = event("BackOff", ago=9), event("BackOff", ago=1, first=9, count=2), event("Pulled", ago=9)
    assert once.name == again.name != other.name
    assert once.name.startswith("web.")


async def test_events_are_listed_chosen_and_printed_as_objects(
    syncpod: Command, client: Client, node: ScriptedNode, on: tuple[str, str]
) -> None:
    calm, rough = fresh_name(), fresh_name()
    node.fault("start_container", Fault.RUN_CONTAINER_ERROR, "no such program")
    await syncpod("apply", "-f", "-", *on, stdin=as_json(manifest(rough)))
    await until(client.get_workflow_handle(f"pod/default/{rough}"), lambda pod: waiting(pod) == "RunContainerError")
    await syncpod("apply", "-f", "-", "--wait", *on, stdin=as_json(manifest(calm)))

    for about in ((rough,), (f"pod/{rough}",), ("--for", f"pod/{rough}")):
        shown = await syncpod("events", *about)
        assert shown.out.splitlines()[0].split() == ["LAST", "SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
        assert {line.split()[3] for line in shown.out.splitlines()[1:]} == {f"Pod/{rough}"}
    warned = await syncpod("events", "--types=warning", "--no-headers")
    assert rough in warned.out and "no such program" in warned.out and calm not in warned.out

    listed = json.loads((await syncpod("events", rough, "-o", "json")).out)
    assert {one["kind"] for one in listed["items"]} == {"Event"}
    failed = next(one for one in listed["items"] if one["reason"] == "Failed")
    assert failed["involvedObject"]["fieldPath"] == "spec.containers{app}"
    assert failed["metadata"]["name"].startswith(f"{rough}.")
    assert yaml.safe_load((await syncpod("events", rough, "-o", "yaml")).out) == listed
    assert f"event/{failed['metadata']['name']}" in (await syncpod("events", "-o", "name")).out.splitlines()
    wide = (await syncpod("events", rough, "-o", "wide")).out
    assert "spec.containers{app}" in wide and "SUBOBJECT" in wide


async def test_events_of_an_ended_pod_are_found_by_its_name(syncpod: Command, on: tuple[str, str]) -> None:
    name = fresh_name()
    await syncpod("apply", "-f", "-", "--wait", *on, stdin=as_json(manifest(name)))
    before = (await syncpod("events", name, "-o", "name")).out.splitlines()
    await syncpod("delete", "pod", name)
    assert set(before) <= set((await syncpod("events", name, "-o", "name")).out.splitlines())
    listed = await syncpod("events", "-n", "nowhere")
    assert (listed.code, listed.out, listed.err) == (0, "", "No events found in nowhere namespace.\n")


async def test_unreadable_events_are_not_reported_as_none(
    syncpod: Command, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pod_queries, "QUERY_DEADLINE", timedelta(seconds=0.3))
    name, away = fresh_name(), f"gone-{fresh_name()}"
    handle = await client.start_workflow(POD_WORKFLOW, id=f"pod/{name}/{name}", task_queue=f"node/{away}")
    try:
        listed = await syncpod("events", name, "-n", name)
        assert (listed.code, listed.out, listed.err.count("\n")) == (1, "", 1)
        assert f"syncpod: without the events of {name}: node {away} is away" in listed.err
        assert "`syncpod up`" in listed.err
    finally:
        await handle.terminate()


async def test_events_outlive_the_run_in_which_they_came(syncpod: Command, client: Client, node: ScriptedNode) -> None:
    name = fresh_name()
    node.fault("start_container", Fault.RUN_CONTAINER_ERROR, "no such program")
    handle = await start_pod(client, node, manifest(name), maxEvents=1)
    newest = client.get_workflow_handle(handle.id)
    async with asyncio.timeout(60):
        while not (created := (await syncpod("events", name, "-o", "name")).out):  # noqa: ASYNC110  # all there is to ask
            await asyncio.sleep(0.1)
        run = (await newest.describe()).run_id
        while (await newest.describe()).run_id == run:
            await newest.signal("backoff_expired", {"container": "none"})
            await asyncio.sleep(0.2)
    assert set(created.split()) <= set((await syncpod("events", name, "-o", "name")).out.split())


async def test_watching_prints_each_event_once(
    syncpod: Command, client: Client, on: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("syncpod.cli.actions.events._WATCH_SECONDS", 0.05)
    name = fresh_name()
    await syncpod("apply", "-f", "-", "--wait", *on, stdin=as_json(manifest(name)))
    handle = client.get_workflow_handle(f"pod/default/{name}")
    rounds = 0

    async def asked(*arguments: Any) -> Any:
        nonlocal rounds
        rounds += 1
        if rounds == 3:
            await handle.signal("backoff_expired", {"container": "none"})
        if rounds > 100:
            raise KeyboardInterrupt
        return await read_all(*arguments)

    read_all = pod_source.TemporalPods.read_all
    monkeypatch.setattr(pod_source.TemporalPods, "read_all", asked)
    watched = await syncpod("events", name, "-w")
    assert watched.code == 130
    said = watched.out.splitlines()
    assert sum("Rejected" in line for line in said) == 1 and "Rejected" in said[-1]
    assert sum("LAST SEEN" in line for line in said) == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--types", "Bad"), "--types: must be Normal or Warning"),
        (("--for", "web"), "--for: must be pod/NAME, not web"),
        (("--for", "svc/web"), "'svc/web': there are no Services"),
        (("-o", "table"), "--output: must be wide, json, yaml, name, not table"),
        (("web", "-A"), "a named pod is in one namespace"),
    ],
)
async def test_an_impossible_event_listing_is_refused(
    syncpod: Command, arguments: tuple[str, ...], sentence: str
) -> None:
    refused = await syncpod("events", *arguments)
    assert (refused.code, refused.out) == (2, "")
    assert sentence in refused.err and refused.err.count("\n") == 1


async def test_events_of_an_unknown_pod_are_refused_by_name(syncpod: Command) -> None:
    name = fresh_name()
    missing = await syncpod("events", name)
    assert (missing.code, missing.err) == (1, f'syncpod: pods "{name}" not found in namespace default\n')


async def test_the_history_of_a_pod_that_temporal_has_forgotten_is_what_the_journal_has(
    syncpod: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, at = fresh_name(), datetime(2026, 11, 26, 12, 0, tzinfo=UTC)
    lines = (
        HistoryEntry(at, "exit", "app", restart=2, outcome="exited 3 (Error)"),
        HistoryEntry(at, "update", "delete", reason="grace 30 s"),
        HistoryEntry(at, SENDER, "delete", reason="somebody"),
    )

    def last_life(_server: tuple[str, str], namespace: str, wanted: str) -> LifeRecords | None:
        life = PodLife(namespace, wanted, "u")
        return LifeRecords(life, at, at, gone=at + timedelta(seconds=9), entries=lines) if wanted == name else None

    monkeypatch.setattr(own_journal, "last_life", last_life)
    shown = await syncpod("history", name, "-o", "json")
    assert [(each["kind"], each["subject"], each["restart"]) for each in json.loads(shown.out)] == [
        ("exit", "app", 2),
        ("update", "delete", 0),
    ]
    assert f"`syncpod explain -n default {name}`" in shown.err
    for command in (("describe", "pod"), ("logs",)):
        absent = await syncpod(*command, name)
        assert absent.code == 1 and f"`syncpod explain -n default {name}`" in absent.err, absent.err
    missing = await syncpod("history", f"{name}-no")
    assert (missing.code, missing.err) == (1, f'syncpod: pods "{name}-no" not found in namespace default\n')


async def test_events_of_a_pod_that_temporal_has_forgotten_come_from_the_journal(
    syncpod: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = fresh_name()

    record = EventRecord(type="Normal", reason="Killing", message="", first=NOW, last=NOW)

    def with_gone(events: list[PodEvent], *_: Any) -> list[PodEvent]:
        return [*events, PodEvent("default", name, "u", "n", "", record, is_gone=True)]

    monkeypatch.setattr(own_journal, "with_gone", with_gone)
    shown = await syncpod("events", name)
    assert shown.code == 0 and f"Pod/{name} (gone)" in shown.out, shown.err
    missing = await syncpod("events", name, "another")
    assert (missing.code, missing.out, missing.err) == (
        1,
        "",
        'syncpod: pods "another" not found in namespace default\n',
    )
