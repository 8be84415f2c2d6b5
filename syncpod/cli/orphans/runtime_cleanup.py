"""Removes pods that are left in the embedded runtime after the end of their workflows, and their files."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from syncpod.api.views.text import printable
from syncpod.cli.console import paint, remark, warn
from syncpod.cli.failure import Failure
from syncpod.cli.machine import runtime_process
from syncpod.cli.machine.checked_node import context_of
from syncpod.cri.client import CriClient
from syncpod.cri.errors import CriError, NotFound
from syncpod.kernel.os_errors import sentence_of
from syncpod.node.directories import remove_pod_files
from syncpod.translation.names import NODE_LABEL

if TYPE_CHECKING:
    from syncpod.cri.port import SandboxSummary
    from syncpod.settings.node import NodeSettings


def clear_runtime(here: NodeSettings, *, simulated: bool, everything: bool) -> None:
    """Remove this node's sandboxes from the embedded runtime, with their containers; with `everything`, all sandboxes.

    It is called when the pods' workflows have ended. It starts the runtime if that has ended. Raises Failure.
    """
    record, _ = runtime_process.start(here.state_dir, simulated=simulated, environ=os.environ)
    try:
        removed = asyncio.run(_clear(record.endpoint, here.node, everything=everything))
    except CriError as error:
        raise Failure(f"the embedded runtime fails: {error}") from None
    remove_files(here, removed)


def remove_files(here: NodeSettings, sandboxes: Iterable[SandboxSummary]) -> None:
    """Remove cgroups, volumes, logs and directories of pods whose sandboxes are removed; warn of failures."""
    pods = {(each.namespace, each.name, each.uid): each.labels[NODE_LABEL] for each in sandboxes}
    for (namespace, name, uid), node in pods.items():
        context = replace(context_of(here), name=node)
        try:
            remove_pod_files(context, namespace=namespace, name=name, uid=uid)
        except (OSError, ValueError) as error:
            warn(f'some files are left of pod "{printable(name)}": {sentence_of(error)}')


async def _clear(endpoint: str, node: str, *, everything: bool) -> list[SandboxSummary]:
    """Remove the sandboxes; return those that syncpod had made for pods."""
    removed = []
    async with CriClient(endpoint) as runtime:
        for sandbox in await runtime.list_pod_sandboxes():
            if not everything and sandbox.labels.get(NODE_LABEL) != node:
                remark(f"Note: sandbox {sandbox.id[:13]} ({sandbox.name}) is not syncpod's; it keeps running")
                continue
            with contextlib.suppress(NotFound):
                await runtime.stop_pod_sandbox(sandbox.id)
            await runtime.remove_pod_sandbox(sandbox.id)
            remark(paint(f"sandbox {sandbox.id[:13]} ({sandbox.name}), which no workflow knew, removed", "dim"))
            if sandbox.uid and NODE_LABEL in sandbox.labels:
                removed.append(sandbox)
    return removed
