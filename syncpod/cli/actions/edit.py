"""The work of ``syncpod edit``: change a pod in an editor."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from syncpod.cli.console import say
from syncpod.cli.failure import BadInput
from syncpod.cli.temporal import session
from syncpod.cli.temporal.pod_change import change_pod
from syncpod.pod import ManifestError, read_documents

if TYPE_CHECKING:
    from temporalio.client import Client


def apply_edited(path: Path, namespace: str, name: str) -> None:
    """Apply the pod in the file. Raises BadInput, Failure."""
    try:
        found = [document for _, document in read_documents(path.read_bytes(), source=str(path))]
    except ManifestError as wrong:
        raise BadInput(str(wrong)) from None
    if len(found) != 1 or not isinstance(found[0], dict):
        raise BadInput(f"{path}: must be one Pod")

    async def work(client: Client) -> None:
        await change_pod(client, namespace, name, lambda _: found[0])

    session.run(work)
    say(f"pod/{name} edited")
