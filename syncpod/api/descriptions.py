"""Makes descriptions of pods and nodes, as ``kubectl describe`` prints them.

The worker renders them, since it has loaded the models: the command need not load them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from syncpod.api.source import CannotSay, SourcePod
from syncpod.api.views.node_description import describe as describe_node
from syncpod.api.views.pod_description import Facts, HoldLine, describe, describe_recorded
from syncpod.journal.records import EventRecord
from syncpod.messages.identity import pod_workflow_id
from syncpod.messages.queries import read_events
from syncpod.messages.running_steps import PendingStep
from syncpod.node.orphan_mark import ANNOTATION, why_orphaned
from syncpod.pod import Pod

if TYPE_CHECKING:
    from syncpod.api.listed import ListedPod
    from syncpod.api.listed_node import ListedNode


def description(one: SourcePod, pending: Sequence[PendingStep], pages: str) -> Mapping[str, Any]:
    """Return a pod's PodDescription, with its lines. `pages` is the URL of Temporal's UI, "" = not known."""
    document = one.reads.pod()
    pod = Pod.model_validate(document)
    events: tuple[EventRecord, ...] | None = None
    plan: Mapping[str, Any] = {}
    with contextlib.suppress(CannotSay):  # the workflow did not answer
        events = tuple(read_events(one.reads.events()))
        plan = one.reads.plan()
    facts = _facts(pod, one.run, pages, events, plan, pending)
    annotations = {ANNOTATION: why} if (why := why_orphaned(document)) else {}
    lines = describe if one.recorded is None or pod.spec.containers else describe_recorded
    return {
        "kind": "PodDescription",
        "apiVersion": "syncpod.dev/v1",
        "metadata": {"namespace": one.namespace, "name": one.name, "annotations": annotations},
        "lines": lines(pod, facts, datetime.now(UTC)),
    }


def node_description(node: ListedNode, pods: Sequence[ListedPod]) -> Mapping[str, Any]:
    """Return a node's NodeDescription, with its lines; `pods` are those on the node."""
    return {
        "kind": "NodeDescription",
        "apiVersion": "syncpod.dev/v1",
        "metadata": {"name": node.name},
        "lines": describe_node(node, pods, datetime.now(UTC)),
    }


def _facts(
    pod: Pod,
    run: str,
    pages: str,
    events: tuple[EventRecord, ...] | None,
    plan: Mapping[str, Any],
    pending: Sequence[PendingStep],
) -> Facts:
    """Return the facts about a pod's workflow that its description has. `events` None = the workflow did not answer.

    `pages` is the URL of Temporal's UI, "" = not known.
    """
    workflow_id = pod_workflow_id(pod.metadata.namespace, pod.metadata.name)
    return Facts(
        workflow_id=workflow_id,
        run_id=run,
        ui=f"{pages}/{quote(workflow_id, safe='')}/{run}/timeline" if pages else "",
        events=events,
        pending=tuple(pending),
        holds=tuple(map(_hold, plan.get("holds", ()))),
    )


def _hold(said: Mapping[str, Any]) -> HoldLine:
    until = datetime.fromisoformat(said["until"]) if said.get("until") else None
    return HoldLine(said.get("subject", ""), said.get("reason", ""), until)
