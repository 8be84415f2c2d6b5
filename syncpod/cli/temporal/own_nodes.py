"""Cordons and drains nodes without a fleet: signals to the pods' workflows end the pods."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from temporalio.client import Client, WorkflowUpdateFailedError, WorkflowUpdateRPCTimeoutOrCancelledError
from temporalio.service import RPCError, RPCStatusCode

from syncpod.api.label_selector import Selector
from syncpod.api.views.text import printable
from syncpod.cli.console import remark
from syncpod.cli.failure import Failure, together
from syncpod.cli.fetched import FetchedPod
from syncpod.cli.machine.settings import settings
from syncpod.cli.maintenance import Change, Draining, PodToDrain, named
from syncpod.cli.orphan_notes import orphan_of, way_for
from syncpod.cli.temporal import session
from syncpod.cli.temporal.liveness import absence
from syncpod.cli.temporal.nodes import require_summary
from syncpod.cli.temporal.pod_deletion import request_deletion, source_notes
from syncpod.cli.temporal.pod_source import TemporalPods
from syncpod.cli.temporal.pod_waits import until_gone
from syncpod.cli.temporal.updates import AGAIN, PAUSE_SECONDS, answer_in_time, refused_because, stop_if_cancelled
from syncpod.messages.node import FILE_SOURCE, node_workflow_id
from syncpod.node.orphan_mark import why_orphaned
from syncpod.pod.origin import is_of_cluster, list_of
from syncpod.settings.worker_record import serving

EVERY_POD: Final = Selector()


class OwnNodes:
    """Nodes without a fleet; implements `syncpod.cli.maintenance.Nodes`."""

    def __init__(self, client: Client, conditions: Selector = EVERY_POD, grace: int | None = None) -> None:
        """End pods that meet the conditions, with `grace` seconds; None = each pod's own grace period."""
        self._client, self._conditions, self._grace = client, conditions, grace
        self._cordoned: set[str] = set()

    async def cordoned(self, names: Sequence[str]) -> set[str]:
        """Return the nodes among these that are cordoned. Raises Failure."""
        self._cordoned = {name for name in names if (await require_summary(self._client, name)).unschedulable}
        return self._cordoned

    async def change(self, name: str, change: Change) -> None:
        """Cordon or uncordon a node, unless it is so already. Raises Failure if the node refuses or is silent."""
        if (name in self._cordoned) is not (change == "cordon"):
            await _change(self._client, name, change)
            worker = serving(settings().state_dir)
            if worker is not None and (worker.node, change) == (name, "cordon") and worker.kubeconfig:
                remark(
                    f"Note: its Kubernetes cluster still sends pods to node {name}: `kubectl cordon {name}` ends that"
                )

    async def pods(self, name: str) -> tuple[list[PodToDrain[FetchedPod]], list[str]]:
        """Return the pods of a node, and the reasons why it cannot be drained.

        The reasons are its pods without a workflow, and its pods that only a Kubernetes cluster can end.
        """
        with _refusals(self._client):
            there = [
                one
                for one in await TemporalPods(self._client).listed(None, EVERY_POD)
                if one.pod.spec.node_name == name
            ]
        if silent := [one for one in there if not one.current]:
            return [], [f"it does not answer: nothing is known of its {len(silent)} pods"]
        # Select only pods that answer: the labels of others may be incomplete.
        chosen = [one for one in there if self._conditions.matches(one.pod.metadata.labels)]
        orphans = [one for one in chosen if why_orphaned(one.wire) and not _is_static(one)]
        reasons = [_left_running([one.wire for one in orphans])] if orphans else []
        of_cluster = [one for one in chosen if one not in orphans and _is_ended_by_cluster(one)]
        reasons += [_would_come_back(name, of_cluster)] if of_cluster else []
        return [_pod_there(one) for one in chosen if one not in (*orphans, *of_cluster)], reasons

    async def evicted(
        self, name: str, pods: Sequence[PodToDrain[FetchedPod]], how: Draining
    ) -> AsyncIterator[PodToDrain[FetchedPod]]:
        """End all pods at once, and yield each that has gone. Raises Failure on a timeout, or if one fails."""
        loop = asyncio.get_running_loop()
        end = loop.time() + how.patience.total_seconds() if how.patience else None
        ending = {asyncio.create_task(self._end(each)): each for each in pods}
        failures: list[Failure] = []
        try:
            while ending:
                patience = None if end is None else max(0.0, end - loop.time())
                done, _ = await asyncio.wait(ending, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
                if not done:
                    fate = "the deletion continues, and the node stays cordoned"
                    raise Failure(f"timed out waiting for {named(ending.values())} to end; {fate}")
                for task in done:
                    each = ending.pop(task)
                    try:
                        with _refusals(self._client):
                            task.result()
                    except Failure as failure:
                        failures.append(failure)
                        continue
                    yield each
                    for note in source_notes(each.own):
                        remark(note)
        finally:
            for task in ending:
                task.cancel()
            await asyncio.gather(*ending, return_exceptions=True)
        if failures:
            raise together(failures, done=True)

    async def _end(self, each: PodToDrain[FetchedPod]) -> None:
        """End a pod, and wait until it is gone. Raises Failure."""
        if await request_deletion(self._client, each.namespace, each.name, self._grace) is not None:
            await until_gone(self._client, each.namespace, each.name, each.own.pod.metadata.uid)
        elif (orphan := await asyncio.to_thread(orphan_of, each.namespace, each.name)) is not None:
            raise Failure(_left_running([orphan]))  # somebody has ended its workflow since the list


@contextmanager
def _refusals(client: Client) -> Iterator[None]:
    """Turn an error of the server into a Failure, so that other nodes are drained nevertheless."""
    try:
        yield
    except RPCError as error:
        raise session.refused(error, session.address_of(client)) from None


def _pod_there(one: FetchedPod) -> PodToDrain[FetchedPod]:
    has_ended = one.pod.status.phase in ("Succeeded", "Failed")
    has_data = any(volume.empty_dir is not None for volume in one.pod.spec.volumes)
    return PodToDrain(
        *one.key,
        one,
        stays="static" if _is_static(one) else "daemon" if _is_of_daemon_set(one) else "",
        is_unmanaged=not has_ended,
        has_data=has_data and not has_ended,
    )


def _is_ended_by_cluster(one: FetchedPod) -> bool:
    """Return whether an eviction in the Kubernetes cluster ends the pod, and nothing else does for good."""
    return is_of_cluster(one.pod.metadata) and not _is_of_daemon_set(one)


def _is_of_daemon_set(one: FetchedPod) -> bool:
    """Return whether the pod's controller is a DaemonSet of the node's Kubernetes cluster (metav1.GetControllerOf).

    Only a cluster's pods have owners: a pod that is applied here loses its owners.
    """
    owners = one.pod.metadata.owner_references
    return next((each.kind for each in owners if each.controller), "") == "DaemonSet"


def _would_come_back(node: str, pods: Sequence[FetchedPod]) -> str:
    """Return the sentence that these pods are the cluster's, and which command ends them."""
    names = ", ".join(sorted("/".join(one.key) for one in pods))
    return f"cannot delete Pods of the Kubernetes cluster, which brings them back (use `kubectl drain {node}`): {names}"


def _left_running(orphans: Sequence[Mapping[str, Any]]) -> str:
    """Return a sentence that these pods run without a workflow, and which command ends them."""
    names = sorted({str(one["metadata"]["name"]) for one in orphans})
    which = f"pod {names[0]} runs" if len(names) == 1 else f"pods {', '.join(names)} run"
    end = f"drain cannot end {'it' if len(names) == 1 else 'them'}: {way_for('prune', orphans)}"
    return printable(f"{which} without a workflow, so {end}")


def _is_static(one: FetchedPod) -> bool:
    return list_of(one.pod.metadata) == FILE_SOURCE


async def _change(client: Client, name: str, change: Change) -> None:
    """Send the change to a node's workflow until it is made. Raises Failure."""
    asked = {"by": client.identity.partition(", pid ")[0]}

    async def send() -> bool:
        while True:
            try:
                await client.get_workflow_handle(node_workflow_id(name)).execute_update(change, asked, result_type=dict)
            except WorkflowUpdateFailedError as error:
                raise Failure(f'node "{name}": {refused_because(error)}') from None
            except WorkflowUpdateRPCTimeoutOrCancelledError:
                stop_if_cancelled()
            except RPCError as error:
                if error.status == RPCStatusCode.NOT_FOUND:
                    raise Failure(f'nodes "{name}" not found') from None
                if error.status not in AGAIN:
                    raise
            else:
                return True
            await asyncio.sleep(PAUSE_SECONDS)

    if not await answer_in_time(client, name, send()):
        raise Failure(f"{await absence(client, (name,))}, so the node may or may not be {change}ed")
