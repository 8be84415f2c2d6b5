"""Shows what is about to be done for existing pods, as their node's worker or Temporal reports it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from syncpod.api.listed import why_recorded
from syncpod.cli.failure import Failure
from syncpod.cli.input.kubectl_words import no_such_pod
from syncpod.cli.node_api import NodeApi
from syncpod.cli.orphan_notes import without_workflow
from syncpod.cli.view.plans import print_plans
from syncpod.node.orphan_mark import why_orphaned

if TYPE_CHECKING:
    from syncpod.api.client import Reply


def plan_existing(namespace: str, names: Sequence[str], output: str) -> None:
    """Print what is about to be done for pods. Raises Failure if one is missing, is an orphan, or does not answer."""

    def read(_: Reply, reports: Sequence[Mapping[str, Any]]) -> dict[str, tuple[Mapping[str, Any], Any]]:
        return {one["metadata"]["name"]: (one["pod"], one.get("plan")) for one in reports}

    with NodeApi() as api:
        found = api.reports(namespace, names, "pod", "plan", read=read)
    for name in names:
        if name not in found:
            raise Failure(no_such_pod(name, namespace))
        pod, told = found[name]
        if why_orphaned(pod):
            raise Failure(f'pod "{name}" {without_workflow(pod)}')
        if told is None:
            raise Failure(f'pod "{name}" {why_recorded(pod) or "does not answer"}')
    print_plans([{"pod": name, "change": "none", **found[name][1]} for name in names], output)
