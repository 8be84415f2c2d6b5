"""The pods of this machine's node that run without a workflow: what commands say of them."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from syncpod.api.views.text import printable
from syncpod.cli.console import program, remark
from syncpod.cli.failure import BadInput
from syncpod.node.orphan_mark import why_orphaned


def note_orphans(pods: Iterable[Mapping[str, Any]]) -> None:
    """Print a note for each of these printed pods that has no workflow."""
    for pod in pods:
        if why_orphaned(pod):
            metadata = pod["metadata"]
            namespace, name = str(metadata.get("namespace") or "default"), str(metadata["name"])
            remark(f"Note: pod {printable(name)} {without_workflow(namespace, name)}")


def without_workflow(namespace: str, name: str) -> str:
    """Return the sentence about such a pod that follows its name."""
    us, flag = shlex.quote(program()), "" if namespace == "default" else f" -n {namespace}"
    return printable(
        f"runs without a workflow, so nothing is decided for it: `{us} adopt{flag} {name}` gives it one and restarts "
        f"nothing, `{us} prune{flag} {name}` ends it"
    )


def note_earlier(name: str) -> None:
    """Print a note that such a pod has the name of one that is applied, and what becomes of it."""
    remark(
        f"Note: an earlier pod {printable(name)} runs, and somebody has ended its workflow: its node ends it before it "
        "starts this one"
    )


def orphans_here(namespace: str | None, names: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Return the pods of a namespace (None = all) that run without a workflow on this machine's node.

    With `names`, only these. Its worker tells it now; [] if there is none that can say, or if commands are sent to
    another server than the worker's. Blocks.
    """
    from syncpod.api import client
    from syncpod.cli.machine.settings import settings
    from syncpod.cli.machine.worker_process import serving

    try:
        directory = settings().state_dir
    except BadInput:
        return []
    worker = serving(directory)
    if worker is None or os.environ.get("TEMPORAL_ADDRESS", worker.address) != worker.address:
        return []
    told = client.listed(directory, "pods", namespace, names)
    pods = [] if told is None else [pod for pod in told["items"] if not names or pod["metadata"]["name"] in names]
    return [pod for pod in pods if why_orphaned(pod)]


def orphan_of(namespace: str, name: str) -> dict[str, Any] | None:
    """Return the pod of this name among them; None if it is none of them."""
    return next(iter(orphans_here(namespace, [name])), None)


async def note_if_earlier(namespace: str, name: str) -> None:
    """Print the note of `note_earlier` if a pod of this name runs here without a workflow."""
    import asyncio

    if await asyncio.to_thread(orphan_of, namespace or "default", name) is not None:
        note_earlier(name)
