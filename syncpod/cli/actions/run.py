"""The work of ``syncpod run``: make a pod of one container."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syncpod.cli.actions.apply import apply_manifests
from syncpod.cli.actions.attached_container import stay, until_begun
from syncpod.cli.commands.delete import delete
from syncpod.cli.console import say
from syncpod.cli.failure import BadInput
from syncpod.cli.input.manifests import Manifests
from syncpod.cli.streams import interrupts
from syncpod.cli.temporal import session
from syncpod.cli.temporal.pods import require_pod
from syncpod.cli.view.documents import print_documents
from syncpod.pod import PodInvalid, admit, parse_pod

if TYPE_CHECKING:
    from temporalio.client import Client

    from syncpod.pod import Admission


def run_attached(manifests: Manifests, node: str, name: str, namespace: str, *, remove: bool) -> int:
    """Run the pod, and follow its container until it ends; return the exit code."""

    async def work(client: Client) -> int:
        pod = (await require_pod(client, namespace, name)).pod
        return await stay(await until_begun(client, pod, name), name)

    apply_manifests(manifests, node, creates=True)  # raises before the pod could count as ours
    interrupts.enable()
    try:
        return session.run(work)
    finally:
        if remove:
            delete([f"pod/{name}"], namespace=namespace)


def admitted_pod(document: dict[str, Any]) -> Admission:
    """Return the document checked, with its defaults. Raises BadInput."""
    try:
        return admit(parse_pod(document))
    except PodInvalid as wrong:
        name = document["metadata"]["name"]
        raise BadInput("\n".join(f"pod {name}: {problem}" for problem in wrong.problems)) from None


def print_new(document: dict[str, Any], name: str, output: str) -> None:
    """Print the pod that was made, or its name."""
    if output in ("json", "yaml"):
        print_documents([document], output, single=True)
    else:
        say(f"pod/{name}" if output else f"pod/{name} created (dry run)")
