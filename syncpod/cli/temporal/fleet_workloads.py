"""Reads and changes the workloads of a fleet at its own Temporal server."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from syncpod.cli.console import remark
from syncpod.cli.failure import Failure
from syncpod.cli.temporal import fleet_answers
from syncpod.cli.temporal.fleet_memos import readable, running
from syncpod.cli.temporal.session import address_of, refused
from syncpod.fleet.revisions import NoRevision, chosen
from syncpod.fleet.workload_documents import RESTARTED_AT
from syncpod.fleet.workload_pods import owner_of, workload_id
from syncpod.fleet.workload_traits import KINDS, POD, TEMPLATED
from syncpod.fleet.workloads import Workload
from syncpod.messages.identity import Message
from syncpod.messages.workload import (
    WORKLOAD_MEMO,
    WORKLOAD_WORKFLOW,
    Pause,
    PendingPod,
    RolloutRestart,
    Undo,
    Undone,
    WorkloadSummary,
    WorkloadView,
)
from syncpod.pod.wire import to_wire

_RPC: Final = timedelta(seconds=10)


async def apply(client: Client, workload: Workload) -> str:
    """Apply a workload; return kubectl's word for the change, such as `created`. Raises Failure.

    If nothing changes, and the fleet has rolled this template back, a note gives the reason.
    """
    before = await view(client, workload.kind, workload.metadata.namespace or "default", workload.metadata.name)
    name, wire = owner_of(workload), _as_restarted(to_wire(workload), before)
    change = _change(workload, wire, before)
    if change == "unchanged":
        return change
    summary = f"{workload.kind} {workload.metadata.name}"
    try:
        await fleet_answers.update_with_start(client, WORKLOAD_WORKFLOW, name, "apply", wire, summary=summary)
    except RPCError as error:
        raise refused(error, address_of(client)) from None
    except fleet_answers.Declined as why:
        raise _declined(workload.kind, workload.metadata.name, why) from None
    return change


async def forecast(client: Client, workload: Workload) -> str:
    """Return the word that `apply` would return, without applying anything, and print the same note. Raises Failure."""
    before = await view(client, workload.kind, workload.metadata.namespace or "default", workload.metadata.name)
    if before is not None and before.deleting:
        raise Failure(
            f"{workload.kind.lower()} {workload.metadata.name}: it is being deleted: apply it once it is gone"
        )
    return _change(workload, _as_restarted(to_wire(workload), before), before)


def _change(workload: Workload, wire: dict[str, Any], before: WorkloadView | None) -> str:
    """Return kubectl's word for a change to the document `wire`; print a note if the fleet has rolled it back."""
    if before is None:
        return "created"
    if before.document != wire or before.deleting:
        return "configured"
    if before.history and (why := before.history[-1].given_up):
        remark(f"Note: {workload.kind.lower()} {workload.metadata.name}: the fleet does not roll this out: {why}")
    return "unchanged"


async def delete(client: Client, kind: str, namespace: str, name: str) -> bool:
    """Delete a workload's pods, and then the workload; return False if there is none. Raises Failure."""
    return await fleet_answers.delete(client, workload_id(kind, namespace, name))


async def restart(client: Client, kind: str, namespace: str, name: str, at: str) -> None:
    """Replace all pods of a workload, as in a rollout; `at` is the current time, RFC 3339. Raises Failure."""
    await _changed(client, kind, namespace, name, "restart", RolloutRestart(at=at))


async def pause(client: Client, kind: str, namespace: str, name: str, *, paused: bool) -> None:
    """Pause a workload's rollouts, or resume them. Raises Failure."""
    await _changed(client, kind, namespace, name, "pause", Pause(paused=paused))


async def undo(client: Client, kind: str, namespace: str, name: str, revision: int) -> Undone:
    """Apply an earlier template of a workload again; `revision` 0 = the last good one before the newest.

    Raises Failure.
    """
    (before,) = await views(client, kind, namespace, [name])
    try:
        wanted = chosen(before.history, revision)
    except NoRevision as none:
        raise Failure(str(none)) from None
    # Send the template, not a revision: if the answer is lost and the workflow has continued as new, a retry is carried
    # out again. "The revision before the newest" would then be the one that this undo has just replaced.
    return Undone.model_validate(await _changed(client, kind, namespace, name, "undo", Undo(template=wanted.template)))


async def _changed(client: Client, kind: str, namespace: str, name: str, change: str, body: Message) -> Any:
    """Send an update to a workload, and return its answer. Raises Failure."""
    handle = client.get_workflow_handle(workload_id(kind, namespace, name))
    try:
        return await fleet_answers.update(client, handle, change, body.model_dump(mode="json", by_alias=True))
    except RPCError as error:
        if error.status == RPCStatusCode.NOT_FOUND:
            raise Failure(_not_found(kind, name)) from None
        raise refused(error, address_of(client)) from None
    except fleet_answers.Declined as why:
        raise _declined(kind, name, why) from None


def _declined(kind: str, name: str, why: fleet_answers.Declined) -> Failure:
    """Return the failure of an update that a workload does not accept; its own text does not name the workload."""
    return Failure(f"{kind.lower()} {name}: {why}")


def _as_restarted(wire: dict[str, Any], before: WorkloadView | None) -> dict[str, Any]:
    """Return a document with the annotation of the workload's last restart, unless it has one of its own.

    A manifest lacks this annotation, and applying the manifest again must not replace all pods.
    """
    template = ((before.document if before is not None else None) or {}).get("spec", {}).get("template", {})
    restarted = (template.get("metadata", {}).get("annotations") or {}).get(RESTARTED_AT)
    if not restarted or wire["kind"] not in TEMPLATED:
        return wire
    meta = wire["spec"]["template"].get("metadata") or {}
    annotations = {RESTARTED_AT: restarted, **(meta.get("annotations") or {})}
    kept = {**wire["spec"]["template"], "metadata": {**meta, "annotations": annotations}}
    return {**wire, "spec": {**wire["spec"], "template": kept}}


async def template(client: Client, kind: str, namespace: str, name: str, revision: str) -> dict[str, Any] | None:
    """Return a template of a workload by its digest; None if the workload no longer has it. Raises Failure."""
    handle = client.get_workflow_handle(workload_id(kind, namespace, name))
    try:
        document: dict[str, Any] | None = await fleet_answers.query(client, handle, "template", revision)
    except RPCError as error:
        raise refused(error, address_of(client)) from None
    return document


async def summaries(client: Client, kind: str, namespace: str | None) -> list[WorkloadSummary]:
    """Return the workloads of a kind, sorted by namespace and name; `namespace` None = all."""
    found = await all_summaries(client, namespace)
    return sorted((each for each in found if each.kind == kind), key=lambda each: (each.namespace, each.name))


async def all_summaries(client: Client, namespace: str | None) -> list[WorkloadSummary]:
    """Return the workloads of all kinds; `namespace` None = all. A note names each one whose memo cannot be read."""
    found = readable(await running(client, WORKLOAD_WORKFLOW, WORKLOAD_MEMO, WorkloadSummary))
    return [each for each in found if each.kind and namespace in (None, each.namespace)]


async def views(client: Client, kind: str, namespace: str, names: Sequence[str]) -> list[WorkloadView]:
    """Return these workloads. Raises Failure for one that does not exist."""
    found = await asyncio.gather(*(view(client, kind, namespace, each) for each in names))
    if missing := [name for name, each in zip(names, found, strict=True) if each is None]:
        raise Failure("\n".join(_not_found(kind, each) for each in missing))
    return [each for each in found if each is not None]


async def just_applied(client: Client, namespace: str, name: str) -> PendingPod | None:
    """Return a single Pod that its node does not have yet, and that lists do not show; None if there is none.

    Lists of workloads are a moment late, and name only pods without a node. Raises Failure.
    """
    found = await view(client, POD.name, namespace, name)
    if found is None or found.deleting or found.document is None:
        return None
    nodes = [pod.node for pod in found.pods if pod.node and not pod.leaving]
    why = f"node {nodes[0]} has not answered yet" if nodes else ""
    containers = len(found.document.get("spec", {}).get("containers", ()))
    node = nodes[0] if nodes else ""
    return PendingPod(name=name, created=found.since, why=why, containers=containers, node=node)


async def view(client: Client, kind: str, namespace: str, name: str) -> WorkloadView | None:
    """Return one workload; None if there is none. Raises Failure."""
    handle = client.get_workflow_handle(workload_id(kind, namespace, name))
    try:
        described = await handle.describe(rpc_timeout=_RPC)
        if described.close_time is not None:
            return None
        return WorkloadView.model_validate(await fleet_answers.query(client, handle, "workload"))
    except RPCError as error:
        if error.status == RPCStatusCode.NOT_FOUND:
            return None
        raise refused(error, address_of(client)) from None


def _not_found(kind: str, name: str) -> str:
    return f'{KINDS[kind].resources} "{name}" not found in the fleet'
