"""Makes a pod of one container: prints it, runs it, or runs it attached to our terminal."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from syncpod.cli.actions.attached_container import stay, until_begun
from syncpod.cli.actions.create import create_manifests
from syncpod.cli.actions.delete import delete_things
from syncpod.cli.console import say
from syncpod.cli.failure import BadInput
from syncpod.cli.input.deletion_request import Deleting, DeletionRequest, Thing
from syncpod.cli.input.manifests import Manifests
from syncpod.cli.streams import interrupts
from syncpod.cli.temporal import session
from syncpod.cli.temporal.pods import require_pod
from syncpod.cli.view.documents import print_documents
from syncpod.pod import PodInvalid, admit, parse_pod

if TYPE_CHECKING:
    from temporalio.client import Client


def run_detached(document: dict[str, Any], node: str, patience: timedelta | None, *, wait: bool) -> None:
    """Create the pod of the document; with `wait`, wait until it is up. Raises BadInput, Failure."""
    create_manifests(_admitted(document), node, patience, wait=wait)


def run_attached(document: dict[str, Any], node: str, *, remove: bool) -> int:
    """Create the pod, and follow its container until it ends; return the exit code. With `remove`, delete the pod then.

    Raises BadInput, Failure.
    """
    namespace, name = document["metadata"]["namespace"], document["metadata"]["name"]

    async def work(client: Client) -> int:
        pod = (await require_pod(client, namespace, name)).pod
        return await stay(await until_begun(client, pod, name), name)

    create_manifests(_admitted(document), node)  # raises before the pod could count as ours
    interrupts.enable()
    try:
        return session.run(work)
    finally:
        if remove:
            delete_things(DeletionRequest([Thing("Pod", namespace or "default", name)]), Deleting(kinds="pod"))


def print_new(document: dict[str, Any], output: str) -> None:
    """Print the pod that would be made, or its name. Raises BadInput for a wrong pod."""
    _admitted(document)
    name = document["metadata"]["name"]
    if output in ("json", "yaml"):
        print_documents([document], output, single=True)
    else:
        say(f"pod/{name}" if output else f"pod/{name} created (dry run)")


def _admitted(document: dict[str, Any]) -> Manifests:
    """Return the document as checked manifests of one pod. Raises BadInput."""
    try:
        return Manifests([admit(parse_pod(document))], [])
    except PodInvalid as wrong:
        name = document["metadata"]["name"]
        raise BadInput("\n".join(f"pod {name}: {problem}" for problem in wrong.problems)) from None
