"""Lists everything with the node's label in its runtime: pods and orphans, and objects that belong to no pod.

This takes only two list calls, so it works even if other calls to the runtime hang.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final, Literal

from syncpod.cri.client import CriClient
from syncpod.cri.errors import CriError
from syncpod.cri.port import ContainerSummary, CriRuntime, SandboxSummary
from syncpod.lifecycle.orphans import made_at
from syncpod.node.listed_pods import why_of_no_pod
from syncpod.node.pod_records import RecordedLife, cluster_of, has_records
from syncpod.translation import names

_ANSWER_SECONDS: Final = 5.0
"""Seconds that :func:`has_pods` waits for the runtime."""


@dataclass(frozen=True)
class PodInRuntime:
    """One pod that has sandboxes or containers in the runtime."""

    namespace: str
    name: str
    uid: str
    incarnation: str
    """The incarnation in the newest sandbox; "" = unknown."""
    cluster: str
    """The Temporal cluster that has its workflow; "" = unknown, or its sandboxes name more than one."""
    sandboxes: tuple[SandboxSummary, ...]
    containers: tuple[ContainerSummary, ...]

    @property
    def running(self) -> int:
        """The number of its running containers."""
        return sum(container.state == "running" for container in self.containers)

    @property
    def is_alive(self) -> bool:
        """True if one of its sandboxes is ready, or one of its containers has not ended."""
        has_sandbox = any(sandbox.state == "SANDBOX_READY" for sandbox in self.sandboxes)
        return has_sandbox or any(container.state != "exited" for container in self.containers)

    @property
    def made_at(self) -> datetime | None:
        """When its oldest sandbox or container was made, by the node's clock; None = the runtime does not report it."""
        return made_at([*(each.created_at for each in self.sandboxes), *(each.created_at for each in self.containers)])


@dataclass(frozen=True)
class Nameless:
    """A sandbox or container with the node's label that belongs to no pod.

    No step sees it: its labels name no pod, or its attempt is out of the range that our pods use.
    """

    kind: Literal["sandbox", "container"]
    id: str
    cluster: str
    """The cluster that its sandbox names; "" = unknown."""
    uid: str
    """UID of the pod whose sandbox it is in; "" = none."""
    running: int
    """The number of the sandbox's running containers with the node's label; for a container, 1 if it runs."""
    made_at: datetime | None


@dataclass(frozen=True)
class Inventory:
    """Everything that has the node's label."""

    pods: Mapping[str, PodInRuntime]
    """The pods, by UID."""
    nameless: tuple[Nameless, ...]


async def take_inventory(runtime: CriRuntime, owner: str, records: Mapping[str, RecordedLife]) -> Inventory:
    """Return everything with the label of the node `owner` in the runtime. Raises CriError.

    `records` are the records of the node's pods, by UID.
    """
    ours = {names.NODE_LABEL: owner}
    sandboxes, containers = await asyncio.gather(
        runtime.list_pod_sandboxes(labels=ours), runtime.list_containers(labels=ours)
    )
    pods: dict[str, tuple[list[SandboxSummary], list[ContainerSummary]]] = {}
    nameless_sandboxes = [each for each in sandboxes if not is_named(each)]
    nameless_containers = [
        each for each in containers if not is_named(each) or not each.labels.get(names.CONTAINER_NAME_LABEL)
    ]
    for sandbox in sandboxes:
        if sandbox not in nameless_sandboxes:
            pods.setdefault(sandbox.labels[names.POD_UID_LABEL], ([], []))[0].append(sandbox)
    for container in containers:
        if container not in nameless_containers:
            pods.setdefault(container.labels[names.POD_UID_LABEL], ([], []))[1].append(container)
    homes = {each.id: each for each in sandboxes}
    lost = {each.id for each in nameless_sandboxes}  # removing such a sandbox removes its containers
    outside = [each for each in nameless_containers if each.sandbox_id not in lost]
    return Inventory(
        pods={uid: _pod(uid, *found, records.get(uid)) for uid, found in pods.items()},
        nameless=(
            *(_sandbox(each, containers) for each in nameless_sandboxes),
            *(_container(each, homes.get(each.sandbox_id)) for each in outside),
        ),
    )


async def has_pods(state_dir: Path, node: str, endpoint: str) -> bool:
    """Return whether a node has pods, in the records on its disk or in the runtime at `endpoint`.

    While the node has pods, its name, runtime and cluster must not change. A runtime that does not answer counts as
    empty.
    """
    if await asyncio.to_thread(has_records, state_dir):
        return True
    try:
        async with CriClient(endpoint, timeout_seconds=_ANSWER_SECONDS) as runtime:
            return bool(await runtime.list_pod_sandboxes(labels={names.NODE_LABEL: node}))
    except CriError:
        return False


def is_named(thing: SandboxSummary | ContainerSummary) -> bool:
    """Return whether labels name a pod (namespace, name and UID), so that the pod's listing includes it."""
    labels = thing.labels
    return bool(labels.get(names.POD_NAMESPACE_LABEL) and labels.get(names.POD_NAME_LABEL) and not why_of_no_pod(thing))


def _pod(
    uid: str, sandboxes: list[SandboxSummary], containers: list[ContainerSummary], record: RecordedLife | None
) -> PodInRuntime:
    newest = max(sandboxes, key=lambda each: each.attempt, default=None)
    labels = (newest or containers[0]).labels
    if newest is not None:
        incarnation = newest.annotations.get(names.INCARNATION_ANNOTATION, "")
    else:  # its sandboxes are gone: containers show the incarnation, but only the record shows the cluster
        incarnation = containers[0].annotations.get(names.INCARNATION_ANNOTATION, "")
    clusters = {
        cluster_of(
            record,
            each.annotations.get(names.INCARNATION_ANNOTATION, ""),
            each.annotations.get(names.CLUSTER_ANNOTATION, ""),
        )
        for each in sandboxes
    } or {cluster_of(record, incarnation, "")}
    return PodInRuntime(
        namespace=labels[names.POD_NAMESPACE_LABEL],
        name=labels[names.POD_NAME_LABEL],
        uid=uid,
        incarnation=incarnation,
        cluster=clusters.pop() if len(clusters) == 1 else "",
        sandboxes=tuple(sandboxes),
        containers=tuple(containers),
    )


def _sandbox(sandbox: SandboxSummary, containers: tuple[ContainerSummary, ...]) -> Nameless:
    inside = [each for each in containers if each.sandbox_id == sandbox.id]
    return Nameless(
        kind="sandbox",
        id=sandbox.id,
        cluster=sandbox.annotations.get(names.CLUSTER_ANNOTATION, ""),
        uid="",
        running=sum(each.state == "running" for each in inside),
        made_at=made_at([sandbox.created_at, *(each.created_at for each in inside)]),
    )


def _container(container: ContainerSummary, home: SandboxSummary | None) -> Nameless:
    named = home is not None and is_named(home)
    return Nameless(
        kind="container",
        id=container.id,
        cluster=home.annotations.get(names.CLUSTER_ANNOTATION, "") if home is not None else "",
        uid=home.labels[names.POD_UID_LABEL] if home is not None and named else "",
        running=int(container.state == "running"),
        made_at=container.created_at,
    )
