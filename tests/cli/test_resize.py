"""``syncpod resize``, and resizes in `plan`."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from syncpod.messages.steps import Allocation
from tests.cli.conftest import Command
from tests.cli.manifests import as_json, fresh_name, manifest
from tests.workflows.scripted import ScriptedNode
from workflows.pod import sync
from workflows.rejections import Rejected

SMALL = {"limits": {"cpu": "200m", "memory": "64Mi"}, "requests": {"cpu": "100m", "memory": "64Mi"}}


def sized(name: str, resources: dict[str, Any]) -> str:
    containers = [{"name": "app", "image": "busybox:1", "resources": resources}]
    return as_json(manifest(name, containers=containers))


async def running(syncpod: Command, node: ScriptedNode) -> str:
    """The name of a small pod that is ready."""
    name = fresh_name()
    applied = await syncpod(
        "apply", "-f", "-", "--wait", "--node", node.queue.removeprefix("node/"), stdin=sized(name, SMALL)
    )
    assert applied.code == 0, applied.err
    return name


async def test_resize_reports_success_once_the_pod_is_resized(syncpod: Command, node: ScriptedNode) -> None:
    """Row 116: with the arguments of `kubectl set resources`."""
    name = await running(syncpod, node)
    shown = await syncpod("resize", name, "--limits", "cpu=400m,memory=128Mi", "--dry-run")
    assert shown.out.splitlines()[0] == f"pod/{name}: would be resized"
    assert "memory limit of app 64Mi -> 128Mi, cpu limit of app 200m -> 400m" in shown.out
    assert "resize_pod" not in node.steps()
    done = await syncpod("resize", f"pod/{name}", "-c", "a*", "--limits", "cpu=400m,memory=128Mi", "--wait")
    assert (done.code, done.out.splitlines()) == (0, [f"pod/{name} resizing (app)", f"pod/{name} resized"]), done.err
    pod = json.loads((await syncpod("get", "pod", name, "-o", "json")).out)
    assert pod["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "400m", "memory": "128Mi"}
    again = await syncpod("resize", name, "--limits", "memory=128Mi")
    assert again.out == f"pod/{name} unchanged\n"
    assert [step for step in node.steps() if "res" in step] == ["allocate_resources", "resize_pod"]


async def test_a_plan_of_a_manifest_shows_its_resize(syncpod: Command, node: ScriptedNode) -> None:
    name = await running(syncpod, node)
    larger = sized(name, {**SMALL, "requests": {"cpu": "150m", "memory": "64Mi"}})
    shown = await syncpod("plan", "-f", "-", stdin=larger)
    assert shown.out.splitlines()[0] == f"pod/{name}: would be resized"
    assert "cpu request of app 100m -> 150m" in shown.out
    assert (await syncpod("apply", "-f", "-", stdin=larger)).out == f"pod/{name} configured\n"


async def test_waiting_for_a_resize_reports_why_it_is_pending(syncpod: Command, node: ScriptedNode) -> None:
    """Row 115: deferred until the time is over, or infeasible at once."""
    name = await running(syncpod, node)
    node.no_room(
        Allocation(pending="Deferred", message="Node didn't have enough resource: cpu"),
        Allocation(pending="Infeasible", message="Node didn't have enough capacity: cpu"),
    )
    deferred = await syncpod("resize", name, "--limits", "cpu=1", "--wait", "--timeout", "1s")
    assert (deferred.code, deferred.out) == (1, f"pod/{name} resizing (app)\n")
    assert deferred.err == (
        f'syncpod: pod "{name}" is not resized after 1s: Deferred: Node didn\'t have enough resource: cpu\n'
    )
    never = await syncpod("resize", name, "--limits", "cpu=2", "--wait")
    assert never.err == f'syncpod: pod "{name}" is not resized: Infeasible: Node didn\'t have enough capacity: cpu\n'
    taken_back = await syncpod("resize", name, "--limits", "cpu=200m", "--wait")
    assert taken_back.code == 0


async def test_an_impossible_resize_is_refused_in_one_sentence(syncpod: Command, node: ScriptedNode) -> None:
    name = await running(syncpod, node)
    for arguments, sentence in (
        ((name,), "say what is to change: --limits cpu=500m,memory=256Mi, or --requests, or both"),
        ((name, "--limits", "gpu=1"), "--limits: 'gpu=1' must be cpu=AMOUNT or memory=AMOUNT"),
        ((name, "--pod", "-c", "app", "--limits", "cpu=1"), "either --pod or --container"),
        ((name, "--requests", "cpu=1"), "spec.containers[0].resources.requests[cpu]: must be no more than the limit"),
        ((name, "--requests", "cpu=200m"), "spec: a resize may not change the pod's QoS class"),
        ((name, "--requests", "cpu=200m", "--dry-run"), "spec: a resize may not change the pod's QoS class"),
    ):
        refused = await syncpod("resize", *arguments)
        assert (refused.code, refused.out) == (2, ""), arguments
        assert sentence in refused.err
    other = await syncpod("resize", name, "-c", "db", "--limits", "cpu=1")
    assert (other.code, other.err) == (1, f'syncpod: container "db" is not in pod "{name}", which has app\n')
    absent = await syncpod("resize", "nobody", "--limits", "cpu=1")
    assert (absent.code, absent.err) == (1, 'syncpod: pods "nobody" not found in namespace default\n')
    assert "allocate_resources" not in node.steps()


async def test_a_pod_that_ends_is_not_resized(syncpod: Command, node: ScriptedNode) -> None:
    name = await running(syncpod, node)
    node.gate["kill_pod"] = asyncio.Event()
    deleted = await syncpod("delete", name, "--no-wait")
    assert deleted.code == 0, deleted.err
    for flags in ((), ("--dry-run",)):
        refused = await syncpod("resize", name, "--limits", "memory=128Mi", *flags)
        assert (refused.code, refused.out) == (1, "")
        assert refused.err == f'syncpod: pod "{name}" is being deleted\n'
    node.gate["kill_pod"].set()


async def test_a_failed_plan_is_reported_in_one_sentence(
    syncpod: Command, node: ScriptedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with workers of earlier versions, where the pod begins to end just then."""
    name = await running(syncpod, node)
    why = "the pod is being deleted or has finished: its containers cannot be resized"

    def fail(*_: Any, **__: Any) -> Any:
        raise Rejected(f"{why}\nat length")

    monkeypatch.setattr(sync, "plan", fail)
    failed = await syncpod("resize", name, "--limits", "memory=128Mi", "--dry-run")
    assert (failed.code, failed.out) == (1, "")
    assert failed.err == f'syncpod: the plan of pod "{name}" failed on its node: {why}\n'
