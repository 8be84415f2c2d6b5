"""The pods of this machine's node that run without a workflow, and the notes of commands about them."""

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
            remark(f"Note: pod {printable(str(pod['metadata']['name']))} {without_workflow(pod)}")


def without_workflow(pod: Mapping[str, Any]) -> str:
    """Return the sentence about such a pod, as it is printed, that follows its name."""
    metadata = pod["metadata"]
    namespace, name = str(metadata.get("namespace") or "default"), str(metadata["name"])
    us, flag = shlex.quote(program()), "" if namespace == "default" else f" -n {namespace}"
    if _is_of_directory(metadata):
        return printable(
            "runs without a workflow: its manifest is in the node's directory, so the node gives it one again by "
            f"itself, within a minute, and restarts nothing (`{us} explain{flag} {name}`)"
        )
    return printable(
        f"runs without a workflow, so nothing is decided for it: `{us} adopt{flag} {name}` gives it one and restarts "
        f"nothing, `{us} prune{flag} {name}` ends it"
    )


def _is_of_directory(metadata: Mapping[str, Any]) -> bool:
    """Say whether the pod's manifest is, or was, in the node's directory; by the annotations of a static pod."""
    from syncpod.messages.node import FILE_SOURCE, SOURCE_ANNOTATION
    from syncpod.pod.static import HASH_ANNOTATION

    annotations = metadata.get("annotations") or {}
    made_from = annotations.get(HASH_ANNOTATION)
    return annotations.get(SOURCE_ANNOTATION) == FILE_SOURCE and made_from == metadata.get("uid")


def note_earlier(name: str) -> None:
    """Print a note that such a pod has the name of one that is applied, and what becomes of it."""
    remark(
        f"Note: an earlier pod {printable(name)} runs, and somebody has ended its workflow: its node ends it before it "
        "starts this one"
    )


def orphans_here(namespace: str | None, names: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Return the pods of a namespace (None = all) that run without a workflow on this machine's node.

    With `names`, only these. Its worker lists them now. If that has ended, what runs in the runtime is returned: the
    caller knows which of these have workflows. [] if neither says it, or if commands are sent to another server than
    the worker's. Blocks.
    """
    from syncpod.api import client
    from syncpod.cli.machine.pods_at_rest import pods_at_rest
    from syncpod.cli.machine.settings import settings
    from syncpod.settings.worker_record import read_worker_record, serving

    try:
        directory = settings().state_dir
    except BadInput:
        return []
    lives = serving(directory)
    worker = lives or read_worker_record(directory)
    if worker is None or os.environ.get("TEMPORAL_ADDRESS", worker.address) != worker.address:
        return []
    if lives is None:
        return pods_at_rest(directory, worker, namespace, names)
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
