"""`debug` on a scripted node: the request, the messages, and the pod's output afterwards."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from temporalio.client import Client

from syncpod.lifecycle.actions import StepName
from syncpod.messages.identity import pod_workflow_id
from syncpod.messages.steps import Fault
from tests.cli.conftest import Command, silent_node
from tests.cli.manifests import as_json, fresh_name, manifest
from tests.workflows.scripted import ScriptedNode, container, until


@pytest.fixture
def endpoint(tmp_path: Path) -> Iterator[str]:
    """A socket in place of a runtime, which must not be called."""
    path = tmp_path / "cri.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        yield f"unix://{path}"


@pytest.fixture
async def web(syncpod: Command, node: ScriptedNode, endpoint: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a pod that runs on this node."""
    here = node.queue.removeprefix("node/")
    monkeypatch.setenv("SYNCPOD_NODE", here)
    monkeypatch.setenv("CONTAINER_RUNTIME_ENDPOINT", endpoint)
    name = fresh_name()
    assert (await syncpod("apply", "-f", "-", "--wait", "--node", here, stdin=as_json(manifest(name)))).code == 0
    return name


async def test_debug_adds_a_container_and_prints_its_name(syncpod: Command, web: str) -> None:
    """Row 55: nothing else of the pod changes but its generation."""
    joined = await syncpod("debug", web, "--image", "busybox:1", "--target", "app", "--", "sleep", "9")
    assert joined.code == 0, joined.err
    said = re.match(r"Defaulting debug container name to (debugger-\w{5})\.\n", joined.err)
    assert said is not None and 'Targeting container "app"' in joined.err
    assert joined.out == f'ephemeral container "{said[1]}" joined pod "{web}"\n'
    shown = json.loads((await syncpod("get", "pod", web, "-o", "json")).out)
    (container,) = shown["spec"]["ephemeralContainers"]
    assert (container["name"], container["command"]) == (said[1], ["sleep", "9"])
    assert (container["targetContainerName"], shown["metadata"]["generation"]) == ("app", 2)
    again = await syncpod("debug", web, "--image", "busybox:1", "-c", said[1], "-q")
    assert (again.code, again.out) == (2, "")
    assert again.err == f"syncpod: --container: {said[1]} is a container of this pod already\n"
    silent = await syncpod("debug", web, "--image", "busybox:1", "-q")
    assert (silent.code, silent.out, silent.err) == (0, "", "")


async def test_the_printed_pod_with_a_debug_container_can_be_applied_again(
    syncpod: Command, client: Client, web: str, node: ScriptedNode
) -> None:
    on, here = ("apply", "-f", "-", "--node"), node.queue.removeprefix("node/")
    await syncpod("debug", web, "--image", "busybox:1", "-c", "look", "--target", "app", "-q", "--", "sleep", "9")
    printed = (await syncpod("get", "pod", web, "-o", "yaml")).out
    await syncpod("debug", web, "--image", "busybox:2", "-c", "more", "-q")
    await until(
        client.get_workflow_handle(pod_workflow_id("default", web)),
        lambda pod: all("running" in container(pod, name).get("state", {}) for name in ("look", "more")),
    )
    again = await syncpod(*on, here, stdin=printed)
    assert (again.code, again.out) == (0, f"pod/{web} unchanged\n"), again.err
    assert (await syncpod("plan", "-f", "-", stdin=printed)).out == f"pod/{web}: unchanged, nothing to do\n"
    shown = json.loads((await syncpod("get", "pod", web, "-o", "json")).out)
    assert [each["name"] for each in shown["spec"]["ephemeralContainers"]] == ["look", "more"]
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}}
    shown["spec"]["ephemeralContainers"][1]["image"] = "busybox:3"
    other = await syncpod(*on, here, stdin=as_json(settings, shown))
    path = "spec.ephemeralContainers[1]: is not one of the pod's; `syncpod debug` adds them to a running pod"
    assert (other.code, other.out, other.err) == (2, "", f"syncpod: pod {web}: {path}\n")
    planned = await syncpod("plan", "-f", "-", stdin=as_json(shown))
    assert (planned.code, planned.out) == (2, f"pod/{web}: would be refused\n") and path in planned.err
    new = manifest(fresh_name(), ephemeralContainers=[{"name": "look", "image": "busybox:1"}])
    refused = await syncpod(*on, here, stdin=as_json(new))
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.endswith(
        ": spec.ephemeralContainers: must not be set in a manifest; they are added to a running pod\n"
    )
    assert (await syncpod("get", "cm", "-o", "name")).out == "", "nothing has been done"
    node.gate["kill_pod"] = asyncio.Event()
    assert (await syncpod("delete", "pod", web, "--no-wait")).code == 0
    follows = await syncpod(*on, here, stdin=printed)
    assert (follows.code, follows.out) == (2, ""), "what follows a pod that is deleted is a new one"
    node.gate["kill_pod"].set()


async def test_a_debug_container_that_does_not_start_is_reported_and_the_pod_stays_ready(
    syncpod: Command, web: str, node: ScriptedNode
) -> None:
    """Row 55: it waits with its reason, and the pod is as ready as it was."""
    node.fault(
        StepName.START_EPHEMERAL_CONTAINER, Fault.CREATE_CONTAINER_CONFIG_ERROR, "unable to find target container app"
    )
    failed = await syncpod("debug", web, "--image", "busybox:1", "-c", "look", "--attach", "-q")
    assert (failed.code, failed.out) == (1, ""), failed.err
    assert failed.err.splitlines() == [
        'syncpod: container "look" does not start: CreateContainerConfigError: unable to find target container app',
        f"syncpod: it stays in the pod, which tries again: `syncpod describe pod {web}` shows its state, "
        f"and once it runs, `syncpod attach {web} -c look` attaches",
    ]
    described = (await syncpod("describe", "pod", web)).out
    assert "Ephemeral Containers:\n  look:\n" in described
    assert "unable to find target container app" in described.partition("Ephemeral Containers:")[2]
    assert (await syncpod("get", "pod", web, "--no-headers")).out.split()[1:4] == ["1/1", "Running", "0"]
    planned = (await syncpod("plan", web)).out
    assert re.search(r"look waits for \d+s more: CreateContainerConfigError", planned), planned
    # It does not count for `wait`, either.
    here = node.queue.removeprefix("node/")
    waited = await syncpod("apply", "-f", "-", "--wait", "--node", here, stdin=as_json(manifest(web)))
    assert (waited.code, waited.out) == (0, f"pod/{web} unchanged\npod/{web} ready\n")


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ((), "name an image: syncpod debug {web} --image IMAGE"),
        (("--image", "i", "-t"), "--tty needs --stdin"),
        (("--image", "i", "--copy-to", "Other"), "--copy-to: must consist of lower-case letters"),
        (("--image", "i", "--copy-to", "other", "--target", "app"), "--target does not go with --copy-to"),
        (("--image", "i", "--target", "db"), "--target: 'db' is not a container of this pod"),
    ],
)
async def test_an_impossible_debug_container_is_refused_by_the_flag(
    syncpod: Command, web: str, flags: tuple[str, ...], sentence: str
) -> None:
    """Row 55: and nothing is sent."""
    refused = await syncpod("debug", web, "-q", *flags)
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.startswith(f"syncpod: {sentence.format(web=web)}")
    shown = json.loads((await syncpod("get", "pod", web, "-o", "json")).out)
    assert "ephemeralContainers" not in shown["spec"]


async def test_debug_of_a_missing_pod_or_on_another_machine_is_refused(
    syncpod: Command, web: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = await syncpod("debug", "nobody", "--image", "i")
    assert (missing.code, missing.err) == (1, 'syncpod: pods "nobody" not found in namespace default\n')
    monkeypatch.setenv("SYNCPOD_NODE", "elsewhere")
    apart = await syncpod("debug", web, "--image", "i", "--attach")
    assert apart.code == 1 and "this is elsewhere: run this command there" in apart.err
    shown = json.loads((await syncpod("get", "pod", web, "-o", "json")).out)
    assert "ephemeralContainers" not in shown["spec"]


async def test_a_debug_copy_has_the_extra_container_and_the_pod_is_unchanged(syncpod: Command, web: str) -> None:
    """Row 55: `--copy-to`, for problems that an ephemeral container cannot show."""
    before = (await syncpod("get", "pod", web, "-o", "json")).out
    copied = await syncpod("debug", web, "--image", "busybox:1", "-c", "look", "--copy-to", f"{web}-copy")
    assert (copied.code, copied.out, copied.err) == (0, f"pod/{web}-copy created\n", "")
    shown = json.loads((await syncpod("get", "pod", f"{web}-copy", "-o", "json")).out)
    assert [each["name"] for each in shown["spec"]["containers"]] == ["app", "look"]
    assert shown["spec"]["shareProcessNamespace"] is True
    again = await syncpod("debug", web, "--image", "busybox:1", "--copy-to", f"{web}-copy")
    assert (again.code, again.err) == (2, f'syncpod: --copy-to: there is a pod "{web}-copy" already\n')
    assert (await syncpod("get", "pod", web, "-o", "json")).out == before


async def test_a_container_of_a_debug_copy_is_changed_and_the_copy_replaces_the_pod(
    syncpod: Command, client: Client, web: str, node: ScriptedNode
) -> None:
    changed = await syncpod("debug", web, "--copy-to", f"{web}-copy", "-c", "app", "--same-node", "--", "sleep", "9")
    assert (changed.code, changed.out, changed.err) == (0, f"pod/{web}-copy created\n", "")
    shown = json.loads((await syncpod("get", "pod", f"{web}-copy", "-o", "json")).out)
    (app,) = shown["spec"]["containers"]
    assert (app["name"], app["command"]) == ("app", ["sleep", "9"])
    last = ("--copy-to", f"{web}-new", "--set-image", "*=busybox:7", "--replace", "-i")
    replaced = await syncpod("debug", web, *last)
    assert (replaced.code, replaced.err) == (0, ""), "no container to attach to is named"
    assert replaced.out == f"pod/{web}-new created\npod/{web} deleted\n"
    shown = json.loads((await syncpod("get", "pod", f"{web}-new", "-o", "json")).out)
    assert [each["image"] for each in shown["spec"]["containers"]] == ["busybox:7"]
    assert (await syncpod("wait", "pod", web, "--for", "delete", "--timeout", "20s")).code == 0
    missing = await syncpod("debug", f"{web}-new", "--copy-to", "b", "--set-image", "db=i")
    assert (missing.code, missing.err) == (2, "syncpod: --set-image: db is none of the pod's containers: app\n")


async def test_a_cordoned_node_refuses_a_debug_copy(
    syncpod: Command, client: Client, web: str, node: ScriptedNode
) -> None:
    here = node.queue.removeprefix("node/")
    async with silent_node(client, here, cordoned=True):
        refused = await syncpod("debug", web, "--image", "busybox:1", "-q", "--copy-to", f"{web}-copy")
    assert refused.code == 1 and f"node {here} is cordoned, and takes no new pod" in refused.err
    assert (await syncpod("get", "pod", f"{web}-copy")).code == 1
