"""A fleet of two nodes: pods are placed, moved and given up, and a bad template is rolled back."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from syncpod.settings.membership import keep_membership
from tests.agent.waiting import pauses, until_asked
from tests.e2e.engine import PATIENCE
from tests.e2e.test_fleet import FleetOfOne, Node, new_node, words
from tests.e2e.test_fleet import fleet as _fleet
from tests.runtimes.images import BUSYBOX
from tests.runtimes.temporal import DevServer

fleet = _fleet
"""The same fixture, for this module."""
CRASHES = json.dumps({"runTime": "0s", "exitCodes": [1]})
FAILS_EXECS = json.dumps({"exec": {"exitCode": 1}})
ASKS_BY_EXEC = {"exec": {"command": ["ready"]}, "periodSeconds": 1}


@pytest_asyncio.fixture(loop_scope="session")
async def nodes(temporal_server: DevServer, fleet: FleetOfOne, tmp_path: Path) -> AsyncIterator[list[Node]]:
    """Two nodes of the fleet, each with a runtime of its own."""
    async with AsyncExitStack() as last:
        found = []
        for number in range(2):
            directory = tmp_path / f"node{number}"
            directory.mkdir()
            found.append(await last.enter_async_context(new_node(temporal_server, directory, "--simulate")))
        await asyncio.gather(*(node.serve() for node in found))
        for node in found:
            keep_membership(node.state_dir, fleet.invitation(node.name))
        for node in found:
            await joined(fleet, node.name)
        yield found


async def joined(fleet: FleetOfOne, name: str) -> None:
    """Wait until the fleet has got a report of a node."""
    await until(fleet, ("get", "nodes"), lambda out: f"{name}   Ready " in out)


async def until(fleet: FleetOfOne, command: tuple[str, ...], seen: Callable[[str], Any]) -> str:
    """Run ``syncpod fleet`` until `seen` is true of its output."""
    deadline, pause = time.monotonic() + PATIENCE, pauses(0.5, 2)
    while not seen(out := (await fleet.say(*command)).out):
        assert time.monotonic() < deadline, out
        await asyncio.sleep(next(pause))
    return out


def lone(name: str, **spec: Any) -> str:
    containers = [{"name": "main", "image": BUSYBOX}]
    spec = {"terminationGracePeriodSeconds": 1, "containers": containers, **spec}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})


def deployment(name: str, replicas: int, annotations: dict[str, str], deadline: int = 600, **container: Any) -> str:
    main = {"name": "main", "image": BUSYBOX, **container}
    template = {
        "metadata": {"labels": {"app": name}, "annotations": annotations},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": [main]},
    }
    spec = {
        "replicas": replicas,
        "progressDeadlineSeconds": deadline,
        "selector": {"matchLabels": {"app": name}},
        "strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
        "template": template,
    }
    return json.dumps({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec})


@pytest.mark.asyncio(loop_scope="session")
async def test_a_pod_is_placed_explained_moved_by_a_drain_and_given_up_by_force(
    fleet: FleetOfOne, nodes: list[Node]
) -> None:
    name = f"lone-{uuid.uuid4().hex[:6]}"
    applied = await fleet.say("apply", "-f", "-", stdin=lone(name))
    assert applied.out == f"pod/{name} created\n"
    await until(fleet, ("get", "pods", name, "-o", "wide"), lambda out: " Running" in out)
    here = (await fleet.lists("pods", name, "-o", "wide"))[0][6]
    (there,) = {each.name for each in nodes} - {here}
    assert (await fleet.say("apply", "-f", "-", stdin=lone(name))).out == f"pod/{name} unchanged\n"

    await fleet.say("cordon", there)
    said = (await fleet.say("explain", "--placement", name)).out.splitlines()
    assert said[0] == f"pod {name} is on {here}; as nodes are now, it would be placed there again"
    rows = {line.split()[0]: line for line in said[2:]}
    assert "node(s) were unschedulable (it is cordoned)" in rows[there] and " yes " in rows[here]
    told = json.loads((await fleet.say("explain", "--placement", "-o", "json", name)).out)
    assert (told["node"], told["chosen"], len(told["nodes"])) == (here, here, 2)
    waiting = f"{name}-waits"
    await fleet.say("apply", "-f", "-", stdin=lone(waiting, nodeSelector={"disk": "ssd"}))
    assert (await fleet.lists("pods", waiting))[0][:3] == [waiting, "0/1", "Pending"]
    said = (await fleet.say("explain", "--placement", waiting)).out.splitlines()
    assert "is on no node; as nodes are now, 0/2 nodes are available: " in said[0]
    assert (await fleet.say("delete", waiting)).out == f'pod "{waiting}" deleted from default namespace\n'
    await fleet.say("uncordon", there)

    pinned = f"{name}-pinned"
    await fleet.say("apply", "-f", "-", stdin=lone(pinned, nodeName=here))
    refused = await fleet.say("drain", here, code=1)
    assert f"cannot delete Pods that declare no controller (use --force to override): default/{pinned}" in refused.err
    drained = await fleet.say("drain", here, "--force", "--timeout", "120s")
    assert {f"pod/{name} evicted", f"pod/{pinned} evicted", f"node/{here} drained"} <= set(drained.out.splitlines())
    await until(fleet, ("get", "pods", name, "-o", "wide"), lambda out: there in out and " Running" in out)
    assert [line[:2] for line in await fleet.lists("nodes")] == sorted(
        [[here, "Ready,SchedulingDisabled,Draining"], [there, "Ready"]]
    )
    await fleet.say("uncordon", here)
    forced = await fleet.say("delete", name, "--force")
    assert forced.out == f'pod "{name}" force deleted from default namespace on node/{there}\n'
    assert not (await fleet.until(there, lambda _: True)).placed, "it has waited for that"

    await fleet.say("apply", "-f", "-", stdin=lone(name, nodeSelector={"kubernetes.io/hostname": there}))
    await until(fleet, ("get", "pods", name, "-o", "wide"), lambda out: there in out and " Running" in out)
    refused = await fleet.say("remove", there, code=1)
    assert f"moves them elsewhere): default/{name}" in refused.err and "it can be reached" in refused.err
    removed = await fleet.say("remove", there, "--force")
    assert removed.out.splitlines()[0] == f"replaced elsewhere by their workloads: default/{name}"
    assert removed.out.splitlines()[-1] == f"node/{there} removed"
    assert [line[:2] for line in await fleet.lists("nodes")] == [[here, "Ready"]]
    assert [line.split()[-1] for line in (await fleet.say("certificates")).out.splitlines() if there in line] == [
        "revoked"
    ]
    assert (await fleet.lists("pods", name))[0][2] == "Pending", "it is on no other node"
    keep_membership(next(each.state_dir for each in nodes if each.name == there), fleet.invitation(there))
    await until(fleet, ("get", "pods", name, "-o", "wide"), lambda out: there in out and " Running" in out)


@pytest.mark.asyncio(loop_scope="session")
async def test_a_bad_template_ends_at_its_first_failing_pod_or_its_deadline_and_goes_back(
    fleet: FleetOfOne, nodes: list[Node]
) -> None:
    name = f"web-{uuid.uuid4().hex[:6]}"
    target = f"deployment/{name}"
    await fleet.say("apply", "-f", "-", stdin=deployment(name, 3, {}))
    done = await fleet.say("rollout", "status", target)
    assert done.out.splitlines()[-1] == f'deployment "{name}" successfully rolled out'
    listed = ("get", "deployment", name, "-o", "wide")
    good = (await until(fleet, listed, lambda out: "is rolled out" in out)).split()[-4]
    bad = deployment(name, 3, {"simulate.syncpod.dev/main": CRASHES})
    await fleet.say("apply", "-f", "-", stdin=bad)
    await until(fleet, listed, lambda out: f"back to {good}" in out and f"{good} is rolled out" in out)
    described = (await fleet.say("describe", "deployment", name)).out
    (why,) = [line for line in described.splitlines() if " RolledBack " in line]
    assert f"{name}-4 on " in why and "fails with CrashLoopBackOff" in why and f"back to {good}" in why
    assert f"{name}-5" not in described, "one pod of the bad template was made, and no other"
    rows = (await fleet.say("rollout", "history", f"deployment/{name}")).out.splitlines()
    assert rows[0] == f"deployment.apps/{name}" and [row.split()[0] for row in rows[2:]] == ["1", "2"]
    failed = (await fleet.say("rollout", "status", target, code=1)).err
    assert f'deployment "{name}" was rolled back: {name}-4 on ' in failed
    assert rows[2].split()[1] == good and "fails with CrashLoopBackOff" in rows[3], rows
    explained = await fleet.say("explain", target)
    assert f"default/{name}-4" in explained.out.splitlines()[0]
    assert f"Note: deployment {name} was rolled back: {name}-4 on " in explained.err
    assert (await fleet.say("rollout", "undo", f"deployment/{name}")).out == f"deployment.apps/{name} rolled back\n"
    assert (await fleet.say("get", *listed[1:])).out.split()[-4:] == [good, "is", "rolled", "out"]
    shown = (await fleet.say("rollout", "history", f"deployment/{name}", "--revision", "2")).out
    assert CRASHES in shown and "metadata:" in shown

    stuck = deployment(name, 3, {"simulate.syncpod.dev/main": FAILS_EXECS}, deadline=3, readinessProbe=ASKS_BY_EXEC)
    await fleet.say("apply", "-f", "-", stdin=stuck)
    await until(fleet, listed, lambda out: "made no progress in 3s" in out and f"{good} is rolled out" in out)
    described = (await fleet.say("describe", "deployment", name)).out
    assert sum(" RolledBack " in line for line in described.splitlines()) == 2

    await fleet.say("rollout", "undo", target)
    assert (await fleet.say("rollout", "pause", target)).out == f"deployment.apps/{name} paused\n"
    assert "is already paused" in (await fleet.say("rollout", "pause", target, code=1)).err
    assert "it is paused" in (await fleet.say("rollout", "restart", target, code=1)).err
    await fleet.say("apply", "-f", "-", stdin=deployment(name, 3, {"note": "new"}))
    late = await fleet.say("rollout", "status", target, "--timeout", "1s", code=1)
    assert "0 out of 3 new replicas have been updated" in late.out and "timed out waiting" in late.err
    assert (await fleet.say("rollout", "resume", target)).out == f"deployment.apps/{name} resumed\n"
    await fleet.say("rollout", "status", target)
    assert (await fleet.say("rollout", "restart", target)).out == f"deployment.apps/{name} restarted\n"
    await fleet.say("rollout", "status", target)
    again = await fleet.say("apply", "-f", "-", stdin=deployment(name, 3, {"note": "new"}))
    assert again.out == f"deployment.apps/{name} unchanged\n"

    async def has_three() -> bool:
        views = [await fleet.until(node.name, lambda _: True) for node in nodes]
        return [word for view in views for word in words(view).values()] == ["Running"] * 3

    await until_asked(has_three, patience=PATIENCE)
    await fleet.say("delete", "deployment", name)
    assert not any([(await fleet.until(node.name, lambda _: True)).placed for node in nodes])
    await fleet.say("apply", "-f", "-", stdin=deployment(name, 1, {}))
    await fleet.say("delete", "deployment", name)
