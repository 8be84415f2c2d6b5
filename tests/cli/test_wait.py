"""`wait`, `restart` and `retry` on a scripted node."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, cast
from unittest.mock import AsyncMock, Mock

import pytest
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowHandle

from syncpod.cli.temporal import pod_queries, pod_waits
from syncpod.messages.steps import Fault
from tests.agent.waiting import until
from tests.cli.conftest import Command
from tests.cli.manifests import as_json, fresh_name, manifest
from tests.workflows.scripted import ScriptedNode

READY = "--for=condition=Ready"


@pytest.fixture
def waits_begun(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Records the pods for which commands wait, each after its first read."""
    begun: list[str] = []

    def noting(wait: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def noted(client: Client, namespace: str, name: str, *more: Any) -> Any:
            begun.append(name)
            return await wait(client, namespace, name, *more)

        return noted

    for each in ("until_seen", "until_gone"):
        monkeypatch.setattr(f"syncpod.cli.actions.wait.{each}", noting(getattr(pod_waits, each)))
    return begun


@pytest.mark.parametrize("words", [("get",), ("wait", READY), ("delete",)], ids=" ".join)
async def test_the_namespace_default_counts_as_given_also_beside_a_manifest(
    syncpod: Command, words: tuple[str, ...]
) -> None:
    document = manifest("web")
    document["metadata"]["namespace"] = "prod"
    refused = await syncpod(*words, "-f", "-", "-n", "default", stdin=as_json(document))
    assert (refused.code, refused.out) == (2, "")
    assert "metadata.namespace: is prod, but --namespace asks for default" in refused.err


async def test_wait_ends_when_the_pod_meets_the_goal(syncpod: Command, on: tuple[str, str]) -> None:
    one, two = fresh_name(), fresh_name()
    labels = {"wait": one}
    documents = as_json(manifest(one, labels=labels), manifest(two, labels=labels))
    await syncpod("apply", "-f", "-", *on, stdin=documents)
    both = f"pod/{one} condition met\npod/{two} condition met\n"
    assert (await syncpod("wait", f"pod/{one}", f"pod/{two}", READY)).out == both
    assert (await syncpod("wait", "-f", "-", "--for=condition=ready=true", stdin=documents)).out == both
    selected = await syncpod("wait", "pods", "-l", f"wait={one}", "--for=jsonpath={.status.phase}=Running")
    assert sorted(selected.out.splitlines()) == sorted(both.splitlines())
    assert (await syncpod("wait", one, READY, "-o", "name")).out == f"pod/{one}\n"
    shown = json.loads((await syncpod("wait", one, "--for=create", "-o", "json")).out)
    assert (shown["kind"], shown["metadata"]["name"]) == ("Pod", one)


async def test_a_waiting_command_asks_now_and_then_whether_a_pods_run_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    describe = AsyncMock(return_value=Mock(run_id="run", status=WorkflowExecutionStatus.RUNNING))
    runs = pod_queries.OpenRuns(cast("Client", Mock(get_workflow_handle=lambda _: Mock(describe=describe))))

    async def asked(workflow_id: str, run_id: str) -> tuple[bool, int]:
        describe.reset_mock()
        return await runs.has(workflow_id, run_id), describe.await_count

    assert await asked("pod/default/web", "run") == (True, 1)
    assert await asked("pod/default/web", "run") == (True, 0)
    assert await asked("pod/default/db", "run") == (True, 1)
    assert [await asked("pod/default/web", "earlier") for _ in range(2)] == [(False, 1)] * 2, "until it is the open one"
    assert await asked("pod/default/web", "run") == (True, 1)
    monkeypatch.setattr(pod_queries, "OPEN_SECONDS", 0)
    assert await asked("pod/default/web", "run") == (True, 1)


async def test_a_pod_that_meets_the_goal_is_read_once(
    syncpod: Command, on: tuple[str, str], waits_begun: list[str]
) -> None:
    name = fresh_name()
    await syncpod("apply", "-f", "-", "--wait", *on, stdin=as_json(manifest(name)))
    assert (await syncpod("wait", name, READY)).out == f"pod/{name} condition met\n"
    assert waits_begun == []


async def test_a_timed_out_wait_reports_what_is_missing(syncpod: Command, on: tuple[str, str]) -> None:
    good, never = fresh_name(), fresh_name()
    await syncpod("apply", "-f", "-", "--wait", *on, stdin=as_json(manifest(good)))
    for timeout in ("0", "200ms"):
        late = await syncpod("wait", good, "--for=condition=Ready=False", "--timeout", timeout)
        sentence = f"syncpod: timed out waiting for the condition on pods/{good}: it is Running\n"
        assert (late.code, late.out, late.err) == (1, "", sentence)
    missing = await syncpod("wait", never, good, READY)
    assert (missing.code, missing.out) == (1, f"pod/{good} condition met\n")
    assert missing.err == f'syncpod: pods "{never}" not found in namespace default\n'
    none = await syncpod("wait", "--all", "-n", "nowhere", READY)
    assert (none.code, none.err) == (1, "syncpod: no matching resources found\n")
    uncreated = await syncpod("wait", never, "--for=create", "--timeout", "100ms")
    assert (uncreated.code, uncreated.err.count("it does not exist")) == (1, 1)


async def test_wait_waits_for_creation_and_deletion(
    syncpod: Command, on: tuple[str, str], waits_begun: list[str]
) -> None:
    name = fresh_name()
    gone = await syncpod("wait", name, "--for=delete")
    assert (gone.code, gone.out, gone.err) == (0, "", "")
    waiting = asyncio.create_task(syncpod("wait", name, "--for=create", "--timeout=-1s"))
    await until(lambda: waits_begun == [name])
    assert not waiting.done()
    await syncpod("apply", "-f", "-", "--wait", *on, stdin=as_json(manifest(name)))
    assert (await waiting).code == 0
    ending = asyncio.create_task(syncpod("wait", name, "--for=delete", "--timeout=60s"))
    await until(lambda: waits_begun == [name, name])
    assert not ending.done()
    await syncpod("delete", name)
    assert (await ending).code == 0
    late = await syncpod("wait", name, "--for=condition=Ready")
    assert late.code == 1 and "not found" in late.err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("web",), "--for: say what to wait for: --for=condition=Ready"),
        (("web", "--for=Ready"), "--for: must be condition=NAME[=VALUE], delete, create or jsonpath="),
        (("web", "--for=jsonpath={..a}"), "--for: '{..a}' cannot be read as JSONPath from '..a' on"),
        ((READY,), "say which pods to wait for, in one of these ways"),
        (("web", "--all", READY), "say which pods to wait for, in one of these ways"),
        (("web", "-A", READY), "--all-namespaces: is for pods that -l or --all selects"),
        (("web", READY, "--timeout", "soon"), "--timeout: 'soon' is not a duration"),
        (("web", READY, "-o", "wide"), "--output: must be json, yaml, name, not wide"),
        (("svc/web", READY), "'svc/web': there are no Services"),
    ],
)
async def test_an_impossible_wait_is_refused(syncpod: Command, arguments: tuple[str, ...], sentence: str) -> None:
    refused = await syncpod("wait", *arguments)
    assert (refused.code, refused.out) == (2, "")
    assert sentence in refused.err and refused.err.count("\n") == 1


async def test_a_wait_value_that_cannot_be_compared_is_refused(syncpod: Command, on: tuple[str, str]) -> None:
    name = fresh_name()
    await syncpod("apply", "-f", "-", "--wait", *on, stdin=as_json(manifest(name)))
    refused = await syncpod("wait", name, "--for=jsonpath={.status}=Running")
    assert (refused.code, refused.err.count("\n")) == (2, 1)


# --- restart ----------------------------------------------------------------------------------------------------------


async def test_restart_restarts_containers_and_waits(syncpod: Command, node: ScriptedNode, on: tuple[str, str]) -> None:
    name = fresh_name()
    containers = [{"name": each, "image": "busybox:1"} for each in ("app", "side")]
    await syncpod("apply", "-f", "-", "--wait", *on, stdin=as_json(manifest(name, containers=containers)))
    one = await syncpod("restart", name, "-c", "side", "--wait")
    assert (one.code, one.out, one.err) == (0, f"pod/{name} restarting (side)\npod/{name} ready\n", "")
    all_ = await syncpod("restart", f"pod/{name}", "--wait")
    assert all_.out == f"pod/{name} restarting (app, side)\npod/{name} ready\n"
    pod = json.loads((await syncpod("get", "pod", name, "-o", "json")).out)
    assert {each["name"]: each["restartCount"] for each in pod["status"]["containerStatuses"]} == {"app": 1, "side": 2}


async def test_an_impossible_restart_is_reported(syncpod: Command, on: tuple[str, str]) -> None:
    name, never = fresh_name(), fresh_name()
    init = [{"name": "setup", "image": "busybox:1"}]
    await syncpod("apply", "-f", "-", *on, stdin=as_json(manifest(name, initContainers=init)))
    unknown = await syncpod("restart", name, "-c", "none")
    assert (unknown.code, unknown.err) == (
        1,
        f'syncpod: container "none" is not in pod "{name}", which has setup, app\n',
    )
    once = await syncpod("restart", name, "-c", "setup")
    assert (once.code, once.out) == (2, "")
    assert once.err == (
        f'syncpod: container "setup" of pod "{name}" is an init container: init containers are never restarted alone\n'
    )
    missing = await syncpod("restart", never, name, "-c", "none")
    assert missing.code == 1 and missing.err.count("\n") == 2
    assert (await syncpod("restart")).err == "syncpod: name a pod\n"


# --- retry ------------------------------------------------------------------------------------------------------------


async def test_retry_ends_one_back_off_by_name_or_all(
    syncpod: Command, client: Client, node: ScriptedNode, on: tuple[str, str]
) -> None:
    name = fresh_name()
    for _ in range(2):
        node.fault("start_container", Fault.RUN_CONTAINER_ERROR, "no such program")
    await syncpod("apply", "-f", "-", *on, stdin=as_json(manifest(name)))
    handle = client.get_workflow_handle(f"pod/default/{name}")
    await _until_held(handle, node, tries=1)
    first = await syncpod("retry", name, "-c", "app")
    assert (first.code, first.out) == (0, f"pod/{name} retrying (app)\n"), first.err
    await _until_held(handle, node, tries=2)
    second = await syncpod("retry", name, "--wait")
    assert second.out == f"pod/{name} retrying (app)\npod/{name} ready\n", second.err


async def _until_held(handle: WorkflowHandle[Any, Any], node: ScriptedNode, *, tries: int) -> None:
    async with asyncio.timeout(60):
        tried = "start_container app"
        while node.steps().count(tried) < tries or not (await handle.query("plan"))["holds"]:  # noqa: ASYNC110  # a query is all there is
            await asyncio.sleep(0.05)


async def test_retry_repeats_a_failed_kill_at_once(
    syncpod: Command, client: Client, node: ScriptedNode, on: tuple[str, str]
) -> None:
    name = fresh_name()
    await syncpod("apply", "-f", "-", "--wait", *on, stdin=as_json(manifest(name)))
    node.fault("kill_pod", Fault.FAILED_KILL_POD, "the runtime says no")
    await syncpod("delete", "pod", name, "--no-wait")
    handle = client.get_workflow_handle(f"pod/default/{name}")
    async with asyncio.timeout(60):
        while not (await handle.query("plan"))["holds"]:  # noqa: ASYNC110  # a query is all there is
            await asyncio.sleep(0.05)
    again = await syncpod("retry", name)
    assert (again.code, again.out) == (0, f"pod/{name} retrying (kill_pod)\n"), again.err
    async with asyncio.timeout(60):
        await handle.result()


async def test_retry_says_if_nothing_waits(syncpod: Command, on: tuple[str, str]) -> None:
    name = fresh_name()
    await syncpod("apply", "-f", "-", "--wait", *on, stdin=as_json(manifest(name)))
    nothing = await syncpod("retry", name)
    assert (nothing.code, nothing.err) == (1, f'syncpod: pod "{name}" is not in a back-off: it is Running\n')
    runs = await syncpod("retry", name, "-c", "app")
    assert (runs.code, runs.err) == (1, f'syncpod: container "app" in pod "{name}" is not in a back-off\n')
    unknown = await syncpod("retry", name, "-c", "none")
    assert (unknown.code, unknown.err.count("\n")) == (1, 1)
