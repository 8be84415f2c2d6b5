"""Runs a new pod attached: its container is followed until it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncpod.cli.actions.attached_container import stay, until_begun
from syncpod.cli.actions.create import create_manifests
from syncpod.cli.actions.delete import delete_things
from syncpod.cli.input.deletion_request import Deleting, DeletionRequest, Thing
from syncpod.cli.input.manifests import Manifests
from syncpod.cli.streams import interrupts
from syncpod.cli.temporal import session
from syncpod.cli.temporal.pod_source import TemporalPods

if TYPE_CHECKING:
    from temporalio.client import Client


def run_attached(manifests: Manifests, node: str, *, remove: bool) -> int:
    """Create the one pod of the manifests, follow its container until it ends, and return the exit code.

    With `remove`, the pod is deleted then, also if following it has failed. Raises BadInput, Failure.
    """
    meta = manifests.pods[0].pod.metadata
    namespace, name = meta.namespace, meta.name

    async def work(client: Client) -> int:
        pod = (await TemporalPods(client).required(namespace, name)).pod
        return await stay(await until_begun(client, pod, name), name)

    create_manifests(manifests, node)  # raises before the pod could count as ours
    interrupts.enable()
    try:
        return session.run(work)
    finally:
        if remove:
            delete_things(DeletionRequest([Thing("Pod", namespace, name)]), Deleting(kinds="pod"))
