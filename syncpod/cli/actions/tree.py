"""Reads the pods of nodes and what they wait for, and prints them as a tree."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from syncpod.api.client import steps_under_way
from syncpod.api.listed import ListedPod, Recorded
from syncpod.api.views.durations import read_moment
from syncpod.api.views.text import printable
from syncpod.cli.console import remark, say
from syncpod.cli.machine.settings import settings
from syncpod.cli.node_api import NodeApi
from syncpod.cli.orphan_notes import note_orphans
from syncpod.cli.view.pod_tree import Branch, documents, is_explained, is_settled, lines
from syncpod.messages.running_steps import PendingStep

if TYPE_CHECKING:
    from syncpod.api.client import Reply


_MOST_WITH_STEPS: Final = 50
"""Maximum number of pods whose pending steps are read from the server."""


def read_branches(names: Collection[str]) -> tuple[list[Branch], Sequence[str]]:
    """Return the pods of these nodes with their back-offs, and notes about those that did not answer. Raises Failure.

    Without names, the pods of all nodes.
    """

    def read(reply: Reply, reports: Sequence[Mapping[str, Any]]) -> tuple[list[Branch], Sequence[str]]:
        pods = [
            ListedPod(one["pod"])
            if "recorded" not in one
            else ListedPod(one["pod"], current=False, recorded=Recorded(**one["recorded"]))
            for one in reports
        ]
        holds = [one.get("plan", {}).get("holds", ()) for one in reports]
        return [Branch(*each) for each in zip(pods, holds, strict=True)], reply.warnings

    with NodeApi() as api:
        return api.reports(None, (), "pod", "plan", query=[("node", name) for name in names], read=read)


def without_pods(names: Collection[str], branches: Sequence[Branch]) -> list[str]:
    """Return those of these nodes that have none of the pods."""
    return sorted(set(names) - {str((one.pod.document.get("spec") or {}).get("nodeName") or "") for one in branches})


def print_tree(branches: Sequence[Branch], notes: Sequence[str], output: str) -> None:
    """Print the tree, after the notes: as lines or as a document. Raises Failure.

    The pending steps are read only for pods that are not at rest.
    """
    note_orphans(one.pod.document for one in branches)
    unsettled = [one.pod for one in branches if not (is_settled(one.pod.document) or is_explained(one))]
    steps = _steps_of(unsettled)
    for note in notes:
        remark(f"Note: {note}")
    doing = _doing(unsettled)
    drawn = [replace(one, steps=steps.get(one.pod.key, ()), doing=doing.get(one.pod.key, {})) for one in branches]
    if not drawn:
        remark("No pods found")
    if output == "json":
        say(json.dumps(documents(drawn), indent=4))
    elif drawn:
        say("\n".join(map(printable, lines(drawn, datetime.now(UTC)))))


def _steps_of(pods: Sequence[ListedPod]) -> dict[tuple[str, str], tuple[PendingStep, ...]]:
    """Return the pending steps of these pods, by namespace and name, for _MOST_WITH_STEPS pods at most."""

    def read(_: Reply, reports: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], tuple[PendingStep, ...]]:
        return {
            (one["metadata"]["namespace"], one["metadata"]["name"]): tuple(
                PendingStep(**{**step, "since": read_moment(step["since"])}) for step in one["pending"]
            )
            for one in reports
        }

    asked = [one.key for one in pods][:_MOST_WITH_STEPS]
    found: dict[tuple[str, str], tuple[PendingStep, ...]] = {}
    with NodeApi() as api:
        for namespace in sorted({namespace for namespace, _ in asked}):
            names = [name for each, name in asked if each == namespace]
            found |= api.reports(namespace, names, "pending", read=read)
    if len(pods) > len(asked):
        remark(f"Note: of {len(pods) - len(asked)} pods that are not at rest, the steps under way are not shown")
    return found


def _doing(pods: Sequence[ListedPod]) -> dict[tuple[str, str], dict[str, tuple[str, str]]]:
    """Return the steps that this machine's worker executes now, by pod and container: the name and the activity."""
    keys = {(one.document.get("metadata") or {}).get("uid"): one.key for one in pods}
    found: dict[tuple[str, str], dict[str, tuple[str, str]]] = {}
    for step in steps_under_way(settings().state_dir) if pods else ():
        if step["container"] and (key := keys.get(step["uid"])) is not None:
            found.setdefault(key, {})[step["container"]] = step["step"], step["doing"]
    return found
