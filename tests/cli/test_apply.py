"""`apply`, `get` and `delete` on a scripted node: pods are made, listed, changed and ended."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import signal
import sys
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml
from temporalio import workflow
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowHandle
from temporalio.common import SearchAttributeKey
from temporalio.envconfig import ClientConnectConfig
from temporalio.service import _BridgeServiceClient
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from syncpod.cli import console, deletion
from syncpod.cli.actions import apply as apply_command
from syncpod.cli.actions import up
from syncpod.cli.failure import Failure
from syncpod.cli.fetched import FetchedPod
from syncpod.cli.input.manifests import admitted
from syncpod.cli.machine.settings import settings
from syncpod.cli.temporal import pod_queries, pod_source, updates
from syncpod.cli.temporal.pod_apply import AWAY, apply_pod
from syncpod.cli.temporal.unserved import end_if_never_run
from syncpod.cli.view.plans import print_plans
from syncpod.lifecycle.actions import StepName
from syncpod.messages.identity import POD_WORKFLOW
from syncpod.messages.node import NODE_WORKFLOW
from syncpod.messages.pod_commands import Change
from syncpod.messages.queries import FORESEE_ADMISSION
from syncpod.messages.steps import Fault
from syncpod.pod import parse_pod
from syncpod.temporal.workflow_starts import start_arguments
from tests.agent.waiting import until_asked
from tests.cli.conftest import Command, program, silent_node
from tests.cli.manifests import as_json, fresh_name, manifest
from tests.workflows.scripted import ScriptedNode, query_pod, scripted_worker


async def accepted_updates(handle: WorkflowHandle[Any, Any]) -> int:
    """The number of updates that a run has accepted."""
    events = [event.event_type async for event in handle.fetch_history_events()]
    return events.count(EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED)


async def test_a_pod_is_created_then_unchanged_then_configured(syncpod: Command, on: tuple[str, str]) -> None:
    name = fresh_name()
    pod = manifest(name)
    made = await syncpod("apply", "-f", "-", "--wait", *on, stdin=as_json(pod))
    assert (made.code, made.out) == (0, f"pod/{name} created\npod/{name} ready\n")
    again = await syncpod("apply", "-f", "-", *on, stdin=as_json(pod))
    assert (again.code, again.out) == (0, f"pod/{name} unchanged\n")
    labelled = await syncpod("apply", "-f", "-", *on, stdin=as_json(manifest(name, labels={"app": "web"})))
    assert labelled.out == f"pod/{name} configured\n"
    pod["spec"]["containers"][0]["image"] = "busybox:2"
    assert (await syncpod("apply", "-f", "-", *on, stdin=as_json(pod))).out == f"pod/{name} configured\n"


async def test_pods_of_a_file_with_other_kinds_are_created_once_if_asked(
    syncpod: Command, on: tuple[str, str], tmp_path: Path
) -> None:
    name, below = fresh_name(), tmp_path / "a" / "b"
    below.mkdir(parents=True)
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "front"}}
    (below / "app.yaml").write_text(
        json.dumps({"kind": "List", "apiVersion": "v1", "items": [service, manifest(name)]})
    )
    files = ("-R", "-f", str(tmp_path), *on)
    refused = await syncpod("apply", *files)
    assert (refused.code, refused.out) == (2, "")
    assert "not Service: nothing routes here" in refused.err
    assert refused.err.endswith("; --ignore-other-kinds leaves it out\n")
    for way, mark in (("client", " (dry run)"), ("server", " (server dry run)")):
        tried = await syncpod("create", *files, "--ignore-other-kinds", f"--dry-run={way}")
        assert (tried.code, tried.out) == (0, f"pod/{name} created{mark}\n"), tried.err
    made = await syncpod("create", *files, "--ignore-other-kinds")
    assert (made.code, made.out) == (0, f"pod/{name} created\n")
    assert made.err == f"Note: {below / 'app.yaml'}: left out: Service front\n"
    for more in ((), ("--dry-run=client",)):
        again = await syncpod("create", *files, "--ignore-other-kinds", *more)
        assert (again.code, again.out) == (1, "") and f'pods "{name}" already exists in namespace default' in again.err


async def test_a_dry_run_asks_the_node_whether_it_would_admit_a_new_pod(
    syncpod: Command, node: ScriptedNode, on: tuple[str, str]
) -> None:
    name = fresh_name()
    why = f"pod {name}: node {on[1]} would not run it: "
    told = f"syncpod: {why}OutOfcpu: no room\nsyncpod: {why}spec.os: no\n"
    node.foreseen = ["OutOfcpu: no room", "spec.os: no"]
    tried = await syncpod("apply", "-f", "-", "--dry-run=server", *on, stdin=as_json(manifest(name)))
    assert (tried.code, tried.out, tried.err) == (2, f"pod/{name} created (server dry run)\n", told)
    planned = await syncpod("plan", "-f", "-", *on, stdin=as_json(manifest(name)))
    unrun = f"pod/{name}: would be created, but its node would not run it\n"
    assert (planned.code, planned.out, planned.err) == (2, unrun, told)
    document = json.loads((await syncpod("plan", "-f", "-", "-o", "json", *on, stdin=as_json(manifest(name)))).out)
    why_not = f"node {on[1]} would not run it: "
    reasons = f"{why_not}OutOfcpu: no room\n{why_not}spec.os: no"
    assert (document["change"], document["steps"], document["not_run"]) == ("create", [], reasons)
    made = await syncpod("apply", "-f", "-", *on, stdin=as_json(manifest(f"{name}-b")))
    assert (made.code, made.out) == (0, f"pod/{name}-b created\n"), "as the plan and the dry run have it"
    node.foreseen = []
    tried = await syncpod("apply", "-f", "-", "--dry-run=server", *on, stdin=as_json(manifest(name)))
    assert (tried.code, tried.out, tried.err) == (0, f"pod/{name} created (server dry run)\n", "")
    request = {"resources": {"requests": {"cpu": "1500m"}}, "ports": [{"containerPort": 80, "hostPort": 8080}]}
    large = manifest(f"{name}-a", containers=[{"name": "main", "image": "busybox:1", **request}])
    for command in (("apply", "--dry-run=server"), ("plan",)):
        node.asked_beside.clear()
        both = await syncpod(*command, "-f", "-", *on, stdin=as_json(large, manifest(name)))
        assert both.code == 0, both.err
        assert node.asked_beside == [[], [{"amounts": {"cpu": 1500}, "ports": [["0.0.0.0", "TCP", 8080]]}]]
    unknown = await syncpod("plan", "-f", "-", "--node", name, stdin=as_json(manifest(name)))
    why = f"no worker has ever polled for node {name}, so this plan cannot show whether the node would run the pod"
    assert (unknown.code, unknown.err) == (0, f"Warning: pod {name}: {why}\n")


async def test_a_dry_run_waits_for_a_busy_node_and_says_if_a_node_that_is_away_was_not_asked(
    syncpod: Command, client: Client, node: ScriptedNode, on: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "SILENCE_SECONDS", 3600.0)
    monkeypatch.setattr(updates, "PATIENCE_SECONDS", 0.2)
    node.gate[FORESEE_ADMISSION] = asyncio.Event()
    loop, is_served = asyncio.get_running_loop(), updates._is_served

    async def counted(client: Client, name: str) -> bool:
        loop.call_soon_threadsafe(node.gate[FORESEE_ADMISSION].set)  # called only if an answer is late
        return await is_served(client, name)

    monkeypatch.setattr(updates, "_is_served", counted)
    name, away = fresh_name(), f"gone-{fresh_name()}"
    node.foreseen = ["OutOfcpu: no room"]
    busy = await syncpod("apply", "-f", "-", "--dry-run=server", *on, stdin=as_json(manifest(name)))
    assert (busy.code, busy.out) == (2, f"pod/{name} created (server dry run)\n") and busy.err.endswith(
        "would not run it: OutOfcpu: no room\n"
    )
    async with silent_node(client, away, cordoned=False):
        asked = await syncpod("apply", "-f", "-", "--dry-run=server", "--node", away, stdin=as_json(manifest(name)))
    assert (asked.code, asked.out) == (0, f"pod/{name} created (server dry run)\n")
    assert asked.err.startswith(f"Warning: pod {name}: node {away} is away")
    assert asked.err.endswith("so this plan cannot show whether the node would run the pod\n")


async def test_a_new_pod_with_a_field_that_its_runtime_does_not_support_is_warned_of(
    syncpod: Command, node: ScriptedNode, on: tuple[str, str]
) -> None:
    """A node is asked only about pods with fields that not every runtime supports."""
    name, why = fresh_name(), "spec.containers[0].ports[0].hostPort: host ports need spec.hostNetwork: true"
    node.foreseen = ["OutOfcpu: no room", why]
    ports = [{"containerPort": 80, "hostPort": 8080}]
    pod = manifest(name, containers=[{"name": "main", "image": "busybox:1", "ports": ports}])
    made = await syncpod("apply", "-f", "-", *on, stdin=as_json(pod))
    assert (made.code, made.out, made.err) == (0, f"pod/{name} created\n", f"Warning: pod {name}: {why}\n")
    for again in (pod, manifest(fresh_name())):
        assert (await syncpod("apply", "-f", "-", *on, stdin=as_json(again))).err == ""


async def test_a_change_of_an_immutable_field_is_refused_by_path(syncpod: Command, on: tuple[str, str]) -> None:
    name = fresh_name()
    await syncpod("apply", "-f", "-", *on, stdin=as_json(manifest(name)))
    changed = manifest(name, hostNetwork=True)
    refused = await syncpod("apply", "-f", "-", *on, stdin=as_json(changed))
    assert (refused.code, refused.out) == (2, "")
    assert f"pod {name}: spec.hostNetwork: may not be changed; delete the pod and apply it again" in refused.err
    planned = await syncpod("plan", "-f", "-", stdin=as_json(changed))
    assert planned.code == 2 and "spec.hostNetwork" in planned.err
    assert planned.out == f"pod/{name}: would be refused\n"
    new = fresh_name()
    beside = await syncpod("apply", "-f", "-", *on, stdin=as_json(changed, manifest(new)))
    assert (beside.code, beside.out) == (1, f"pod/{new} created\n"), "2 would say that nothing has been done"


async def test_a_cordoned_node_refuses_a_new_pod_before_anything_else_is_done(
    syncpod: Command, client: Client, on: tuple[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    there, new, node = fresh_name(), fresh_name(), on[1]
    monkeypatch.setenv("SYNCPOD_NODE", node)
    await syncpod("apply", "-f", "-", stdin=as_json(manifest(there)))
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"a": "b"}}
    stream = tmp_path / "all.json"
    stream.write_text(as_json(config, manifest(there), manifest(new)))
    server: ClientConnectConfig = {"target_host": client.service_client.config.target_host, "namespace": "default"}
    sentence = f"pod {new}: node {node} is cordoned, and takes no new pod: `syncpod uncordon {node}`"
    async with silent_node(client, node, cordoned=True):
        refused = await syncpod("apply", "-f", str(stream))
        assert (refused.code, refused.out, refused.err) == (1, "", f"syncpod: {sentence}\n")
        assert (await syncpod("get", "configmap", "settings")).code == 1
        with pytest.raises(Failure, match=re.escape(sentence)):
            await up._bring_up(server, admitted([str(stream)], ""), settings(), node, None)
        assert (await syncpod("get", "configmap", "settings")).code == 1
        planned = await syncpod("plan", "-f", "-", stdin=as_json(manifest(new)))
        assert (planned.code, planned.out) == (1, f"pod/{new}: would be refused\n") and sentence in planned.err
        withheld = f"would not be applied, since the whole apply is refused for pod/{new}\n"
        planned = await syncpod("plan", "-f", str(stream))
        assert planned.out == f"configmap/settings: {withheld}pod/{there}: {withheld}pod/{new}: would be refused\n"
        document = json.loads((await syncpod("plan", "-f", str(stream), "-o", "json")).out)
        assert [each.get("withheld") for each in document] == [f"pod/{new}", f"pod/{new}", None]
        tried = await syncpod("apply", "--dry-run=server", "-f", str(stream))
        assert (tried.code, tried.out, tried.err) == (1, "", f"syncpod: {sentence}\n"), "an apply does nothing"
        assert (await syncpod("apply", "-f", "-", stdin=as_json(config, manifest(there)))).code == 0
    assert (await syncpod("apply", "-f", "-", stdin=as_json(manifest(new)))).code == 0


async def test_all_documents_are_checked_before_any_is_sent(
    syncpod: Command, client: Client, on: tuple[str, str], tmp_path: Path
) -> None:
    name = fresh_name()
    (tmp_path / "1.json").write_text(as_json(manifest(name)))
    (tmp_path / "2.yaml").write_text(yaml.safe_dump(manifest(fresh_name(), containers=[{"name": "app"}])))
    (tmp_path / "3.yaml").write_text("kind: Service\napiVersion: v1\n")
    (tmp_path / "4.yaml").write_text(as_json(manifest(name)))
    (tmp_path / "notes.txt").write_text("no manifest")
    refused = await syncpod("apply", "-f", str(tmp_path), *on)
    assert (refused.code, refused.out) == (2, "")
    unreadable, invalid, twice = refused.err.splitlines()
    assert "3.yaml, document 1: kind: must be Pod, ConfigMap, Secret or List, not Service" in unreadable
    assert "2.yaml" in invalid and "spec.containers[0].image" in invalid
    assert "4.yaml" in twice and "given twice" in twice
    assert (await syncpod("get", "pod", name)).code == 1
    for wrong in ("2.yaml", "3.yaml", "4.yaml"):
        (tmp_path / wrong).unlink()
    assert (await syncpod("apply", "-f", str(tmp_path), *on)).out == f"pod/{name} created\n"


@pytest.mark.parametrize(
    ("stream", "sentence"),
    [
        ("", "standard input: no pod, configmap or secret in it"),
        ('{"kind": "Pod"}', "apiVersion: required"),
        (
            '{"kind": "Deployment", "apiVersion": "apps/v1"}',
            "kind: must be Pod, ConfigMap, Secret or List, not Deployment",
        ),
        ("a: [", "standard input, document 1"),
        (as_json(manifest("twice"), manifest("twice")), "pod default/twice: given twice"),
        (as_json(manifest("web") | {"metadata": {"name": "web", "namespace": "b"}}), "metadata.namespace: is b, but"),
    ],
)
async def test_a_manifest_that_cannot_be_applied_is_named(syncpod: Command, stream: str, sentence: str) -> None:
    flags = ("-n", "a") if "namespace: is b" in sentence else ()
    refused = await syncpod("apply", "-f", "-", *flags, stdin=stream)
    assert (refused.code, refused.out) == (2, "")
    assert sentence in refused.err and refused.err.count("\n") == 1


async def test_kubectl_output_is_applied_with_warnings(syncpod: Command, on: tuple[str, str]) -> None:
    name = fresh_name()
    await syncpod("apply", "-f", "-", "--wait", *on, stdin=as_json(manifest(name)))
    printed = (await syncpod("get", "pod", name, "-o", "yaml")).out
    assert yaml.safe_load(printed)["status"]["phase"] == "Running"
    again = await syncpod("apply", "-f", "-", *on, stdin=printed)
    assert (again.code, again.out) == (0, f"pod/{name} unchanged\n")
    assert again.err.startswith(f"Warning: pod {name}: dropped what was filled in when it ran: ")
    assert again.err.endswith(", status\n")


async def test_pods_are_listed_by_namespace_name_and_label(syncpod: Command, on: tuple[str, str]) -> None:
    space, a, b = fresh_name(), f"a-{fresh_name()}", f"b-{fresh_name()}"
    stream = as_json(manifest(a, labels={"app": "web", "tier": "front"}), manifest(b, labels={"app": "db"}))
    made = await syncpod("apply", "-n", space, "-f", "-", "--wait", *on, stdin=stream)
    assert made.code == 0
    listed = await syncpod("get", "pods", "-n", space)
    assert [line.split()[:4] for line in listed.out.splitlines()] == [
        ["NAME", "READY", "STATUS", "RESTARTS"],
        [a, "1/1", "Running", "0"],
        [b, "1/1", "Running", "0"],
    ]
    labelled = await syncpod("get", "pods", "-n", space, "-L", "app,x/Tier", "-L", "tier", "--show-labels")
    assert [line.split()[5:] for line in labelled.out.splitlines()] == [
        ["APP", "TIER", "TIER", "LABELS"],
        ["web", "<none>", "front", "app=web,tier=front"],
        ["db", "<none>", "<none>", "app=db"],
    ]
    assert (await syncpod("get", "-n", space, "-l", "app in (web),tier", "-o", "name")).out == f"pod/{a}\n"
    assert (await syncpod("get", "po", "-n", space, "-l", "app!=web", "--no-headers")).out.split()[0] == b
    everywhere = await syncpod("get", "pods", "-A")
    rows = [line.split() for line in everywhere.out.splitlines()]
    assert rows[0][:2] == ["NAMESPACE", "NAME"] and [space, a] in [row[:2] for row in rows]
    wide = await syncpod("get", "pods", b, "-n", space, "-o", "wide")
    assert on[1] in wide.out and "READINESS GATES" in wide.out
    document = json.loads((await syncpod("get", "pods", "-n", space, "-o", "json")).out)
    assert document["kind"] == "List" and [item["metadata"]["name"] for item in document["items"]] == [a, b]
    none = await syncpod("get", "pods", "-n", fresh_name())
    assert (none.code, none.out) == (0, "") and "No resources found in" in none.err


async def test_missing_pods_are_reported_and_the_others_shown(syncpod: Command, on: tuple[str, str]) -> None:
    name, absent = fresh_name(), fresh_name()
    await syncpod("apply", "-f", "-", *on, stdin=as_json(manifest(name)))
    shown = await syncpod("get", "pods", name, absent)
    assert shown.code == 1 and name in shown.out and f'pods "{absent}" not found in namespace default' in shown.err
    for command in (("describe", absent), ("history", absent), ("plan", absent), ("logs", absent), ("delete", absent)):
        missing = await syncpod(*command)
        sentence = f'syncpod: pods "{absent}" not found in namespace default\n'
        assert (missing.code, missing.out, missing.err) == (1, "", sentence)
    assert (await syncpod("delete", absent, "--ignore-not-found")).code == 0


async def test_delete_waits_for_the_pod_which_keeps_its_grace(
    syncpod: Command, client: Client, node: ScriptedNode, on: tuple[str, str]
) -> None:
    a, b, c = fresh_name(), fresh_name(), fresh_name()
    stream = as_json(*(manifest(name, labels={"group": a}) for name in (a, b, c)))
    await syncpod("apply", "-f", "-", "--wait", *on, stdin=stream)
    ended = await syncpod("delete", "pod", a, "--grace-period", "7")
    assert (ended.code, ended.out) == (0, f'pod "{a}" deleted from default namespace\n')
    handle = client.get_workflow_handle(f"pod/default/{a}")
    assert (await handle.describe()).status == WorkflowExecutionStatus.COMPLETED
    assert (await handle.result())["metadata"]["deletionGracePeriodSeconds"] == 7
    assert (await syncpod("get", "pod", a)).code == 1
    forced = await syncpod("delete", "-f", "-", "--force", stdin=as_json(manifest(b)))
    assert (forced.code, forced.out) == (0, f'pod "{b}" force deleted from default namespace\n')
    kills = [step for name, step in node.taken if name == StepName.KILL_POD]
    assert kills[-1].targets[0].grace_seconds <= 2  # type: ignore[attr-defined]
    selected = await syncpod("delete", "-l", f"group={a}")
    assert (selected.code, selected.out) == (0, f'pod "{c}" deleted from default namespace\n')


async def test_of_names_without_a_kind_none_is_deleted_if_one_is_unknown(syncpod: Command, on: tuple[str, str]) -> None:
    """The unknown name may be a misspelt kind."""
    name = fresh_name()
    await syncpod("apply", "-f", "-", "--wait", *on, stdin=as_json(manifest(name)))
    misspelt = await syncpod("delete", "deploymet", name)
    assert (misspelt.code, misspelt.out) == (1, "")
    assert misspelt.err.splitlines() == [
        'syncpod: pods "deploymet" not found in namespace default',
        "syncpod: nothing was deleted: a kind before names is one of pod, configmap or secret",
    ]
    assert (await syncpod("get", "pod", name)).code == 0
    named = await syncpod("delete", "pod", "deploymet", name)
    assert (named.code, named.out) == (1, f'pod "{name}" deleted from default namespace\n')


async def test_delete_now_gives_a_grace_of_one_second(syncpod: Command, client: Client, on: tuple[str, str]) -> None:
    name = fresh_name()
    await syncpod("apply", "-f", "-", "--wait", *on, stdin=as_json(manifest(name)))
    assert (await syncpod("delete", name, "--now")).out == f'pod "{name}" deleted from default namespace\n'
    ended = await client.get_workflow_handle(f"pod/default/{name}").result()
    assert ended["metadata"]["deletionGracePeriodSeconds"] == 1


@pytest.mark.parametrize(("how", "mark"), [("client", "(dry run)"), ("server", "(server dry run)")])
async def test_a_client_dry_run_lists_changes_without_making_them(
    syncpod: Command, on: tuple[str, str], how: str, mark: str
) -> None:
    there, new, trial = fresh_name(), fresh_name(), f"--dry-run={how}"
    await syncpod("apply", "-f", "-", "--wait", *on, stdin=as_json(manifest(there)))
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"a": "b"}}
    stream = as_json(manifest(there), manifest(new))
    said = await syncpod("apply", "-f", "-", trial, *on, stdin=stream)
    assert (said.code, said.out) == (0, f"pod/{there} unchanged {mark}\npod/{new} created {mark}\n"), said.err
    assert (
        await syncpod("apply", "-f", "-", trial, stdin=as_json(config))
    ).out == f"configmap/settings created {mark}\n"
    labelled = as_json(manifest(there, labels={"app": "web"}))
    assert (await syncpod("apply", "-f", "-", trial, *on, stdin=labelled)).out == f"pod/{there} configured {mark}\n"
    assert (await syncpod("get", "pod", new)).code == (await syncpod("get", "cm", "settings")).code == 1
    assert (await syncpod("get", "pod", there, "-l", "", "-o", "jsonpath={.metadata.labels}")).out == ""
    ended = await syncpod("delete", "pods", there, new, trial)
    assert (ended.code, ended.out) == (1, f'pod "{there}" deleted {mark} from default namespace\n')
    assert ended.err == f'syncpod: pods "{new}" not found in namespace default\n'
    assert (
        await syncpod("delete", there, trial, "--force")
    ).out == f'pod "{there}" force deleted {mark} from default namespace\n'
    assert (await syncpod("get", "pod", there, "--no-headers")).out.split()[2] == "Running"


async def test_a_server_dry_run_reports_refusals_of_the_pod_and_its_node(
    syncpod: Command, client: Client, on: tuple[str, str]
) -> None:
    there, new = fresh_name(), fresh_name()
    await syncpod("apply", "-f", "-", *on, stdin=as_json(manifest(there)))
    stream = as_json(manifest(there, hostNetwork=True))
    refused = await syncpod("apply", "-f", "-", "--dry-run=server", *on, stdin=stream)
    assert (refused.code, refused.out) == (2, "")
    assert f"pod {there}: spec.hostNetwork: may not be changed" in refused.err
    fitting = manifest(new, nodeName=on[1], nodeSelector={"disk": "hdd"})
    async with silent_node(client, on[1], cordoned=False, labels={"disk": "hdd"}):
        stream = as_json(manifest(new, nodeSelector={"disk": "ssd"}))
        elsewhere = await syncpod("apply", "-f", "-", "--dry-run=server", *on, stdin=stream)
        fits = await syncpod("plan", "-f", "-", stdin=as_json(fitting))
    assert (elsewhere.code, elsewhere.out) == (2, f"pod/{new} created (server dry run)\n")
    assert f"pod {new}: node {on[1]} would reject it: NodeAffinity: Predicate NodeAffinity failed" in elsewhere.err
    assert (fits.code, fits.out.splitlines()[0]) == (0, f"pod/{new}: would be created")
    async with silent_node(client, on[1], cordoned=True):
        full = await syncpod("apply", "-f", "-", "--dry-run=server", *on, stdin=as_json(manifest(new)))
    assert (full.code, full.out) == (1, "") and f"node {on[1]} is cordoned, and takes no new pod" in full.err


async def test_a_pod_that_is_applied_for_another_node_stays_and_that_is_said(
    syncpod: Command, node: ScriptedNode, on: tuple[str, str]
) -> None:
    name = fresh_name()
    pod = manifest(name)
    await syncpod("apply", "-f", "-", "--wait", *on, stdin=as_json(pod))
    same = await syncpod("apply", "-f", "-", *on, stdin=as_json(pod))
    assert (same.code, same.out, same.err) == (0, f"pod/{name} unchanged\n", "")
    elsewhere = await syncpod("apply", "-f", "-", "--node", "elsewhere", stdin=as_json(pod))
    assert (elsewhere.code, elsewhere.out) == (0, f"pod/{name} unchanged\n")
    assert elsewhere.err == (
        f"Note: pod {name} stays on node {on[1]}: it is on elsewhere only if it is deleted and applied again\n"
    )
    assert (await syncpod("delete", name, "--now")).code == 0


async def test_a_deletion_that_takes_long_says_what_it_waits_for(
    syncpod: Command, node: ScriptedNode, on: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deletion, "NOTE_SECONDS", 0.01)
    name = fresh_name()
    await syncpod("apply", "-f", "-", "--wait", *on, stdin=as_json(manifest(name)))
    node.gate["kill_pod"] = gate = asyncio.Event()
    deleting = asyncio.create_task(syncpod("delete", name))
    loop = asyncio.get_running_loop()
    was_said = asyncio.Event()

    def remark(text: str) -> None:
        if text.startswith(f'pod "{name}" is being deleted: still running: app (grace period '):
            loop.call_soon_threadsafe(was_said.set)

    monkeypatch.setattr(deletion, "remark", remark)
    async with asyncio.timeout(60):
        await was_said.wait()
    gate.set()
    deleted = await deleting
    assert (deleted.code, deleted.out) == (0, f'pod "{name}" deleted from default namespace\n')


async def test_a_pod_applied_while_one_of_its_name_ends_starts_afterwards(
    syncpod: Command, node: ScriptedNode, client: Client, on: tuple[str, str]
) -> None:
    name = fresh_name()
    pod = manifest(name)
    await syncpod("apply", "-f", "-", "--wait", *on, stdin=as_json(pod))
    before = (await query_pod(client.get_workflow_handle(f"pod/default/{name}")))["metadata"]["uid"]
    said = f"pod/{name} follows the one that is being deleted\n"
    node.gate["kill_pod"] = asyncio.Event()
    assert (await syncpod("delete", name, "--no-wait")).code == 0
    assert (await syncpod("get", "pod", name, "--no-headers")).out.split()[2] == "Terminating"
    trial = await syncpod("apply", "-f", "-", "--dry-run=server", *on, stdin=as_json(pod))
    assert trial.out == f"pod/{name} follows the one that is being deleted (server dry run)\n"
    planned = (await syncpod("plan", "-f", "-", stdin=as_json(pod))).out.splitlines()[0]
    assert planned == f"pod/{name}: would be created, when the one that is being deleted has gone"
    late = await syncpod("delete", name, "--timeout", "1s")
    assert late.code == 1 and f'timed out waiting for pod "{name}" to end' in late.err
    assert f'pod "{name}": still running: app' in late.err, "it says what the pod waits for"
    dying = await syncpod("wait", name, "--for=condition=Ready", "--timeout", "0")
    assert (dying.code, dying.err.count("it is Terminating")) == (1, 1)
    assert (await syncpod("apply", "-f", "-", *on, stdin=as_json(pod))).out == said
    handle = client.get_workflow_handle(f"pod/default/{name}")
    heard = await accepted_updates(handle)
    follows = asyncio.create_task(syncpod("apply", "-f", "-", "--wait", *on, stdin=as_json(pod)))

    async def is_heard() -> bool:
        return await accepted_updates(handle) > heard

    await until_asked(is_heard)
    node.gate.pop("kill_pod").set()
    result = await follows
    assert (result.code, result.out) == (0, f"{said}pod/{name} ready\n")
    assert (await query_pod(client.get_workflow_handle(f"pod/default/{name}")))["metadata"]["uid"] != before


async def test_a_wait_for_a_pod_that_does_not_start_reports_the_cause(
    syncpod: Command, node: ScriptedNode, on: tuple[str, str]
) -> None:
    name = fresh_name()
    for _ in range(10):
        node.fault(StepName.START_CONTAINER, Fault.CREATE_CONTAINER_ERROR, "no such device: /dev/fuse")
    await syncpod("apply", "-f", "-", *on, stdin=as_json(manifest(name)))
    while "CreateContainerError" not in (await syncpod("describe", "pod", name)).out:
        pass
    result = await syncpod("apply", "-f", "-", "--wait", "--timeout", "2s", *on, stdin=as_json(manifest(name)))
    assert result.code == 1
    assert f'pod "{name}" is not ready after 2s: CreateContainerError, container app: ' in result.err
    assert "no such device: /dev/fuse" in result.err


async def test_a_changed_pod_does_not_count_as_ready_by_its_former_status(
    syncpod: Command, node: ScriptedNode, on: tuple[str, str]
) -> None:
    name = fresh_name()
    pod = manifest(name)
    await syncpod("apply", "-f", "-", "--wait", *on, stdin=as_json(pod))
    node.gate["kill_container"] = asyncio.Event()
    pod["spec"]["containers"][0]["image"] = "busybox:2"
    late = await syncpod("apply", "-f", "-", "--wait", "--timeout", "1s", *on, stdin=as_json(pod))
    assert (late.code, late.out) == (1, f"pod/{name} configured\n")
    assert f'pod "{name}" is not ready after 1s: Running, its workflow still has something to do\n' in late.err
    node.gate.pop("kill_container").set()
    changed = await syncpod("apply", "-f", "-", "--wait", *on, stdin=as_json(pod))
    assert (changed.code, changed.out) == (0, f"pod/{name} unchanged\npod/{name} ready\n")
    assert [step.split()[0] for step in node.steps()][-2:] == ["kill_container", "start_container"]


async def test_a_wait_ends_when_the_pod_has_failed(
    syncpod: Command, node: ScriptedNode, client: Client, on: tuple[str, str]
) -> None:
    name = fresh_name()
    pod = manifest(name, restartPolicy="Never")
    await syncpod("apply", "-f", "-", "--wait", *on, stdin=as_json(pod))
    handle = client.get_workflow_handle(f"pod/default/{name}")
    uid = (await query_pod(handle))["metadata"]["uid"]
    await node.tell(handle, await node.exits(uid, "app", 3), "ContainerDied")
    result = await syncpod("apply", "-f", "-", "--wait", *on, stdin=as_json(pod))
    assert result.code == 1 and f'pod "{name}" has failed: Error, container app: exit code 3\n' in result.err
    assert (await syncpod("get", "pod", name, "--no-headers")).out.split()[1:4] == ["0/1", "Error", "0"]


async def test_a_slow_node_is_not_reported_as_away(
    syncpod: Command, on: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    await syncpod("apply", "-f", "-", *on, stdin=as_json(manifest(fresh_name())))  # its worker polls by now
    monkeypatch.setattr(updates, "PATIENCE_SECONDS", 0.0)
    name = fresh_name()
    made = await syncpod("apply", "-f", "-", *on, stdin=as_json(manifest(name)))
    assert (made.code, made.out, made.err) == (0, f"pod/{name} created\n", "")


async def test_changes_for_a_node_without_a_worker_are_kept_and_the_node_is_named(
    syncpod: Command, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(updates, "PATIENCE_SECONDS", 1.0)
    monkeypatch.setattr(pod_queries, "QUERY_DEADLINE", timedelta(seconds=0.3))
    monkeypatch.setattr(apply_command, "_NOTE_SECONDS", 3600.0)
    reads: list[str] = []
    read = pod_queries.query_or_record

    async def counted(client: Client, workflow_id: str, *rest: Any) -> FetchedPod | None:
        reads.append(workflow_id)
        return await read(client, workflow_id, *rest)

    monkeypatch.setattr(pod_source, "query_or_record", counted)
    name, away = fresh_name(), f"gone-{fresh_name()}"
    async with silent_node(client, away, cordoned=False):
        made = await syncpod("apply", "-f", "-", "--node", away, stdin=as_json(manifest(name)))
    assert (made.code, made.out) == (0, f"pod/{name} created\n")
    warning = f"Warning: node {away} is away: pod {name} starts when its worker does (`syncpod up` there)"
    assert made.err == f"{warning}\n"
    shown = await syncpod("get", "pod", name, "--no-headers")
    shown_name, ready, status, restarts, *_ = shown.out.split()
    assert (shown.code, shown_name, ready) == (0, name, "?")
    # Restarts are recorded a moment later than the pod itself.
    assert status.endswith("?") and restarts in ("?", "0?") and f"node {away} is away" in shown.err
    asked = len(reads)
    planned = await syncpod("plan", "-f", "-", stdin=as_json(manifest(name)))
    assert (planned.code, planned.err.count("does not answer")) == (1, 1)
    assert len(reads) == asked + 1, "who does not answer is not asked again"
    again = await syncpod("apply", "-f", "-", "--node", away, stdin=as_json(manifest(name)))
    assert again.code == 1 and f'pod "{name}": node {away} is away' in again.err and again.err.count("\n") == 1
    ended = await syncpod("delete", name, "--no-wait")
    assert (ended.code, ended.out) == (0, f'pod "{name}" deleted from default namespace\n')
    events = await client.get_workflow_handle(f"pod/default/{name}").fetch_history()
    signals = [event for event in events.events if event.HasField("workflow_execution_signaled_event_attributes")]
    assert [event.workflow_execution_signaled_event_attributes.signal_name for event in signals] == ["delete_pod"]
    await client.get_workflow_handle(f"pod/default/{name}").terminate()


async def test_applying_a_new_pod_does_not_wait_for_an_unanswering_node(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(updates, "PATIENCE_SECONDS", 3600.0)
    name, away = fresh_name(), f"gone-{fresh_name()}"
    pod = parse_pod(manifest(name) | {"metadata": {"name": name, "namespace": "default"}})
    async with silent_node(client, away, cordoned=False), asyncio.timeout(60):
        made = await apply_pod(client, pod, node=away, has_attributes=False)
    assert (made.change, made.silence) == (Change.CREATED, AWAY)
    await client.get_workflow_handle(f"pod/default/{name}").terminate()


async def test_an_apply_is_one_request(client: Client, on: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither of a new pod nor of one that exists is anything read before or after."""
    sent: list[str] = []
    send = client.service_client._rpc_call

    async def counted(rpc: str, *args: Any, **more: Any) -> Any:
        sent.append(rpc)
        return await send(rpc, *args, **more)

    monkeypatch.setattr(client.service_client, "_rpc_call", counted)
    monkeypatch.setattr("syncpod.cli.temporal.pod_apply._SOON_SECONDS", 3600)
    name = fresh_name()
    pod = parse_pod(manifest(name) | {"metadata": {"name": name, "namespace": "default"}})
    made = await apply_pod(client, pod, node=on[1], has_attributes=False)
    assert (made.change, sent) == (Change.CREATED, ["execute_multi_operation"])
    again = await apply_pod(client, pod, node="another", has_attributes=False)
    assert (again.change, again.node, sent) == (Change.UNCHANGED, on[1], ["execute_multi_operation"] * 2)
    labelled = pod.model_copy(update={"metadata": pod.metadata.model_copy(update={"labels": {"app": "web"}})})
    changed = await apply_pod(client, labelled, node=on[1], has_attributes=False)
    assert (changed.change, sent) == (Change.CONFIGURED, ["execute_multi_operation"] * 3)


async def test_the_command_asks_the_server_for_its_namespace_and_the_node_and_applies(
    syncpod: Command, on: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """There are no other requests, whether the pod is new, unchanged or changed; each costs a round trip."""
    sent: list[str] = []
    send = _BridgeServiceClient._rpc_call

    async def counted(self: Any, rpc: str, *args: Any, **more: Any) -> Any:
        sent.append(rpc)
        return await send(self, rpc, *args, **more)

    monkeypatch.setattr("syncpod.cli.temporal.pod_apply._SOON_SECONDS", 3600)
    monkeypatch.setattr(_BridgeServiceClient, "_rpc_call", counted)
    document = manifest(fresh_name())
    changed = document | {"metadata": document["metadata"] | {"labels": {"app": "web"}}}
    for given, answer in ((document, "created"), (document, "unchanged"), (changed, "configured")):
        sent.clear()
        done = await syncpod("apply", "-f", "-", *on, stdin=as_json(given))
        assert (done.code, done.out.split()[-1], done.err) == (0, answer, "")
        assert sent == ["describe_namespace", "describe_workflow_execution", "execute_multi_operation"], answer


async def test_one_warning_names_all_pods_of_a_node_that_does_not_answer(syncpod: Command, client: Client) -> None:
    names, ghost = [fresh_name() for _ in range(5)], f"ghost-{fresh_name()}"
    pods = "\n---\n".join(as_json(manifest(name)) for name in names)
    made = await syncpod("apply", "-f", "-", "--node", ghost, stdin=pods)
    assert (made.code, made.out) == (0, "".join(f"pod/{name} created\n" for name in names))
    few = ", ".join(names[:3])
    assert made.err == (
        f"Warning: no worker has ever polled for node {ghost}: pods {few} and 2 more start when one does; if the "
        "node's name is wrong, `syncpod delete pod NAME --force` takes the pod back\n"
    )
    for name in names:
        await client.get_workflow_handle(f"pod/default/{name}").terminate()


async def test_an_unanswered_change_leaves_no_traceback(client: Client, tmp_path: Path) -> None:
    name, away = fresh_name(), f"gone-{fresh_name()}"
    arguments = ("apply", "-f", "-", "--wait", "--timeout", "1s", "--node", away)
    environ = {
        "TEMPORAL_ADDRESS": client.service_client.config.target_host,
        "SYNCPOD_STATE_DIR": str(tmp_path),  # of no node: a command notes a node with another server
    }
    made = await asyncio.to_thread(program, *arguments, environ=environ, stdin=as_json(manifest(name)))
    assert (made.code, made.out) == (1, f"pod/{name} created\n")
    first, *_, last = made.err.splitlines()
    assert "Traceback" not in made.err
    assert first == (
        f"Warning: no worker has ever polled for node {away}: pod {name} starts when one does; if the node's name is "
        f"wrong, `syncpod delete pod {name} --force` takes the pod back"
    )
    assert last == f'syncpod: pod "{name}" is not ready after 1s: node {away} is away'
    await client.get_workflow_handle(f"pod/default/{name}").terminate()


@pytest_asyncio.fixture(loop_scope="session")
async def squatted(client: Client, node: ScriptedNode) -> AsyncIterator[str]:
    """The name of a pod, under whose workflow id a stranger started a workflow on the node's own task queue."""
    name = f"n-{fresh_name()}"
    squatter = await client.start_workflow("Squatter", id=f"pod/default/{name}", task_queue=node.queue)
    yield name
    await squatter.terminate()


@pytest.mark.parametrize("verb", [("delete", "pod"), ("get", "pod"), ("describe", "pod"), ("logs",), ("wait",)])
async def test_a_command_names_a_workflow_that_is_not_a_pods(
    syncpod: Command, squatted: str, verb: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing ends a workflow of an unknown type on the node's own queue, and no node restarts it."""
    monkeypatch.setattr(pod_queries, "QUERY_DEADLINE", timedelta(seconds=0.3))
    more = {"delete": ["--force"], "wait": ["--for=condition=Ready"]}.get(verb[0], [])
    done = await syncpod(*verb, f"pod/{squatted}" if verb == ("wait",) else squatted, *more)
    assert (done.code, f"workflow pod/default/{squatted} is not a pod's" in done.err) == (1, True), done.err
    assert (done.out, "Traceback" in done.err) == ("", False)


async def test_an_apply_names_it_long_before_a_busy_node_would_be_given_up(
    syncpod: Command, node: ScriptedNode, squatted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("syncpod.cli.temporal.pod_apply._OWN_SECONDS", 0.1)
    monkeypatch.setattr(updates, "PATIENCE_SECONDS", 3600.0)
    monkeypatch.setattr(updates, "BUSY_PATIENCE_SECONDS", 3600.0)
    on = node.queue.removeprefix("node/")
    done = await syncpod("apply", "-f", "-", "--node", on, stdin=as_json(manifest(squatted)))
    assert (done.code, f"workflow pod/default/{squatted} is not a pod's" in done.err) == (1, True), done.err


async def test_the_other_pods_of_a_deletion_are_deleted_all_the_same(
    syncpod: Command, client: Client, squatted: str, node: ScriptedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pod_queries, "QUERY_DEADLINE", timedelta(seconds=0.3))
    name, on = fresh_name(), node.queue.removeprefix("node/")
    made = await syncpod("apply", "-f", "-", "--node", on, stdin=as_json(manifest(name)))
    assert made.code == 0, made.err
    done = await syncpod("delete", "pod/" + squatted, "pod/" + name, "--force", "--no-wait")
    assert (done.code, done.out) == (1, f'pod "{name}" force deleted from default namespace\n'), done.err
    assert f"workflow pod/default/{squatted} is not a pod's" in done.err


@workflow.defn(name=POD_WORKFLOW)
class Liar:
    """A workflow that answers in place of a pod's."""

    @workflow.run
    async def run(self) -> None:
        await workflow.wait_condition(lambda: False)

    @workflow.query
    def pod(self) -> dict[str, Any]:
        return LIES[workflow.info().workflow_id.rpartition("-")[2]]


LIES: dict[str, dict[str, Any]] = {
    "nopod": {"metadata": 5},
    "another": {"metadata": {"name": "another"}, "spec": {"containers": [{"name": "a", "image": "a"}]}},
    "empty": {"metadata": {"name": "n-empty", "namespace": "default"}, "spec": {}},
}


@workflow.defn(name=NODE_WORKFLOW)
class LyingNode:
    """A workflow that answers in place of a node's."""

    @workflow.run
    async def run(self) -> None:
        await workflow.wait_condition(lambda: False)

    @workflow.update
    def cordon(self, _asked: Any) -> int:
        return 5


@pytest.mark.parametrize("lie", LIES)
async def test_an_answer_that_is_not_the_pod_counts_as_none(syncpod: Command, client: Client, lie: str) -> None:
    """Anybody who polls a node's task queue can answer for its pods."""
    name, queue = "n-empty" if lie == "empty" else f"n-{fresh_name()}-{lie}", f"node/{fresh_name()}"
    async with Worker(client, task_queue=queue, workflows=[Liar], workflow_runner=UnsandboxedWorkflowRunner()):
        lying = await client.start_workflow(POD_WORKFLOW, id=f"pod/default/{name}", task_queue=queue)
        try:
            done, logs = await syncpod("get", "pod", name), await syncpod("logs", name)
        finally:
            await lying.terminate()
    assert (done.code, "Traceback" in done.err) == (0, False), done
    assert f"{name} ? Unknown?" in " ".join(done.out.split())
    assert (logs.code, f'pod "{name}" does not answer' in logs.err) == (1, True), logs


async def test_the_answer_to_an_update_that_cannot_be_read_is_a_failure(syncpod: Command, client: Client) -> None:
    name = f"n-{fresh_name()}"
    queue = f"node/{name}"
    async with Worker(client, task_queue=queue, workflows=[LyingNode], workflow_runner=UnsandboxedWorkflowRunner()):
        lying = await client.start_workflow(NODE_WORKFLOW, id=queue, task_queue=queue)
        try:
            done = await syncpod("cordon", name)
        finally:
            await lying.terminate()
    assert (done.code, "the answer of a workflow cannot be read" in done.err) == (1, True), done


async def test_a_forced_deletion_frees_the_name_of_a_pod_whose_node_never_existed(
    syncpod: Command, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(updates, "PATIENCE_SECONDS", 1.0)
    monkeypatch.setattr(pod_queries, "QUERY_DEADLINE", timedelta(seconds=0.3))
    name, ghost = fresh_name(), f"ghost-{fresh_name()}"
    for _ in range(2):
        made = await syncpod("apply", "-f", "-", "--node", ghost, stdin=as_json(manifest(name)))
        assert (made.code, made.out) == (0, f"pod/{name} created\n")
        assert f"Warning: no worker has ever polled for node {ghost}: pod {name} starts when" in made.err
        asked = await syncpod("delete", "pod", name, "--wait=false")
        assert asked.err == (
            f"Note: no worker has ever polled for node {ghost}, so nothing ends {name} there; --force ends it here\n"
        )
        forced = await syncpod("delete", "pod", name, "--force")
        assert (forced.code, forced.out, forced.err) == (0, f'pod "{name}" force deleted from default namespace\n', "")
        assert (await syncpod("get", "pod", name)).code == 1


async def test_a_pod_of_a_node_that_is_dead_for_good_leaves_its_name_by_force(syncpod: Command, client: Client) -> None:
    """As in kubectl, a warning says that the pod may still run there."""
    name, node = fresh_name(), ScriptedNode()
    there = node.queue.removeprefix("node/")
    async with scripted_worker(client, node):
        assert (await syncpod("apply", "-f", "-", "--node", there, stdin=as_json(manifest(name)))).code == 0
        waited = await syncpod("wait", f"pod/{name}", "--for=condition=Ready", "--timeout", "60s")
        assert waited.code == 0, waited.err
    waits = await syncpod("delete", "pod", name, "--wait=false")
    assert (waits.code, (await syncpod("get", "pod", name)).code) == (0, 0)
    forced = await syncpod("delete", "pod", name, "--force", "--timeout", "30s")
    assert (forced.code, forced.out) == (0, f'pod "{name}" force deleted from default namespace\n'), forced.err
    assert forced.err == (
        f"Note: node {there} is away, so pod {name} has ended without it: its name is free, but its containers "
        "there still run: that node's worker ends them once it is back, unless the node requires signed commands, as "
        f"every node of `up` does; then `{shlex.quote(console.program())} prune {name}` there ends them\n"
    )
    assert (await syncpod("get", "pod", name)).code == 1
    again = await syncpod("apply", "-f", "-", "--node", f"other-{name}", stdin=as_json(manifest(name)))
    assert again.out == f"pod/{name} created\n"
    assert (await syncpod("delete", "pod", name, "--force")).code == 0


async def test_a_forced_deletion_does_not_end_a_pod_that_a_worker_has_started(
    syncpod: Command, client: Client, on: tuple[str, str]
) -> None:
    name = fresh_name()
    await syncpod("apply", "-f", "-", *on, stdin=as_json(manifest(name)))
    fetched = await pod_source.TemporalPods(client).required("default", name)
    assert not await end_if_never_run(client, fetched)
    assert (await pod_source.TemporalPods(client).required("default", name)).current


def test_a_new_pod_is_listed_as_not_ready() -> None:
    pod = parse_pod(manifest("web") | {"metadata": {"name": "web", "namespace": "default"}})
    attributes = start_arguments(pod, "n1", has_attributes=True)["search_attributes"]
    assert attributes.get(SearchAttributeKey.for_bool("PodReady")) is False
    assert attributes.get(SearchAttributeKey.for_keyword("PodStatus")) == "Pending"
    assert attributes.get(SearchAttributeKey.for_int("PodRestarts")) == 0


async def test_a_long_wait_is_announced_once(capsys: pytest.CaptureFixture[str]) -> None:
    async def never() -> Any:
        await asyncio.Event().wait()

    waiting = {asyncio.create_task(never()): parse_pod(manifest(name)) for name in ("a", "b")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(apply_command, "_NOTE_SECONDS", 0.0)
        await apply_command._note_slow_nodes(waiting, "n1")
    for task in waiting:
        task.cancel()
    assert capsys.readouterr().err.startswith("Note: node n1 has not answered yet about 2 pods; ")


async def test_watching_prints_a_line_for_each_change(
    syncpod: Command, node: ScriptedNode, client: Client, on: tuple[str, str]
) -> None:
    name = fresh_name()
    await syncpod("apply", "-f", "-", "--wait", *on, stdin=as_json(manifest(name)))
    command = (sys.executable, "-m", "syncpod.cli.main", "get", "pod", name, "-w")
    watching = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert watching.stdout is not None
    async with asyncio.timeout(60):
        assert (await watching.stdout.readline()).startswith(b"NAME")
        assert (await watching.stdout.readline()).split()[1:4] == [b"1/1", b"Running", b"0"]
        handle = client.get_workflow_handle(f"pod/default/{name}")
        uid = (await query_pod(handle))["metadata"]["uid"]
        await node.tell(handle, await node.exits(uid, "app", 1), "ContainerDied")
        line = (await watching.stdout.readline()).split()[1:4]
        if line == [b"0/1", b"Error", b"0"]:  # seen between its end and its restart
            line = (await watching.stdout.readline()).split()[1:4]
        assert line == [b"1/1", b"Running", b"1"]
        watching.send_signal(signal.SIGINT)
        assert await watching.wait() == 130


async def test_a_plan_shows_what_a_new_active_deadline_does_to_a_running_pod(
    syncpod: Command, on: tuple[str, str]
) -> None:
    """Beside a new label, which alone would be `metadata only`; a time that has just passed is no negative one."""
    name = fresh_name()
    await syncpod("apply", "-f", "-", "--wait", *on, stdin=as_json(manifest(name)))
    ahead = manifest(name, labels={"app": "web"}, activeDeadlineSeconds=36000)
    planned = await syncpod("plan", "-f", "-", *on, stdin=as_json(ahead))
    title, line = planned.out.splitlines()
    assert (planned.code, title) == (0, f"pod/{name}: would be configured, no step")
    assert re.fullmatch(r"  the pod fails in \d+h\d*m?, when its active deadline has passed", line), line
    await asyncio.sleep(2)
    planned = await syncpod("plan", "-f", "-", *on, stdin=as_json(manifest(name, activeDeadlineSeconds=1)))
    title, line = planned.out.splitlines()
    assert (title, line.split()[1:]) == (f"pod/{name}: would be configured", ["kill_pod", "-", "DeadlineExceeded"])


def test_a_back_off_that_is_over_when_it_is_printed_has_no_negative_time(capsys: pytest.CaptureFixture[str]) -> None:
    hold = {"subject": "app", "until": "2026-01-01T00:00:00+00:00", "reason": "CrashLoopBackOff", "message": ""}
    print_plans([{"pod": "web", "change": "none", "steps": [], "holds": [hold]}])
    assert capsys.readouterr().out.splitlines()[1] == "  app waits for 0s more: CrashLoopBackOff"
