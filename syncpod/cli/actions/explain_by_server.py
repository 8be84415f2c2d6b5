"""What an explanation from the journal lacks of pods whose workflows have ended, from the Temporal server."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from temporalio.service import RPCError, RPCStatusCode

from syncpod.cli.actions.explain import orphan_in_life
from syncpod.cli.failure import Failure
from syncpod.cli.machine.settings import settings
from syncpod.cli.machine.state_directory import full_disk, recorded_worker
from syncpod.cli.node_api import NodeApi
from syncpod.cli.orphan_notes import without_workflow
from syncpod.cli.temporal import session
from syncpod.cli.temporal.ended_workflows import end_of, is_open_on
from syncpod.messages.identity import pod_workflow_id
from syncpod.node.tombstones import tombstone_in
from syncpod.settings.worker_record import read_worker_record, serving
from syncpod.temporal.workflow_starts import ENDED

if TYPE_CHECKING:
    from temporalio.client import Client

    from syncpod.api.client import Reply
    from syncpod.cli.actions.explain import JournaledPod
    from syncpod.cli.actions.explain_node import JournaledNode
    from syncpod.journal.records import PodLife

_RPC: Final = timedelta(seconds=5)


def with_end_of_workflow(pod: JournaledPod | None, namespace: str, name: str) -> JournaledPod:
    """Return a pod with the end of its workflow, if it runs without one.

    Raises Failure for None, a pod that the journal does not have, or does not have yet.
    """
    if pod is None:
        raise _unknown(settings().state_dir, namespace, name)
    why = _without_workflow(pod)
    if not why:
        return pod
    end = end_of(namespace, name)
    # No worker has recorded anything since the workflow ended.
    known = pod.records.seen if end is None else max(pod.records.seen, end.at)
    return replace(pod, unserved=why, last_sign=known, is_without_workflow=True, end=end)


def with_orphans(node: JournaledNode) -> JournaledNode:
    """Return a node with the UIDs of its orphans; without them if the Temporal server does not answer."""

    def read(reply: Reply) -> list[str]:
        return [pod["metadata"].get("uid", "") for pod in reply.document["items"]]

    try:
        with NodeApi() as api:
            return replace(node, orphans=api.get("/api/v1/pods", [("orphans", "true")], read=read))
    except Failure:
        return node


def _unknown(state_dir: Path, namespace: str, name: str) -> Failure:
    """Return the failure that the journal does not have the pod, or does not have it yet."""
    where = f"the journal of this node ({state_dir}) has no pod {name} in namespace {namespace}"
    worker = recorded_worker(state_dir)
    if worker is not None and is_open_on(worker.node, namespace, name):
        if serving(state_dir) is None:
            return Failure(f"{where}: it is a pod of this node, whose worker died before it noted it: `syncpod up`")
        why = full_disk(state_dir) or "try again"
        return Failure(f"{where} yet: it is a pod of this node, whose worker has not noted it; {why}")
    return Failure(f"{where}; for a pod of another node, run `explain` there")


def _without_workflow(pod: JournaledPod) -> str:
    """Return the sentence that a pod runs without a workflow; "" if it does not, or if that is not known.

    While no worker serves the node, the sentence is returned only if the Temporal server has no open workflow for it.
    """
    life = pod.records.life
    if pod.unserved and _is_noted_as_over(pod.here.state_dir, life) and _has_none(life):
        return "it is deleted, and the node's worker has yet to end its containers: start the worker by `syncpod up`"
    orphan = pod.orphan
    if pod.unserved and pod.records.gone is None:
        orphan = orphan_in_life(life)
    if orphan is None:
        return ""
    if not pod.unserved:
        return f"it {without_workflow(orphan)}"
    return f"it {without_workflow(orphan)}; no worker serves this node: `syncpod up` first" if _has_none(life) else ""


def _is_noted_as_over(state_dir: Path, life: PodLife) -> bool:
    """Return whether the node has recorded that a pod's life is over: its next worker ends the running containers."""
    if read_worker_record(state_dir) is None:
        return False
    return tombstone_in(state_dir, life.uid, life.incarnation) is not None


def _has_none(life: PodLife) -> bool:
    """Return whether the Temporal server has no open workflow for a pod; False if the server does not answer."""

    async def work(client: Client) -> bool:
        handle = client.get_workflow_handle(pod_workflow_id(life.namespace, life.name))
        try:
            return (await handle.describe(rpc_timeout=_RPC)).status in ENDED
        except RPCError as error:
            return error.status == RPCStatusCode.NOT_FOUND

    try:
        return session.run(work)
    except Failure:
        return False
