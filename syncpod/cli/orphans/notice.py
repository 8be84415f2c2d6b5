"""The note of ``up`` about pods in the runtime without a workflow; the node itself reports them a minute later."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from syncpod.api.views.text import printable
from syncpod.cli.console import first_few, program
from syncpod.cli.failure import Failure
from syncpod.cli.orphans.found_orphans import FoundOrphan, Standing, standing_of, with_one_heir
from syncpod.cli.temporal import session
from syncpod.cli.temporal.pod_source import TemporalPods
from syncpod.cri.client import CriClient
from syncpod.cri.errors import CriError
from syncpod.messages.node import FILE_SOURCE
from syncpod.node.inventory import take_inventory
from syncpod.pod import ObjectMeta
from syncpod.pod.origin import list_of
from syncpod.settings.worker_record import WorkerRecord

if TYPE_CHECKING:
    from temporalio.client import Client
    from temporalio.envconfig import ClientConnectConfig

    from syncpod.cri.port import CriRuntime
    from syncpod.node.inventory import Inventory, PodInRuntime


_SECONDS: Final = 5.0
_AT_ONCE: Final = 50
"""Maximum number of workflows that are queried at the same time."""
_NAMED: Final = 5


def note(config: ClientConnectConfig, worker: WorkerRecord) -> str:
    """Return a note that names the pods without a workflow, and the commands for them; "" if there are none.

    Returns "" after an error or five seconds too: `syncpod node` reports the same pods within a minute.
    """

    async def work(client: Client) -> list[str]:
        async with asyncio.timeout(_SECONDS), CriClient(worker.endpoint) as runtime:
            return await _find(client, runtime, worker)

    try:
        found = session.run_on(config, work)
    except (TimeoutError, CriError, Failure):
        return ""
    return sentence(found) if found else ""


def sentence(found: Sequence[str]) -> str:
    """Return the note, which names the first few of these pods."""
    us = shlex.quote(program())
    return (
        f"Note: in the runtime and without a workflow: {first_few(found, _NAMED)}. "
        f"`{us} adopt --all` keeps the pods running, `{us} prune --all` ends all of it; "
        f"`{us} node` says more within a minute"
    )


async def _find(client: Client, runtime: CriRuntime, worker: WorkerRecord) -> list[str]:
    """Return the names of the pods without a workflow, and of objects of no pod. Raises CriError, Failure, RPCError.

    Pods that have ended are left out, since their node removes them. The runtime is listed before and after the queries
    to the workflows: a pod that was being removed meanwhile has ended in the second list.
    """
    before = await take_inventory(runtime, worker.node, {})
    orphans = await _without_workflow(client, worker, before)
    after = await take_inventory(runtime, worker.node, {}) if orphans or before.nameless else before
    by_name: dict[tuple[str, str], list[FoundOrphan]] = {}
    for orphan in orphans:
        if (now := after.pods.get(orphan.pod.uid)) is not None and now.is_alive:
            by_name.setdefault((now.namespace, now.name), []).append(replace(orphan, pod=now))
    found = [each.called for _, namesakes in sorted(by_name.items()) for each in with_one_heir(namesakes)]
    listed = {each.id for each in before.nameless}
    return [*found, *(printable(f"{each.kind}/{each.id[:13]}") for each in after.nameless if each.id in listed)]


async def _without_workflow(client: Client, worker: WorkerRecord, inventory: Inventory) -> list[FoundOrphan]:
    """Return the pods of an inventory that have not ended, and have no workflow. Raises Failure, RPCError."""
    known = {
        (pod.metadata.namespace, pod.metadata.name): pod.metadata.uid
        for pod in await TemporalPods(client).recorded(None)
    }
    # Visibility may lag, and may lack UIDs: so the workflow of each pod that it does not list with its UID is queried.
    alive = [pod for pod in inventory.pods.values() if pod.is_alive]
    suspects = [pod for pod in alive if known.get((pod.namespace, pod.name)) != pod.uid]
    if worker.manifest_dir:
        suspects = [pod for pod in suspects if not _is_static(pod)]  # the node applies static pods by itself
    some = asyncio.Semaphore(_AT_ONCE)

    async def ask(pod: PodInRuntime) -> Standing:
        async with some:
            return await standing_of(client, pod)

    asked = await asyncio.gather(*map(ask, suspects))
    found = zip(suspects, asked, strict=True)
    return [FoundOrphan(pod, None, standing) for pod, standing in found if standing != "open"]


def _is_static(pod: PodInRuntime) -> bool:
    metas = (ObjectMeta(uid=pod.uid, annotations=dict(each.annotations)) for each in pod.sandboxes)
    return any(list_of(each) == FILE_SOURCE for each in metas)
