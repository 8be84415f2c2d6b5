"""The work of ``syncpod tree``: nodes, their pods and containers, and what each waits for."""

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
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.input.arguments import node_names
from syncpod.cli.input.kind_words import POD_WORDS
from syncpod.cli.machine.settings import settings
from syncpod.cli.node_api import NodeApi
from syncpod.cli.orphan_notes import note_orphans
from syncpod.cli.temporal import session
from syncpod.cli.temporal.nodes import read_node
from syncpod.cli.view.pod_tree import Branch, documents, is_explained, is_settled, lines
from syncpod.messages.running_steps import PendingStep
from syncpod.settings.membership import read_membership

if TYPE_CHECKING:
    from temporalio.client import Client

    from syncpod.api.client import Reply


_ASKED_OF_STEPS: Final = 50
"""Maximum number of pods whose pending steps are read from the server."""


def asked_nodes(words: Sequence[str]) -> list[str]:
    """Return the named nodes. Raises BadInput; if a pod is named, its text has the command for a pod."""
    if words and words[0].partition("/")[0] in POD_WORDS:
        name = words[0].partition("/")[2] or "".join(words[1:2]) or "POD"
        raise BadInput(f"{words[0]!r}: {_of_a_pod(name)}")
    return node_names(words) if words else []


def _of_a_pod(name: str) -> str:
    """Return the hint that this command takes nodes, and that `explain` shows what a pod waits for."""
    return f"name nodes, as NAME or node/NAME; `syncpod explain {name}` says what a pod waits for"


def _of_a_fleet() -> str:
    """Return the hint at the command for the fleet's other nodes; "" if this machine's node is part of no fleet."""
    if read_membership(settings().state_dir) is None:
        return ""
    return "; `syncpod fleet get pods -o wide`, where the fleet is served, lists the pods of its other nodes"


def print_tree(branches: Sequence[Branch], output: str) -> None:
    """Print the branches, as lines or as a document."""
    if not branches:
        remark("No pods found")
    if output == "json":
        say(json.dumps(documents(branches), indent=4))
    elif branches:
        say("\n".join(map(printable, lines(branches, datetime.now(UTC)))))


def branches_of(names: Collection[str]) -> list[Branch]:
    """Return the tree. Raises Failure for nodes that do not exist.

    The pending steps are read only for pods that are not at rest.
    """
    with NodeApi() as api:
        query = [("node", name) for name in names]
        branches, notes = api.reports(None, (), "pod", "plan", query=query, read=_read)
        if missing := _missing(set(names) - {_node_of(one) for one in branches}):
            raise Failure("\n".join(f'nodes "{name}" not found: {_of_a_pod(name)}{_of_a_fleet()}' for name in missing))
        note_orphans(one.pod.document for one in branches)
        unsettled = [one.pod for one in branches if not (is_settled(one.pod.document) or is_explained(one))]
        steps = _steps_of(api, unsettled)
    for note in notes:
        remark(f"Note: {note}")
    doing = _doing(unsettled)
    return [replace(one, steps=steps.get(one.pod.key, ()), doing=doing.get(one.pod.key, {})) for one in branches]


def _read(reply: Reply, reports: Sequence[Mapping[str, Any]]) -> tuple[list[Branch], Sequence[str]]:
    """Return the pods with their back-offs, and notes about those that did not answer."""
    pods = [
        ListedPod(one["pod"])
        if "recorded" not in one
        else ListedPod(one["pod"], current=False, recorded=Recorded(**one["recorded"]))
        for one in reports
    ]
    holds = [one.get("plan", {}).get("holds", ()) for one in reports]
    return [Branch(*each) for each in zip(pods, holds, strict=True)], reply.warnings


def _node_of(branch: Branch) -> str:
    return str((branch.pod.document.get("spec") or {}).get("nodeName") or "")


def _doing(pods: Sequence[ListedPod]) -> dict[tuple[str, str], dict[str, tuple[str, str]]]:
    """Return the steps that this machine's worker executes now, by pod and container: the name and the activity."""
    keys = {(one.document.get("metadata") or {}).get("uid"): one.key for one in pods}
    found: dict[tuple[str, str], dict[str, tuple[str, str]]] = {}
    for step in steps_under_way(settings().state_dir) if pods else ():
        if step["container"] and (key := keys.get(step["uid"])) is not None:
            found.setdefault(key, {})[step["container"]] = step["step"], step["doing"]
    return found


def _missing(names: Collection[str]) -> list[str]:
    """Return those of these nodes that do not exist."""
    if not names:
        return []

    async def work(client: Client) -> list[str]:
        return [name for name in sorted(names) if await read_node(client, name) is None]

    return session.run(work)


def _steps_of(api: NodeApi, pods: Sequence[ListedPod]) -> dict[tuple[str, str], tuple[PendingStep, ...]]:
    """Return the pending steps of these pods, by namespace and name, for _ASKED_OF_STEPS pods at most."""

    def read(_: Reply, reports: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], tuple[PendingStep, ...]]:
        return {
            (one["metadata"]["namespace"], one["metadata"]["name"]): tuple(
                PendingStep(**{**step, "since": read_moment(step["since"])}) for step in one["pending"]
            )
            for one in reports
        }

    asked = [one.key for one in pods][:_ASKED_OF_STEPS]
    found: dict[tuple[str, str], tuple[PendingStep, ...]] = {}
    for namespace in sorted({namespace for namespace, _ in asked}):
        names = [name for each, name in asked if each == namespace]
        found |= api.reports(namespace, names, "pending", read=read)
    if len(pods) > len(asked):
        remark(f"Note: of {len(pods) - len(asked)} pods that are not at rest, the steps under way are not shown")
    return found
