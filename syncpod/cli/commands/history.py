"""``syncpod history``: what was decided and done for a pod, and why."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from syncpod.api.client import Reply
from syncpod.cli.console import program, remark, say
from syncpod.cli.failure import Failure
from syncpod.cli.input.arguments import pod_name, require_json
from syncpod.cli.input.kubectl_words import no_such_pod
from syncpod.cli.input.options import Namespace, NoHeaders, OnlyJson, PodNames
from syncpod.cli.node_api import NodeApi
from syncpod.cli.orphan_notes import note_orphans
from syncpod.cli.view.history_lines import lines
from syncpod.node.orphan_mark import why_orphaned

if TYPE_CHECKING:
    from syncpod.journal.records import HistoryEntry

    _Told = tuple[list[dict[str, Any]], Sequence[HistoryEntry], bool, Mapping[str, Any] | None]
    """The history as JSON, its records, whether it has only Temporal's events, and the pod; None = the pod is gone."""


def history(
    what: PodNames = None,
    namespace: Namespace = "default",
    output: OnlyJson = "",
    no_headers: NoHeaders = False,
) -> None:
    """Show each decision, step, signal and exit of a pod.

    A step is listed at the time when it began, before its effects. Pods that have ended are shown too. Once Temporal
    has removed a pod's history, the last life of the pod is shown from this machine's journal.
    """
    name = pod_name(what or [])
    require_json(output)

    from syncpod.cli.actions.history import end_of_workflow, journaled_history, read_entries, written_history

    def read(reply: Reply, reports: Sequence[Mapping[str, Any]]) -> _Told | None:
        if not reports:
            return None
        told, pod = reports[0]["history"], reports[0]["pod"]
        return told, read_entries(told), "recorded" in reports[0], pod

    with NodeApi() as api:
        told = api.reports(namespace, [name], "pod", "history", query=[("ended", "true")], read=read)
        if told is None:
            kept = journaled_history(api.server, namespace, name)
            if kept is None:
                raise Failure(no_such_pod(name, namespace))
            told = *written_history(kept), False, None
    documents, records, is_of_events, pod = told
    if pod is not None and why_orphaned(pod):
        note_orphans([pod])
        documents, records = written_history([*records, *end_of_workflow(namespace, name)])
    if is_of_events:
        remark(
            "Note: the pod does not answer; this is what Temporal recorded of its last run, without exits and decisions"
        )
    if any(each.subject == "adopt" and each.kind == "update" for each in records):
        earlier = shlex.join((program(), "explain", name, *(() if namespace == "default" else ("-n", namespace))))
        remark(f"Note: `{earlier}` shows what happened before the pod was adopted")
    if output == "json":
        say(json.dumps(documents, indent=4))
    else:
        say("\n".join(lines(records, headers=not no_headers)))
