"""`describe`, `history` and `plan` on a scripted node."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from temporalio.client import Client
from temporalio.exceptions import ApplicationError

from syncpod.api.views.pod_description import Facts, describe, describe_recorded
from syncpod.cli.temporal import pod_queries
from syncpod.lifecycle.actions import StepName
from syncpod.messages.running_steps import PendingStep
from syncpod.messages.steps import StepInput
from syncpod.pod import ObjectMeta, Pod, PodSpec, admit_pod
from syncpod.pod.meta import OwnerReference
from tests.cli.conftest import Command
from tests.cli.manifests import as_json, fresh_name, manifest
from tests.workflows.scripted import ScriptedNode, container, query_pod, scripted_worker, until


def has_restarted(times: int, pod: dict[str, Any]) -> bool:
    return bool(container(pod, "app")["restartCount"] >= times)


async def test_describe_shows_restart_settings_and_their_effects(
    syncpod: Command, client: Client, node: ScriptedNode, on: tuple[str, str]
) -> None:
    name = fresh_name()
    pod = manifest(name)
    says = {
        "backoff-initial": "2s",
        "backoff-factor": "1.5",
        "backoff-exempt-exit-codes": "0,143",
        "restart-limit": "1",
    }
    pod["metadata"]["annotations"] = {f"syncpod.dev/{word}": value for word, value in says.items()}
    wrong = manifest(name)
    wrong["metadata"]["annotations"] = {"syncpod.dev/backoff-initial": "2"}
    refused = await syncpod("apply", "-f", "-", *on, stdin=as_json(wrong))
    assert refused.code == 2
    assert "metadata.annotations[syncpod.dev/backoff-initial]: must be a duration such as 10s or 1m30s" in refused.err
    await syncpod("apply", "-f", "-", "--wait", *on, stdin=as_json(pod))
    handle = client.get_workflow_handle(f"pod/default/{name}")
    uid = (await query_pod(handle))["metadata"]["uid"]
    await node.tell(handle, await node.exits(uid, "app", 1, ago=400))
    await until(handle, partial(has_restarted, 1))
    await node.tell(handle, await node.exits(uid, "app", 1, ago=400))
    await until(handle, lambda pod: "RestartLimitReached" in str(container(pod, "app")["state"]))
    squeezed = [" ".join(line.split()) for line in (await syncpod("describe", "pod", name)).out.splitlines()]
    for line in (
        "Restart Back-off: 2s, each 1.5 times the one before, 5m0s at most; reset after 10m0s of running",
        "none for exit codes 0, 143",
        "1 restart in a row at most, then held until `syncpod retry`",
        "Reason: RestartLimitReached",
        "app: RestartLimitReached, until `syncpod retry`",
    ):
        assert line in squeezed
    planned = (await syncpod("plan", name)).out
    assert "app waits for `syncpod retry`: RestartLimitReached" in planned
    assert (await syncpod("retry", name)).out == f"pod/{name} retrying (app)\n"
    await until(handle, partial(has_restarted, 2))


async def test_a_described_pod_shows_its_state_and_what_was_rejected(
    syncpod: Command, client: Client, on: tuple[str, str]
) -> None:
    name = fresh_name()
    env = [
        {"name": "PLAIN", "value": "x"},
        {"name": "ORDER", "value": "\x1b[2J\x07"},
        {"name": "SELF", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
    ]
    mounts = [{"name": "work", "mountPath": "/work", "readOnly": True}]
    containers = [{"name": "app", "image": "busybox:1", "command": ["sh", "-c"], "env": env, "volumeMounts": mounts}]
    pod = manifest(name, labels={"app": "web"}, containers=containers, volumes=[{"name": "work", "emptyDir": {}}])
    await syncpod("apply", "-f", "-", "--wait", *on, stdin=as_json(pod))
    await client.get_workflow_handle(f"pod/default/{name}").signal("update_pod", {"kind": "Pot"})
    described = await syncpod("describe", "pod", name)
    assert described.code == 0
    squeezed = [" ".join(line.split()) for line in described.out.splitlines()]
    for line in (
        f"Name: {name}",
        "Labels: app=web",
        "Status: Running",
        "State: Running",
        "Ready: True",
        "Restart Count: 0",
        "PLAIN: x",
        r"ORDER: \x1b[2J\x07",
        "SELF: (v1:metadata.name)",
        "/work from work (ro)",
        "Ready True",
        "Type: EmptyDir (a directory that is deleted with the pod)",
        "QoS Class: BestEffort",
        f"Workflow ID: pod/default/{name}",
    ):
        assert line in squeezed, described.out
    assert any(line.startswith("Warning Rejected") and "signal update_pod" in line for line in squeezed)


async def test_describe_of_a_kind_without_a_name_shows_all(syncpod: Command, on: tuple[str, str]) -> None:
    space, one, two = fresh_name(), fresh_name(), fresh_name()
    none = await syncpod("describe", "pods", "-n", space)
    assert (none.code, none.out, none.err) == (0, "", f"No resources found in {space} namespace.\n")
    await syncpod("apply", "-n", space, "-f", "-", "--wait", *on, stdin=as_json(manifest(one), manifest(two)))
    for words in (("pods",), ("pod",), ("po",)):
        described = await syncpod("describe", *words, "-n", space)
        names = [line.split()[1] for line in described.out.splitlines() if line.startswith("Name:")]
        assert (described.code, names, described.err) == (0, sorted((one, two)), "")
    both = await syncpod("describe", "pod", one, "-l", "app=web")
    assert (both.code, both.err) == (2, "syncpod: name what to describe, or choose it with --selector, not both\n")


@pytest.mark.parametrize("details", [(), ("x" * 10_000,)], ids=["short", "longer than the server keeps"])
async def test_describe_shows_the_last_failure_of_a_retried_step(
    syncpod: Command, node: ScriptedNode, on: tuple[str, str], details: tuple[str, ...]
) -> None:
    name = fresh_name()
    tries = asyncio.Semaphore(0)

    def away(_: StepInput) -> None:
        tries.release()
        raise ApplicationError("the runtime is away", *details)

    node.script[StepName.CREATE_SANDBOX] += [away] * 6
    await syncpod("apply", "-f", "-", *on, stdin=as_json(manifest(name)))
    for _ in range(3):
        await tries.acquire()
    described = await syncpod("describe", "pod", name)
    assert "Pending Steps:\n  create_sandbox: try " in described.out
    assert "last failed: the runtime is away" in described.out
    node.script[StepName.CREATE_SANDBOX].clear()


async def test_describe_shows_the_progress_of_a_long_step(
    syncpod: Command, node: ScriptedNode, on: tuple[str, str]
) -> None:
    name = fresh_name()
    node.gate["create_sandbox"] = asyncio.Event()
    await syncpod("apply", "-f", "-", *on, stdin=as_json(manifest(name)))
    try:
        async with asyncio.timeout(60):
            while "\n    waits at the gate of create_sandbox\n" not in (await syncpod("describe", "pod", name)).out:
                pass
    finally:
        node.gate.pop("create_sandbox").set()


async def test_a_back_off_is_described_and_planned(
    syncpod: Command, node: ScriptedNode, client: Client, on: tuple[str, str]
) -> None:
    name = fresh_name()
    await syncpod("apply", "-f", "-", "--wait", *on, stdin=as_json(manifest(name)))
    handle = client.get_workflow_handle(f"pod/default/{name}")
    uid = (await query_pod(handle))["metadata"]["uid"]
    for restart in range(2):
        await until(handle, partial(has_restarted, restart))
        await node.tell(handle, await node.exits(uid, "app", 1), "ContainerDied")
    assert (await syncpod("get", name, "--no-headers")).out.split()[2] == "CrashLoopBackOff"
    assert "Waiting For:\n  app: CrashLoopBackOff, " in (await syncpod("describe", name)).out
    planned = await syncpod("plan", name)
    assert planned.out.startswith(
        f"pod/{name}: unchanged\n  1.   start_container   app   exited 1 (Error)\n  app waits for "
    )
    shown = await syncpod("history", name)
    told = [" ".join(line.split()[2:]) for line in shown.out.splitlines()]
    assert told[-2].startswith("exit app (restart 1) exited 1 (Error)")


async def test_plan_lists_all_steps_of_a_new_pod_without_taking_them(syncpod: Command, node: ScriptedNode) -> None:
    name = fresh_name()
    init = [
        {"name": "first", "image": "busybox:1"},
        {"name": "proxy", "image": "busybox:1", "restartPolicy": "Always"},
    ]
    pod = as_json(manifest(name, initContainers=init))
    planned = await syncpod("plan", "-f", "-", stdin=pod)
    assert planned.code == 0
    assert [line.split(maxsplit=3) for line in planned.out.splitlines()[1:]] == [
        ["1.", "create_sandbox", "-", "first sandbox"],
        ["2.", "start_init_container", "first", "first start"],
        ["3.", "start_init_container", "proxy", "once first has completed"],
        ["4.", "start_container", "app", "once proxy has started"],
    ]
    document = json.loads((await syncpod("plan", "-f", "-", "-o", "json", stdin=pod)).out)
    assert document["change"] == "create" and len(document["steps"]) == 4
    assert (await syncpod("get", "pod", name)).code == 1
    assert not node.taken


async def test_a_changed_pod_is_planned_by_its_workflow(syncpod: Command, on: tuple[str, str]) -> None:
    name = fresh_name()
    await syncpod("apply", "-f", "-", "--wait", *on, stdin=as_json(manifest(name)))
    same = await syncpod("plan", "-f", "-", stdin=as_json(manifest(name)))
    assert same.out == f"pod/{name}: unchanged, nothing to do\n"
    document = await syncpod("plan", "-f", "-", "-o", "json", stdin=as_json(manifest(name)))
    assert (json.loads(document.out)["change"], json.loads(document.out)["steps"]) == ("none", [])
    newer = manifest(name, containers=[{"name": "app", "image": "busybox:2"}])
    planned = await syncpod("plan", "-f", "-", stdin=as_json(newer))
    title, *steps = planned.out.splitlines()
    assert title == f"pod/{name}: would be configured (app busybox:1 -> busybox:2)"
    assert [line.split()[1] for line in steps] == ["kill_container", "start_container"]
    labelled = await syncpod("plan", "-f", "-", stdin=as_json(manifest(name, labels={"app": "web"})))
    assert labelled.out == f"pod/{name}: would be configured (metadata only), no step\n"
    tolerant = as_json(manifest(name, tolerations=[{"key": "a", "operator": "Exists"}]))
    assert (await syncpod("plan", "-f", "-", stdin=tolerant)).out == f"pod/{name}: would be configured, no step\n"


async def test_history_outlives_the_pod_and_its_worker(
    syncpod: Command, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, node = fresh_name(), ScriptedNode()
    async with scripted_worker(client, node):
        on = ("--node", node.queue.removeprefix("node/"))
        await syncpod("apply", "-f", "-", "--wait", *on, stdin=as_json(manifest(name)))
        await syncpod("delete", name)
        told = await syncpod("history", name, "-o", "json")
        assert (told.code, told.err) == (0, "")
        steps = [(one["subject"], one["attempt"]) for one in json.loads(told.out) if one["kind"] == "step"]
        assert steps == [("create_sandbox", 1), ("start_container", 1), ("kill_pod", 1)]
    monkeypatch.setattr(pod_queries, "QUERY_DEADLINE", timedelta(seconds=0.3))
    recorded = await syncpod("history", name, "-o", "json")
    assert recorded.code == 0 and "this is what Temporal recorded of its last run" in recorded.err
    document = json.loads(recorded.out)
    assert [(one["subject"], one["attempt"]) for one in document if one["kind"] == "step"] == steps
    assert next(one for one in document if one["subject"] == "start_container")["reason"].startswith("start app")
    table = await syncpod("history", name)
    assert table.out.splitlines()[0].split() == ["TIME", "KIND", "WHAT", "OUTCOME", "TRY", "TOOK", "WHY"]


@pytest.mark.parametrize(("seconds", "said"), [(-5, "try 7, for 5s"), (0, "try 7, for 0s"), (3.5, "try 7 in 3s")])
def test_a_step_between_two_attempts_shows_when_the_next_begins(seconds: float, said: str) -> None:
    now = datetime(2026, 1, 31, 12, tzinfo=UTC)
    step = PendingStep("kill_pod", 7, now + timedelta(seconds=seconds), "Deadline Exceeded")
    lines = describe(admit_pod(manifest("web")), Facts("pod/default/web", "run", "", pending=(step,)), now)
    at = lines.index("Pending Steps:")
    assert lines[at + 1 : at + 3] == [f"  kill_pod: {said}", "    last failed: Deadline Exceeded"]


def test_an_unanswering_pod_is_described_only_with_what_is_known() -> None:
    pod = Pod(metadata=ObjectMeta(name="web", namespace="default"), spec=PodSpec(node_name="away"))
    lines = describe_recorded(pod, Facts("pod/default/web", "run", "", events=None), datetime.now(UTC))
    assert lines[-1] == "Events:  <unknown>, the pod did not answer"
    assert not [line for line in lines if line.startswith(("QoS", "Restart Policy", "Volumes", "Containers"))]


def test_events_that_could_not_be_read_are_not_shown_as_none() -> None:
    lines = describe(admit_pod(manifest("web")), Facts("pod/default/web", "run", "", events=None), datetime.now(UTC))
    assert lines[-1] == "Events:  <unknown>, the pod did not answer"


def test_a_described_pod_has_its_controller() -> None:
    """As in `kubectl describe`: below its addresses, and no owner that does not control it."""
    shard = OwnerReference(kind="Shard", name="s")
    owner = OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="web-1", controller=True)
    meta = ObjectMeta(name="web", namespace="default", owner_references=(shard, owner))
    now = datetime.now(UTC)
    lines = describe(Pod(metadata=meta, spec=PodSpec()), Facts("pod/default/web", "r", ""), now)
    (at,) = [at for at, line in enumerate(lines) if line.startswith("Controlled By:")]
    assert lines[at].split() == ["Controlled", "By:", "ReplicaSet/web-1"] and lines[at - 1].startswith("IPs:")
