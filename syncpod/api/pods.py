"""Handlers for pods: lists, tables, single pods, and PodReports, which have more about a pod than Kubernetes' API."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, Final

from syncpod.api.descriptions import description
from syncpod.api.field_selector import OF_PODS, FieldSelector, parse_field_selector
from syncpod.api.label_selector import Selector, parse_selector
from syncpod.api.listed import ListedPod
from syncpod.api.lists import rendered, rendered_alone
from syncpod.api.messages import Answer, Request, warning_headers
from syncpod.api.source import PARTS, CannotSay, PodSource, SourcePod
from syncpod.api.statuses import ApiError, not_found
from syncpod.api.views.pod_columns import HEADER, WIDE
from syncpod.api.views.tables import pod_row, table_head
from syncpod.messages.running_steps import PendingStep

_PENDING: Final = "pending"
_DESCRIPTION: Final = "description"
_MADE_OF: Final[Mapping[str, tuple[str, ...]]] = {
    _PENDING: ("under_way",),
    _DESCRIPTION: ("pod", "events", "plan", "under_way"),
}
"""The parts of a report that need a call to the Temporal server: the pending steps, and the lines of ``describe pod``.
Each has the parts of the pod that must be read for it."""


async def list_pods(source: PodSource, asked: Request, namespace: str | None) -> Answer:
    """Answer with a PodList or a Table.

    A table may show the server's last record of a pod whose workflow does not answer.
    """
    labels, fields = _selectors(asked)
    now, is_whole = datetime.now(UTC), asked.one("includeObject") == "Object"
    found = await _requested_pods(
        source, asked, namespace, recorded=asked.wants_table and not is_whole and not fields.fields
    )
    headers = warning_headers(source.why_recorded(found))

    def documents(one: SourcePod) -> Iterator[ListedPod]:
        pod = one.listed
        if labels.matches(pod.labels) and fields.matches(pod.document):
            yield pod

    if not asked.wants_table:
        head: dict[str, Any] = {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": ""}}
        return Answer(
            rendered(head, "items", found, lambda one: (each.document for each in documents(one))), headers=headers
        )
    return Answer(
        rendered(
            table_head(HEADER, WIDE),
            "rows",
            found,
            lambda one: (pod_row(each, now, whole=is_whole) for each in documents(one)),
        ),
        headers=headers,
    )


async def get_pod(source: PodSource, asked: Request, namespace: str, name: str) -> Answer:
    """Answer with a Pod, or a Table of one row."""
    one = await one_pod(source, asked, namespace, name)
    if not asked.wants_table:
        return Answer(rendered_alone(lambda: one.listed.document), headers=warning_headers(source.why_recorded([one])))
    only = Request(asked.method, asked.path, {**asked.query, "pod": [name]}, asked.accept)
    return await list_pods(source, only, namespace)


async def list_reports(source: PodSource, asked: Request, namespace: str | None) -> Answer:
    """Answer with the PodReports of pods, each with the parts that `include` names.

    With `ended`, the named pods are included even if they have ended. With `node`, which may be repeated, only pods of
    these nodes are included. `workflows` is the URL of Temporal's UI for workflows, which descriptions need.
    """
    parts, nodes, (labels, _) = _parts(asked), asked.query.get("node", ()), _selectors(asked)
    if asked.flag("ended"):
        names = asked.query.get("pod", ())
        if namespace is None or not names:
            raise ApiError(400, "ended: is of named pods of one namespace")
        found = await source.last_pods(namespace, names, _read_of(parts))
    else:
        found = await _requested_pods(source, asked, namespace, parts=_read_of(parts), nodes=nodes)
    if labels.requirements:
        found = [one for one in found if labels.matches(one.listed.labels)]
    pending = await _pending(source, found, parts)
    head = {"kind": "PodReportList", "apiVersion": "syncpod.dev/v1", "metadata": {}}
    return Answer(
        rendered(head, "items", found, lambda one: [_report(one, parts, pending, asked.one("workflows"))]),
        headers=warning_headers(source.why_recorded(found)),
    )


async def get_report(source: PodSource, asked: Request, namespace: str, name: str) -> Answer:
    """Answer with the PodReport of one pod."""
    parts = _parts(asked)
    one = await one_pod(source, asked, namespace, name, parts=_read_of(parts))
    pending = await _pending(source, [one], parts)
    return Answer(
        rendered_alone(lambda: _report(one, parts, pending, asked.one("workflows"))),
        headers=warning_headers(source.why_recorded([one])),
    )


async def plan_of(source: PodSource, asked: Request, namespace: str, name: str) -> Answer:
    """Answer with the steps that a pod's workflow would take after its update `update` with the Pod in the body."""
    try:
        candidate = json.loads(asked.body)
    except ValueError as wrong:
        raise ApiError(400, f"the body is no JSON: {wrong}") from None
    one = await one_pod(source, asked, namespace, name)
    update = asked.one("update") or "apply"
    found = {"metadata": _metadata(one), "run": one.run}
    return Answer(rendered_alone(lambda: {**_KIND_OF_REPORT, **found, "plan": one.reads.plan(candidate, update)}))


_KIND_OF_REPORT: Final = {"kind": "PodReport", "apiVersion": "syncpod.dev/v1"}


def _selectors(asked: Request) -> tuple[Selector, FieldSelector]:
    """Return the selectors of a request. Raises ApiError."""
    try:
        return parse_selector(asked.one("labelSelector")), parse_field_selector(asked.one("fieldSelector"), OF_PODS)
    except ValueError as wrong:
        raise ApiError(400, f"{wrong}") from None


def _parts(asked: Request) -> list[str]:
    """Return the parts that a report must have. Raises ApiError."""
    parts = [part for text in asked.query.get("include", ()) for part in text.split(",") if part]
    known = (*PARTS, *_MADE_OF)
    if unknown := set(parts) - set(known):
        raise ApiError(400, f"include: must be of {', '.join(known)}, not {', '.join(sorted(unknown))}")
    return parts


def _read_of(parts: Sequence[str]) -> list[str]:
    """Return the parts of a pod that must be read for these parts of its report."""
    return list(dict.fromkeys(read for part in parts for read in _MADE_OF.get(part, (part,))))


async def _pending(
    source: PodSource, found: Sequence[SourcePod], parts: Collection[str]
) -> Mapping[tuple[str, str], Sequence[PendingStep]]:
    """Return the steps that the server is trying for these pods; {} if `parts` do not need them. Raises CannotSay."""
    if not {_PENDING, _DESCRIPTION}.intersection(parts):
        return {}
    steps = await asyncio.gather(*map(source.pending_steps, found))
    return {one.key: each for one, each in zip(found, steps, strict=True)}


async def _requested_pods(
    source: PodSource,
    asked: Request,
    namespace: str | None,
    *,
    parts: Collection[str] = ("pod",),
    nodes: Collection[str] = (),
    recorded: bool = False,
) -> Sequence[SourcePod]:
    """Return the pods that a request is about, by namespace and name. Raises CannotSay."""
    names: Collection[str] = asked.query.get("pod", ())
    if names and namespace is None:
        raise ApiError(400, "pod: names are of one namespace; write /namespaces/NAMESPACE/ in the path")
    if asked.flag("orphans"):
        found = await source.orphan_pods(namespace, names)
    elif asked.at_once:
        found = source.known_pods(namespace, names)
    else:
        found = await source.open_pods(namespace, names, parts=parts, nodes=nodes, recorded=recorded)
    return sorted(found, key=lambda one: one.key)


async def one_pod(
    source: PodSource, asked: Request, namespace: str, name: str, *, parts: Collection[str] = ("pod",)
) -> SourcePod:
    """Return the pod that a request is about. Raises ApiError if there is none, and CannotSay."""
    named = Request(asked.method, asked.path, {**asked.query, "pod": [name]})
    for one in await _requested_pods(source, named, namespace, parts=parts):
        return one
    raise not_found("pods", name)


async def named_pod(source: PodSource, namespace: str, name: str, missing: str, uid: str = "") -> dict[str, Any]:
    """Return a pod in the last state that its workflow published; with `uid`, only the pod with this UID.

    Raises ApiError, with the text `missing` if there is no such pod, and CannotSay.
    """
    for one in source.known_pods(namespace, [name]) or await source.open_pods(namespace, [name]):
        pod = one.reads.pod()
        if uid in ("", pod["metadata"].get("uid")):
            return pod
    raise ApiError(404, missing)


def _metadata(one: SourcePod) -> dict[str, str]:
    return {"namespace": one.namespace, "name": one.name}


def _step(step: PendingStep) -> dict[str, Any]:
    return {**asdict(step), "since": step.since.isoformat() if step.since is not None else None}


def _report(
    one: SourcePod, parts: Sequence[str], pending: Mapping[tuple[str, str], Sequence[PendingStep]], pages: str
) -> Mapping[str, Any]:
    """Return a report, without the parts that are not known."""
    found: dict[str, Any] = {}
    for part in parts:
        if part == _PENDING:
            found[part] = list(map(_step, pending[one.key]))
        elif part == _DESCRIPTION:
            found[part] = description(one, pending[one.key], pages)
        else:
            with contextlib.suppress(CannotSay):
                found[part] = PARTS[part](one.reads)
    if one.recorded is not None:
        found["recorded"] = asdict(one.recorded)
    return {**_KIND_OF_REPORT, "metadata": _metadata(one), "run": one.run, **found}
