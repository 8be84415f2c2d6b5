"""Ends pods and containers that run on this machine without a workflow.

A pod with a record on its node is ended like any other: by a workflow that is started together with its deletion, so
that hooks, order and grace period are kept, and a crash does not stop it. If that is impossible (no record, no worker,
or the name is another pod's), the pod is stopped and removed by bare CRI calls. No step can race with them, since no
workflow has the pod.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from temporalio.client import Client

from syncpod.cli.failure import Failure
from syncpod.cli.orphans.adoption import start_for
from syncpod.cli.temporal.pod_waits import until_gone
from syncpod.cri.client import CriClient
from syncpod.cri.errors import CriError, NotFound
from syncpod.kernel.os_errors import sentence_of
from syncpod.lifecycle.termination import stop_timeout_seconds
from syncpod.node.directories import remove_pod_files
from syncpod.settings.worker_record import serving
from syncpod.translation.names import NODE_LABEL, POD_TERMINATION_GRACE_PERIOD_ANNOTATION
from syncpod.translation.paths import pod_directory

if TYPE_CHECKING:
    from syncpod.cli.orphans.found_orphans import FoundOrphan, Here
    from syncpod.cri.port import ContainerSummary, CriRuntime
    from syncpod.node.inventory import Nameless

_USUAL_GRACE_SECONDS: Final = 30
_MARGIN_SECONDS: Final = 60.0
"""How long the end of a pod may take beyond its grace period before it counts as failed."""
_LOOK_SECONDS: Final = 0.05


async def prune_pod(
    client: Client, place: Here, orphan: FoundOrphan, grace: int | None, *, has_attributes: bool
) -> None:
    """Kill a pod with `grace` seconds (None = its own) and remove all of it. Raises Failure.

    `has_attributes`: whether the namespace has our search attributes.
    """
    pod = orphan.pod
    if orphan.record is None or orphan.standing != "none" or serving(place.node.state_dir) is None:
        await _by_bare_calls(place, pod.containers, [each.id for each in pod.sandboxes], grace)
        await asyncio.to_thread(_remove_files, place, orphan)
        return
    request: dict[str, Any] = {"uid": pod.uid} if grace is None else {"uid": pod.uid, "gracePeriodSeconds": grace}
    await start_for(client, place.node.name, orphan.record, has_attributes=has_attributes, delete=request)
    said = orphan.record.pod.spec.termination_grace_period_seconds
    seconds = (grace if grace is not None else said if said is not None else _USUAL_GRACE_SECONDS) + _MARGIN_SECONDS
    try:
        async with asyncio.timeout(seconds):
            await until_gone(client, pod.namespace, pod.name, pod.uid)
            await _until_removed(pod_directory(place.node, pod.uid))
    except TimeoutError:
        raise Failure(
            f'pod "{pod.name}" did not end within {seconds:g} s: `syncpod describe pod` shows why; '
            "the deletion continues"
        ) from None


async def _until_removed(directory: Path) -> None:
    """Wait until the node has removed a pod's remains; its directory is removed last."""
    while await asyncio.to_thread(directory.exists):  # noqa: ASYNC110  # nothing reports the removal
        await asyncio.sleep(_LOOK_SECONDS)


async def prune_nameless(place: Here, thing: Nameless, grace: int | None) -> None:
    """Kill and remove a sandbox or container that names no pod.

    Raises Failure, and removes nothing, if a container in it is not this node's.
    """
    async with _runtime(place, thing.id) as runtime:
        inside = await runtime.list_containers()
        containers = [each for each in inside if thing.id in (each.id, each.sandbox_id)]
    if any(each.labels.get(NODE_LABEL) != place.node.name for each in containers):
        raise Failure(f"{thing.kind}/{thing.id} holds a container that is not of node {place.node.name}; it stays")
    await _by_bare_calls(place, containers, [thing.id] if thing.kind == "sandbox" else [], grace)


async def _by_bare_calls(
    place: Here, containers: Iterable[ContainerSummary], sandboxes: Iterable[str], grace: int | None
) -> None:
    """Stop all containers at once, each with its grace period; then remove them and the sandboxes. Raises Failure."""
    found = tuple(containers)
    async with _runtime(place, ", ".join(sandboxes)) as runtime:
        await asyncio.gather(*(_stopped(_stop(runtime, each, grace)) for each in found))
        for each in found:
            await runtime.remove_container(each.id)
        for sandbox in sandboxes:
            await _stopped(runtime.stop_pod_sandbox(sandbox))
            await runtime.remove_pod_sandbox(sandbox)


async def _stop(runtime: CriRuntime, container: ContainerSummary, grace: int | None) -> None:
    seconds = _grace_of(container.annotations) if grace is None else grace
    await runtime.stop_container(container.id, timeout_seconds=stop_timeout_seconds(seconds))


def _grace_of(annotations: Mapping[str, str]) -> int:
    """Return the grace period in a container's annotation (labels.go, v1.36), else the default."""
    said = annotations.get(POD_TERMINATION_GRACE_PERIOD_ANNOTATION, "")
    return int(said) if said.isdecimal() else _USUAL_GRACE_SECONDS


def _remove_files(place: Here, orphan: FoundOrphan) -> None:
    """Remove the pod's cgroup, volumes, logs and directory. Blocks. Raises Failure."""
    pod = orphan.pod
    try:
        remove_pod_files(place.node, namespace=pod.namespace, name=pod.name, uid=pod.uid)
    except (OSError, ValueError) as error:
        raise Failure(f'pod "{pod.name}" is killed, but some of its files are left: {sentence_of(error)}') from None


@contextlib.asynccontextmanager
async def _runtime(place: Here, what: str) -> Any:
    """Connect to the runtime for the block. Raises Failure for its errors."""
    try:
        async with CriClient(place.endpoint) as runtime:
            yield runtime
    except CriError as error:
        raise Failure(f"the runtime at {place.endpoint} does not end {what}: {error.message or error.code}") from None


async def _stopped(call: Awaitable[None]) -> None:
    """Await a call that stops something; NotFound is success. Raises CriError."""
    with contextlib.suppress(NotFound):
        await call
