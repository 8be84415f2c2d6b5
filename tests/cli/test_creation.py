"""Creating is exclusive: what another command has created a moment before is neither changed nor owned."""

from __future__ import annotations

import json
from typing import Any

import pytest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from syncpod.cli.failure import AlreadyExists
from syncpod.cli.temporal import pod_apply
from syncpod.cli.temporal.pod_apply import apply_pod
from syncpod.cli.temporal.pod_source import TemporalPods
from syncpod.messages.identity import POD_WORKFLOW
from syncpod.messages.pod_commands import Change
from syncpod.pod import Pod, parse_pod, pod_to_wire
from syncpod.temporal.workflow_starts import start_arguments
from tests.cli.conftest import Command
from tests.cli.manifests import as_json, fresh_name, manifest


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands look whether an object exists before another command has created it."""
    for each in ("_existing_pods", "_existing_objects"):
        monkeypatch.setattr(f"syncpod.cli.actions.create.{each}", lambda _: [])


def pod_named(name: str) -> Pod:
    return parse_pod(manifest(name) | {"metadata": {"name": name, "namespace": "default"}})


async def shown(syncpod: Command, kind: str, name: str) -> dict[str, Any]:
    """The object as `get -o json` prints it."""
    found: dict[str, Any] = json.loads((await syncpod("get", kind, name, "-o", "json")).out)
    return found


@pytest.mark.usefixtures("late")
async def test_a_pod_that_was_created_after_the_look_is_left_as_it_is(syncpod: Command, on: tuple[str, str]) -> None:
    name = fresh_name()
    await syncpod("apply", "-f", "-", "--wait", *on, stdin=as_json(manifest(name)))
    before = await shown(syncpod, "pod", name)
    changed = as_json(manifest(name, labels={"app": "web"}))
    for words in (
        ("create", "-f", "-"),
        ("run", name, "--image", "busybox:2"),
        ("run", name, "--image", "busybox:2", "--attach", "--rm"),
    ):
        refused = await syncpod(*words, *on, stdin=changed)
        assert (refused.code, refused.out) == (1, "")
        assert refused.err == f'syncpod: pods "{name}" already exists in namespace default\n'
    assert await shown(syncpod, "pod", name) == before


@pytest.mark.usefixtures("late")
async def test_an_object_that_was_created_after_the_look_is_left_as_it_is(
    syncpod: Command, on: tuple[str, str]
) -> None:
    def settings(value: str) -> dict[str, Any]:
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"a": value}}

    made = await syncpod("create", "-f", "-", stdin=as_json(settings("1")))
    assert (made.code, made.out) == (0, "configmap/settings created\n")
    name = fresh_name()
    refused = await syncpod("create", "-f", "-", stdin=as_json(settings("2"), manifest(name)))
    assert (refused.code, refused.out) == (1, "")
    assert refused.err == 'syncpod: configmaps "settings" already exists in namespace default\n'
    assert (await shown(syncpod, "cm", "settings"))["data"] == {"a": "1"}
    assert (await syncpod("get", "pod", name)).code == 1


async def test_a_debug_copy_does_not_change_a_pod_that_was_created_meanwhile(
    syncpod: Command, on: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    web, copy = fresh_name(), fresh_name()
    await syncpod("apply", "-f", "-", *on, "--wait", stdin=as_json(manifest(web), manifest(copy)))
    before, read = await shown(syncpod, "pod", copy), TemporalPods.read
    reads: dict[str, bool] = {}

    async def too_early(self: TemporalPods, namespace: str, name: str) -> Any:
        first, reads[name] = name not in reads, True
        return None if name == copy and first else await read(self, namespace, name)

    monkeypatch.setattr(TemporalPods, "read", too_early)
    words = ("debug", web, "--copy-to", copy, "-c", "app", "--set-image", "app=busybox:2")
    refused = await syncpod(*words)
    assert (refused.code, refused.out) == (2, "")
    assert refused.err == f'syncpod: --copy-to: there is a pod "{copy}" already\n'
    assert await shown(syncpod, "pod", copy) == before


async def test_a_creation_whose_answer_is_lost_is_still_a_creation(
    client: Client, on: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lost: list[str] = []
    send = client.service_client._rpc_call

    async def losing(rpc: str, *args: Any, **more: Any) -> Any:
        answer = await send(rpc, *args, **more)
        if rpc == "execute_multi_operation" and not lost:
            lost.append(rpc)
            raise RPCError("connection lost", RPCStatusCode.UNAVAILABLE, b"")
        return answer

    monkeypatch.setattr(client.service_client, "_rpc_call", losing)
    pod = pod_named(fresh_name())
    made = await apply_pod(client, pod, node=on[1], has_attributes=False, creates=True)
    assert (made.change, len(lost)) == (Change.CREATED, 1)
    with pytest.raises(AlreadyExists):
        await apply_pod(client, pod, node=on[1], has_attributes=False, creates=True)


async def test_a_pod_whose_creation_lost_its_update_is_created_by_the_same_command_alone(
    client: Client, on: tuple[str, str]
) -> None:
    """So it is after a server that died between the start of the workflow and the acceptance of its update."""
    pod = pod_named(fresh_name())
    more = start_arguments(pod, on[1], has_attributes=False)
    await client.start_workflow(POD_WORKFLOW, {"pod": pod_to_wire(pod), "byUpdate": "mine"}, **more)

    async def sent(command: str) -> Any:
        return await pod_apply._until_answered(client, pod, on[1], False, command, creates=True)

    with pytest.raises(AlreadyExists):
        await sent("another's")
    assert (await sent("mine")).change is Change.CREATED


async def test_a_pod_is_created_whose_namesake_has_just_ended(syncpod: Command, on: tuple[str, str]) -> None:
    name = fresh_name()
    for _ in range(2):
        made = await syncpod("create", "-f", "-", *on, stdin=as_json(manifest(name)))
        assert (made.code, made.out) == (0, f"pod/{name} created\n"), made.err
        assert (await syncpod("delete", "pod", name, "--force")).code == 0
