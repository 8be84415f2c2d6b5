"""Leaving nothing of a node's pods: through Temporal, and what no workflow knows of in the runtime itself."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING

from syncpod.cli.console import paint, printable, remark, say, warn
from syncpod.cli.failure import Failure
from syncpod.cli.machine import runtime_process
from syncpod.cli.temporal import session
from syncpod.cli.view.durations import short_duration
from syncpod.lifecycle.termination import LONGEST_SECONDS

if TYPE_CHECKING:
    from temporalio.client import Client
    from temporalio.envconfig import ClientConnectConfig

    from syncpod.cli.temporal.pods import Reading
    from syncpod.cri.port import SandboxSummary
    from syncpod.settings.node import NodeSettings

_MARGIN = timedelta(seconds=30)
"""What ending a pod may take beyond its grace."""
_USUAL_GRACE_SECONDS = 30
_LOOK_SECONDS = 0.25
_ROUNDS = 3
"""How often the node is looked at for pods that were made meanwhile."""


def pods_of(config: ClientConnectConfig, node: str) -> list[Reading]:
    """Return the node's pods. Raises Failure where the server does not tell."""

    async def work(client: Client) -> list[Reading]:
        return await _pods(client, node)

    return session.run_on(config, work)


def delete_all(config: ClientConnectConfig, node: str, patience: timedelta | None) -> None:
    """Delete all pods of a node, show how they end, and return when they are gone.

    `patience` None: the longest grace among them and half a minute. Raises Failure naming those that have not ended.
    """

    async def work(client: Client) -> None:
        for _ in range(_ROUNDS):
            readings = await _pods(client, node)
            if not readings:
                return
            await _delete(client, readings, patience)
        raise Failure(f"pods are applied on node {node} all the while")

    session.run_on(config, work)


async def _pods(client: Client, node: str) -> list[Reading]:
    from syncpod.cli.input.selector import Selector
    from syncpod.cli.temporal.pods import list_pods

    return [reading for reading in await list_pods(client, None, Selector()) if reading.pod.spec.node_name == node]


async def _delete(client: Client, readings: list[Reading], patience: timedelta | None) -> None:
    from syncpod.cli.commands.delete import begin
    from syncpod.cli.temporal.pod_waits import until_gone
    from syncpod.cli.temporal.pods import read_pod
    from syncpod.cli.temporal.progress import Progress

    await asyncio.gather(*(begin(client, *reading.key, None) for reading in readings))
    waits = {asyncio.create_task(until_gone(client, *one.key, one.pod.metadata.uid)): one for one in readings}
    allowed = patience or _longest_grace(readings) + _MARGIN
    deadline = asyncio.get_running_loop().time() + allowed.total_seconds()
    pending = set(waits)
    try:
        with Progress() as progress:
            while pending and asyncio.get_running_loop().time() < deadline:
                _, pending = await asyncio.wait(pending, timeout=_LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                left = await asyncio.gather(*(read_pod(client, *waits[task].key) for task in pending))
                progress.show([reading for reading in left if reading is not None and _is_under_way(reading)])
    finally:
        for task in pending:
            task.cancel()
    for task in waits.keys() - pending:
        task.result()
    for reading in readings:
        if reading not in [waits[task] for task in pending]:
            say(f'pod "{reading.pod.metadata.name}" deleted')
    if pending:
        names = ", ".join(sorted(f'"{waits[task].pod.metadata.name}"' for task in pending))
        raise Failure(
            f"{names} did not end within {short_duration(allowed)}: `syncpod describe pod` says why; "
            "the deletion goes on"
        )


def _is_under_way(reading: Reading) -> bool:
    """Say whether the pod has not ended yet; of one that has, kubectl says how it ended until it is gone."""
    return reading.pod.status.phase not in ("Succeeded", "Failed")


def _longest_grace(readings: list[Reading]) -> timedelta:
    graces = [reading.pod.spec.termination_grace_period_seconds for reading in readings]
    longest = max(_USUAL_GRACE_SECONDS if grace is None else grace for grace in graces)
    return timedelta(seconds=min(longest, LONGEST_SECONDS))


def clear_runtime(here: NodeSettings, *, simulated: bool, everything: bool) -> None:
    """End what the embedded runtime still has of this node and no workflow knows; `everything`: of anybody.

    Starts the runtime for that where it has ended. Raises Failure.
    """
    from syncpod.cri.errors import CriError

    record, _ = runtime_process.start(here.state_dir, simulated=simulated, environ=os.environ)
    try:
        removed = asyncio.run(_clear(record.endpoint, here.node, everything=everything))
    except CriError as error:
        raise Failure(f"the embedded runtime fails: {error}") from None
    remove_files(here, removed)


def remove_files(here: NodeSettings, sandboxes: Iterable[SandboxSummary]) -> None:
    """Remove cgroup, volumes, logs and directory of pods whose sandboxes are removed; say what stays, and why."""
    from syncpod.node.cgroups import CgroupBusy, remove_pod_cgroup
    from syncpod.node.directories import remove_pod_directories
    from syncpod.translation.context import NodeContext
    from syncpod.translation.names import NODE_LABEL

    pods = {(each.namespace, each.name, each.uid): each.labels[NODE_LABEL] for each in sandboxes}
    for (namespace, name, uid), node in pods.items():
        context = NodeContext(
            name=node,
            state_dir=here.state_dir,
            memory_dir=here.memory_dir,
            log_dir=here.log_dir,
            cluster="",
            cgroup_parent=here.cgroup_parent,
        )
        try:
            remove_pod_cgroup(context, uid)
            remove_pod_directories(context, namespace=namespace, name=name, uid=uid)
        except (CgroupBusy, OSError, ValueError) as error:
            warn(f'something is left of pod "{printable(name)}": {error}')


async def _clear(endpoint: str, node: str, *, everything: bool) -> list[SandboxSummary]:
    """Return those of the removed sandboxes that syncpod made for pods."""
    from syncpod.cri.client import CriClient
    from syncpod.cri.errors import NotFound
    from syncpod.translation.names import NODE_LABEL

    removed = []
    async with CriClient(endpoint) as runtime:
        for sandbox in await runtime.list_pod_sandboxes():
            if not everything and sandbox.labels.get(NODE_LABEL) != node:
                remark(f"Note: sandbox {sandbox.id[:13]} ({sandbox.name}) is not syncpod's; it runs on")
                continue
            with contextlib.suppress(NotFound):
                await runtime.stop_pod_sandbox(sandbox.id)
                await runtime.remove_pod_sandbox(sandbox.id)
            remark(paint(f"sandbox {sandbox.id[:13]} ({sandbox.name}), which no workflow knew, removed", "dim"))
            if sandbox.uid and NODE_LABEL in sandbox.labels:
                removed.append(sandbox)
    return removed
