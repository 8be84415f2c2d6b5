"""The handler for descriptions of pods, as ``kubectl describe`` prints them: rendered where the models are loaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from syncpod.api.lists import rendered_alone
from syncpod.api.messages import Answer, Request
from syncpod.api.pods import one_pod
from syncpod.api.source import PodSource, Told
from syncpod.api.views.pod_description import Facts, Hold, describe
from syncpod.journal.records import EventRecord
from syncpod.messages.identity import pod_workflow_id
from syncpod.messages.queries import read_events
from syncpod.messages.running_steps import PendingStep
from syncpod.node.orphan_mark import ANNOTATION, why_orphaned
from syncpod.pod import Pod


async def describe_pod(source: PodSource, asked: Request, namespace: str, name: str) -> Answer:
    """Answer a PodDescription: lines. `workflows` is the page of workflows in Temporal's UI, if the client knows it."""
    one = await one_pod(source, asked, namespace, name)
    pending = await source.pending_steps(one)
    return Answer(rendered_alone(lambda: _description(one, pending, asked.one("workflows"))))


def _description(one: Told, pending: Sequence[PendingStep], pages: str) -> Mapping[str, Any]:
    document = one.reads.pod()
    pod = Pod.model_validate(document)
    events = tuple(read_events(one.reads.events()))
    facts = facts_of(pod, one.run, pages, events, one.reads.plan(), pending)
    annotations = {ANNOTATION: why} if (why := why_orphaned(document)) else {}
    return {
        "kind": "PodDescription",
        "apiVersion": "syncpod.dev/v1",
        "metadata": {"namespace": one.namespace, "name": one.name, "annotations": annotations},
        "lines": describe(pod, facts, datetime.now(UTC)),
    }


def facts_of(
    pod: Pod,
    run: str,
    pages: str,
    events: tuple[EventRecord, ...] | None,
    plan: Mapping[str, Any],
    pending: Sequence[PendingStep],
) -> Facts:
    """Return what is described of a pod's workflow besides the pod; `events` None = it has not answered.

    `pages` is where Temporal's UI has the pages of workflows; "" = not known.
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


def _hold(said: Mapping[str, Any]) -> Hold:
    until = datetime.fromisoformat(said["until"]) if said.get("until") else None
    return Hold(said.get("subject", ""), said.get("reason", ""), until)
