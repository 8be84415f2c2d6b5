"""Lists the pods that run on this machine's node while it has no worker, from the runtime and the node's records."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from syncpod.cri.client import CriClient
from syncpod.cri.errors import CriError
from syncpod.messages.identity import pod_workflow_id
from syncpod.node.inventory import take_inventory
from syncpod.node.orphan_mark import NO_WORKFLOW, marked
from syncpod.node.recorded_pods import bare_pod, recorded_pod
from syncpod.node.tombstones import tombstone_in
from syncpod.translation.names import CONTAINER_NAME_LABEL

if TYPE_CHECKING:
    from syncpod.node.inventory import PodInRuntime
    from syncpod.settings.worker_record import WorkerRecord


def pods_at_rest(
    state_dir: Path, worker: WorkerRecord, namespace: str | None, names: Collection[str] = ()
) -> list[dict[str, Any]]:
    """Return the pods of a namespace (None = all) that run here, marked as orphans; with `names`, only these.

    `worker` is the record of the worker that has ended. The caller has to find out which of the pods have an open
    workflow. Pods with a tombstone are left out, since the next worker ends them. Returns [] if the runtime does not
    answer. Blocks.
    """
    with ThreadPoolExecutor(1) as other:  # the caller's thread may have a loop of its own
        running = other.submit(asyncio.run, _running(worker)).result()
    return [
        marked(_last_recorded(state_dir, pod), NO_WORKFLOW)
        for pod in running
        if namespace in (None, pod.namespace)
        and (not names or pod.name in names)
        and tombstone_in(state_dir, pod.uid, pod.incarnation) is None
    ]


async def _running(worker: WorkerRecord) -> list[PodInRuntime]:
    """Return the node's pods that are alive; [] if the runtime does not answer."""
    try:
        async with CriClient(worker.endpoint) as runtime:
            inventory = await take_inventory(runtime, worker.node, {})
    except CriError:
        return []
    return [pod for pod in inventory.pods.values() if pod.is_alive]


def _last_recorded(state_dir: Path, pod: PodInRuntime) -> dict[str, Any]:
    names = (each.labels.get(CONTAINER_NAME_LABEL, each.id) for each in pod.containers)
    bare = bare_pod(pod.namespace, pod.name, pod.uid, names)
    return recorded_pod(state_dir, pod_workflow_id(pod.namespace, pod.name), pod.uid) or bare
