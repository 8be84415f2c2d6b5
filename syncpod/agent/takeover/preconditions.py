"""Checks, before a worker serves its node, that runtime, name and Temporal cluster are still those of the node."""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from temporalio.client import Client

from syncpod.agent.takeover.awaited_runtime import AwaitedRuntime, RuntimeAway
from syncpod.agent.takeover.cluster import another_cluster
from syncpod.agent.takeover.lock import NodeLock, NotThisNode, machine_id, node_of
from syncpod.cri.client import CriClient
from syncpod.cri.endpoint import VARIABLE, NoRuntime, find_endpoint
from syncpod.cri.errors import CriError, Unavailable
from syncpod.cri.port import RuntimeVersion, SandboxSummary
from syncpod.kernel.daemon_thread import in_daemon_thread
from syncpod.node.inventory import has_pods
from syncpod.node.pod_records import has_records
from syncpod.settings.directories import require_own_manifests
from syncpod.settings.kept import (
    KeptSettings,
    is_same_runtime,
    kept_runtime_missing,
    other_name,
    other_runtime,
    other_signing,
)
from syncpod.settings.node import NodeSettings
from syncpod.settings.process_records import running_runtime
from syncpod.settings.values import SettingsInvalid
from syncpod.temporal.own_server import cluster_identity
from syncpod.translation import names

_DIRECTORY_SECONDS: Final = 2.0
"""Seconds that a call on the directory of manifests may take."""


class CannotServe(Exception):
    """The worker cannot serve; the text says why, in one sentence."""


async def require_directory(manifests: Path | None) -> None:
    """Raise CannotServe if the path of the manifests exists and is not a directory, or another account may write to it.

    The directory may be created later. If its file system hangs, the node serves without the manifests.
    """
    if manifests is None:
        return
    with contextlib.suppress(OSError):  # also TimeoutError; the reader of the directory logs both, and retries
        async with asyncio.timeout(_DIRECTORY_SECONDS):
            found = await in_daemon_thread(manifests.stat, name="manifests")
        if not stat.S_ISDIR(found.st_mode):
            raise CannotServe(f"manifest directory {manifests}: is not a directory")
        try:
            async with asyncio.timeout(_DIRECTORY_SECONDS):
                await in_daemon_thread(partial(require_own_manifests, manifests), name="manifests")
        except SettingsInvalid as wrong:
            raise CannotServe(str(wrong)) from None


async def awaited_socket(settings: NodeSettings, kept: KeptSettings, awaited: AwaitedRuntime) -> str:
    """Return the runtime's socket, once something listens there. Raises CannotServe."""
    try:
        return await awaited.answer(partial(find_runtime, settings, kept, os.environ))
    except RuntimeAway as away:
        raise CannotServe(str(away)) from away


async def find_runtime(settings: NodeSettings, kept: KeptSettings, environ: Mapping[str, str]) -> str:
    """Return the socket of the runtime: the named one, the running embedded one of the state directory, or a usual one.

    Raises RuntimeAway if a runtime that exists, or existed, does not answer, otherwise CannotServe.
    """
    named = {VARIABLE: settings.runtime_endpoint} if settings.runtime_endpoint else {}
    own = None if named or environ.get(VARIABLE) else running_runtime(settings.state_dir)
    try:
        return find_endpoint({VARIABLE: own.endpoint} if own else {**environ, **named})
    except NoRuntime as missing:
        if own is not None:
            raise RuntimeAway(
                f"the embedded runtime of {settings.state_dir} (pid {own.process.pid}) does not answer at "
                f"{own.endpoint} ({missing.tried[0][1]})"
            ) from missing
        if kept.endpoint and settings.runtime_endpoint and is_same_runtime(kept, settings.runtime_endpoint):
            raise RuntimeAway(kept_runtime_missing(kept, missing.tried[0][1])) from missing
        if missing.refused:
            raise RuntimeAway(str(missing)) from missing
        raise CannotServe(str(missing)) from missing
    except ValueError as error:
        raise CannotServe(str(error)) from error


async def require_same_node(settings: NodeSettings, kept: KeptSettings, endpoint: str) -> None:
    """Raise CannotServe if the node has pods, and the settings would change its runtime, name or signing."""
    try:
        before = kept.node or node_of(settings.state_dir)
    except NotThisNode as refusal:
        raise CannotServe(str(refusal)) from refusal
    is_renamed = before not in ("", settings.node)
    is_resigned = bool(kept.node) and kept.signed != settings.signed
    if not is_renamed and not is_resigned and is_same_runtime(kept, endpoint):
        return
    if await has_pods(settings.state_dir, before, kept.endpoint or endpoint):
        if is_resigned:
            raise CannotServe(other_signing(before, settings.state_dir, signed=settings.signed))
        raise CannotServe(
            other_name(before, settings.state_dir, settings.node) if is_renamed else other_runtime(kept, endpoint)
        )


def take_lock(settings: NodeSettings) -> NodeLock:
    """Return the node's lock, held. Raises CannotServe."""
    try:
        # `require_same_node` has checked that a node of another name has no pods.
        return NodeLock(settings.state_dir, settings.node, machine=machine_id(), may_rename=True)
    except NotThisNode as refusal:
        raise CannotServe(str(refusal)) from refusal


async def meet_runtime(
    settings: NodeSettings, kept: KeptSettings, endpoint: str, cri: CriClient, awaited: AwaitedRuntime
) -> RuntimeVersion:
    """Return the runtime's version, once it answers. Raises CannotServe if it fails or is not this node's runtime."""
    try:
        version, kubelets = await awaited.answer(partial(_asked, endpoint, cri))
    except RuntimeAway as away:
        raise CannotServe(str(away)) from away
    if kubelets and not settings.allow_foreign_kubelet:
        raise CannotServe(foreign_refusal(kubelets, endpoint))
    if kept.runtime not in ("", version.name) and await asyncio.to_thread(has_records, settings.state_dir):
        raise CannotServe(other_runtime(kept, f"{version.name}, which answers there now: it was {kept.runtime}"))
    return version


async def _asked(endpoint: str, cri: CriClient) -> tuple[RuntimeVersion, tuple[str, ...]]:
    """Return the runtime's version, and the pods in it that a kubelet made. Raises CannotServe, RuntimeAway."""
    try:
        return await cri.version(), foreign_pods(await cri.list_pod_sandboxes())
    except CriError as error:
        refused = RuntimeAway if isinstance(error, Unavailable) else CannotServe
        raise refused(f"the runtime at {endpoint} does not answer: {error.message or error.code}") from error


def foreign_pods(sandboxes: Iterable[SandboxSummary]) -> tuple[str, ...]:
    """Return the pods, ``namespace/name``, that a kubelet made: they have its labels and no node label of ours.

    Such a kubelet would kill our pods, since it does not know them.
    """
    return tuple(
        sorted(
            {
                f"{sandbox.namespace}/{sandbox.name}"
                for sandbox in sandboxes
                if names.POD_UID_LABEL in sandbox.labels and names.NODE_LABEL not in sandbox.labels
            }
        )
    )


def foreign_refusal(pods: tuple[str, ...], endpoint: str) -> str:
    """Return one sentence that says why a runtime with these pods is not used."""
    shown = ", ".join(pods[:3]) + (f" and {len(pods) - 3} more" if len(pods) > 3 else "")
    return (
        f"the runtime at {endpoint} has pods of a kubelet ({shown}), and a kubelet kills pods that are not its own: "
        "stop the kubelet and remove its pods, name another runtime, or insist with SYNCPOD_ALLOW_FOREIGN_KUBELET=true"
    )


async def require_cluster(settings: NodeSettings, kept: KeptSettings, client: Client, address: str) -> str:
    """Return the identity of the Temporal cluster and namespace. Raises NotThisNode if another has the node's pods."""
    cluster = await cluster_identity(client)
    if kept.cluster not in ("", cluster) and not settings.adopt_cluster:
        raise another_cluster(settings.node, address)
    return cluster
