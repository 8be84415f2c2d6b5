"""Orphans of this machine's node, which are pods that run without a workflow, and commands' notes about them."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from syncpod.api import client
from syncpod.api.views.text import printable
from syncpod.cli.console import first_few, program, remark
from syncpod.cli.failure import BadInput
from syncpod.cli.machine.settings import settings
from syncpod.cli.machine.state_directory import other_server
from syncpod.node.orphan_mark import why_orphaned
from syncpod.settings.directories import MADE_BY_MANIFESTS
from syncpod.settings.worker_record import read_worker_record, serving

_NAMED: Final = 5
"""Maximum number of pods that are named in one note, or in one command."""


def note_orphans(pods: Iterable[Mapping[str, Any]]) -> None:
    """Print the notes of `orphan_notes`."""
    for note in orphan_notes(pods):
        remark(note)


def orphan_notes(pods: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return notes about the orphans among these printed pods: one note for static pods, one for all others."""
    found = [pod for pod in pods if why_orphaned(pod)]
    notes = []
    for of_directory in (False, True):
        alike = [pod for pod in found if _is_of_directory(pod["metadata"]) is of_directory]
        if len(alike) == 1:
            notes.append(f"Note: pod {printable(str(alike[0]['metadata']['name']))} {without_workflow(alike[0])}")
        elif alike:
            notes.append(f"Note: {printable(_several(alike, of_directory=of_directory))}")
    return notes


def _several(pods: Sequence[Mapping[str, Any]], *, of_directory: bool) -> str:
    """Return the sentence about several orphans. `of_directory`: their manifests are in the node's directory."""
    names = sorted({str(pod["metadata"]["name"]) for pod in pods})
    which = f"{len(pods)} pods run without a workflow ({first_few(names, _NAMED)})"
    if of_directory:
        return (
            f"{which}: their manifests are in the node's directory, so the node gives them one again by itself, within "
            "a minute, and restarts nothing"
        )
    adopt, prune = (way_for(command, pods) for command in ("adopt", "prune"))
    return f"{which}, so nothing is decided for them: {adopt} gives them one and restarts nothing, {prune} ends them"


def way_for(command: str, pods: Sequence[Mapping[str, Any]]) -> str:
    """Return the command line of ``adopt``, ``prune`` or ``explain`` for these printed pods.

    It names the pods if they are few and of one namespace; else it has ``--all``.
    """
    keys = sorted({(str(pod["metadata"].get("namespace") or "default"), str(pod["metadata"]["name"])) for pod in pods})
    namespaces = {namespace for namespace, _ in keys}
    is_named = len(namespaces) == 1 and len(keys) <= _NAMED
    flag = f" -n {keys[0][0]}" if len(namespaces) == 1 and (keys[0][0] != "default" or not is_named) else ""
    which = " ".join(name for _, name in keys) if is_named else "--all"
    return f"`{shlex.quote(program())} {command}{flag} {which}`"


def without_workflow(pod: Mapping[str, Any]) -> str:
    """Return the rest of a sentence that begins with the name of this orphan, a printed pod."""
    if _is_of_directory(pod["metadata"]):
        return printable(
            "runs without a workflow: its manifest is in the node's directory, so the node gives it one again by "
            f"itself, within a minute, and restarts nothing ({way_for('explain', [pod])})"
        )
    return printable(
        f"runs without a workflow, so nothing is decided for it: {way_for('adopt', [pod])} gives it one and restarts "
        f"nothing, {way_for('prune', [pod])} ends it"
    )


def _is_of_directory(metadata: Mapping[str, Any]) -> bool:
    """Return whether the pod is a static pod by its annotations, and its manifest is in the node's directory."""
    from syncpod.messages.node import FILE_SOURCE, SOURCE_ANNOTATION
    from syncpod.pod.static import HASH_ANNOTATION

    annotations = metadata.get("annotations") or {}
    made_from = annotations.get(HASH_ANNOTATION)
    is_static = annotations.get(SOURCE_ANNOTATION) == FILE_SOURCE and made_from == metadata.get("uid")
    return is_static and _has_manifest(str(metadata.get("namespace") or "default"), str(metadata["name"]))


def _has_manifest(namespace: str, name: str) -> bool:
    """Return whether the node follows a directory, and a file there has made the pod of this name. Blocks."""
    try:
        state_dir = settings().state_dir
        worker = read_worker_record(state_dir)
        made = json.loads((state_dir / MADE_BY_MANIFESTS).read_bytes())
        return worker is not None and any(
            (key["namespace"], key["name"]) == (namespace, name)
            and str(Path(path).parent) == worker.manifest_dir
            and os.path.lexists(path)
            for path, key in made.items()
        )
    except (BadInput, OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def note_earlier(namespace: str, name: str) -> None:
    """Print a note that an orphan has the name of an applied pod: the node ends the orphan, unless `adopt` keeps it."""
    way = way_for("adopt", [{"metadata": {"namespace": namespace, "name": name}}])
    remark(
        f"Note: an earlier pod {printable(name)} runs, and its workflow was ended: the node ends this pod before it "
        f"starts the new one; {printable(way)}, in place of an apply, keeps it"
    )


def orphans_here(namespace: str | None, names: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Return the orphans of a namespace (None = all) on this machine's node; with `names`, only these. Blocks.

    The node's worker lists them. If the worker has ended, all pods in its runtime are returned, and the caller must
    leave out those that have workflows. Returns [] if neither source answers, or if this command uses another Temporal
    server than the worker, even at the same address.
    """
    try:
        directory = settings().state_dir
    except BadInput:
        return []
    lives = serving(directory)
    worker = lives or read_worker_record(directory)
    if worker is None or os.environ.get("TEMPORAL_ADDRESS", worker.address) != worker.address:
        return []
    if other_server(directory):
        return []
    if lives is None:
        from syncpod.cli.machine.pods_at_rest import pods_at_rest

        return pods_at_rest(directory, worker, namespace, names)
    told = client.listed(directory, "pods", namespace, names, {"orphans": "true"})
    pods = [] if told is None else [pod for pod in told["items"] if not names or pod["metadata"]["name"] in names]
    return [pod for pod in pods if why_orphaned(pod)]


def orphan_of(namespace: str, name: str) -> dict[str, Any] | None:
    """Return the orphan of this name on this machine's node; None if there is none."""
    return next(iter(orphans_here(namespace, [name])), None)


async def note_if_earlier(namespace: str, name: str) -> bool:
    """Print the note of `note_earlier` if an orphan of this name runs here; return whether one does."""
    import asyncio

    if await asyncio.to_thread(orphan_of, namespace or "default", name) is None:
        return False
    note_earlier(namespace or "default", name)
    return True
