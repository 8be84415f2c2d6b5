"""Handlers for pods: lists, tables, single pods, and reports, which have more of a pod than Kubernetes' API."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from syncpod.api.field_selector import OF_PODS, FieldSelector, parse_field_selector
from syncpod.api.label_selector import Selector, parse_selector
from syncpod.api.listed import NOTHING_RECORDED, ListedPod
from syncpod.api.lists import rendered, rendered_alone
from syncpod.api.messages import Answer, Request
from syncpod.api.source import PARTS, PodSource, Told
from syncpod.api.statuses import ApiError, no_such_pod
from syncpod.api.views.pod_columns import HEADER, WIDE
from syncpod.api.views.tables import column_definitions, pod_row

KNOWN_AT_ONCE: Final = "0"
"""The `resourceVersion` with which Kubernetes answers from memory: any state will do, if it comes at once."""


async def list_pods(source: PodSource, asked: Request, namespace: str | None) -> Answer:
    """Answer a PodList, or a Table: in a table, some rows may be as the server recorded them last."""
    labels, fields = _selectors(asked)
    told = await _told(source, asked, namespace, recorded=asked.wants_table and not fields.fields)
    now, is_whole = datetime.now(UTC), asked.one("includeObject") == "Object"

    def documents(one: Told) -> Iterator[ListedPod]:
        pod = _listed(one)
        if labels.matches(pod.labels) and fields.matches(pod.document):
            yield pod

    if not asked.wants_table:
        head: dict[str, Any] = {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": ""}}
        return Answer(rendered(head, "items", told, lambda one: (each.document for each in documents(one))))
    head = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": ""}}
    head["columnDefinitions"] = column_definitions((*HEADER, *WIDE), hidden=WIDE)
    return Answer(
        rendered(head, "rows", told, lambda one: (pod_row(each, now, whole=is_whole) for each in documents(one)))
    )


async def get_pod(source: PodSource, asked: Request, namespace: str, name: str) -> Answer:
    """Answer a Pod, or a Table of one row."""
    one = await one_pod(source, asked, namespace, name)
    if not asked.wants_table:
        return Answer(rendered_alone(lambda: _listed(one).document))
    only = Request(asked.method, asked.path, {**asked.query, "pod": [name]}, asked.accept)
    return await list_pods(source, only, namespace)


async def list_reports(source: PodSource, asked: Request, namespace: str | None) -> Answer:
    """Answer the PodReports of pods, each with the parts that `include` names."""
    parts = _parts(asked)
    told = await _told(source, asked, namespace)
    head = {"kind": "PodReportList", "apiVersion": "syncpod.dev/v1", "metadata": {}}
    return Answer(rendered(head, "items", told, lambda one: [_report(one, parts)]))


async def get_report(source: PodSource, asked: Request, namespace: str, name: str) -> Answer:
    """Answer the PodReport of one pod."""
    parts = _parts(asked)
    one = await one_pod(source, asked, namespace, name)
    return Answer(rendered_alone(lambda: _report(one, parts)))


async def plan_of(source: PodSource, asked: Request, namespace: str, name: str) -> Answer:
    """Answer what a changed Pod, the body, would have its workflow do. `update` says by which of its updates."""
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
    """Return the parts that a report is to have. Raises ApiError."""
    parts = [part for text in asked.query.get("include", ()) for part in text.split(",") if part]
    if unknown := set(parts) - set(PARTS):
        raise ApiError(400, f"include: must be of {', '.join(PARTS)}, not {', '.join(sorted(unknown))}")
    return parts


async def _told(source: PodSource, asked: Request, namespace: str | None, *, recorded: bool = False) -> Sequence[Told]:
    """Return the pods that a request is about, by namespace and name. Raises CannotSay."""
    names: Collection[str] = asked.query.get("pod", ())
    if names and namespace is None:
        raise ApiError(400, "pod: names are of one namespace; write /namespaces/NAMESPACE/ in the path")
    if asked.one("resourceVersion") == KNOWN_AT_ONCE:
        found = source.known_pods(namespace, names)
    else:
        found = await source.open_pods(namespace, names, recorded=recorded)
    return sorted(found, key=lambda one: one.key)


async def one_pod(source: PodSource, asked: Request, namespace: str, name: str) -> Told:
    """Return the pod that a request is about. Raises ApiError if there is none, and CannotSay."""
    named = Request(asked.method, asked.path, {**asked.query, "pod": [name]})
    for one in await _told(source, named, namespace):
        return one
    raise no_such_pod(name)


def _listed(one: Told) -> ListedPod:
    document = {"apiVersion": "v1", "kind": "Pod"} | one.reads.pod()
    return ListedPod(document, current=one.recorded is None, recorded=one.recorded or NOTHING_RECORDED)


def _metadata(one: Told) -> dict[str, str]:
    return {"namespace": one.namespace, "name": one.name}


def _report(one: Told, parts: Sequence[str]) -> Mapping[str, Any]:
    found = {part: PARTS[part](one.reads) for part in parts}
    return {**_KIND_OF_REPORT, "metadata": _metadata(one), "run": one.run, **found}
