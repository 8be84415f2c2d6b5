"""The API's table of routes: the handler of each path, and the error for any other path."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from syncpod.api import discovery, events, node, pods
from syncpod.api.client import OURS, Reply
from syncpod.api.lists import whole
from syncpod.api.messages import JSON, Answer, Request, warnings_in
from syncpod.api.source import PodSource
from syncpod.api.statuses import ApiError

A = TypeVar("A")
"""The type of the answers of a table's handlers."""

_REPORT: Final = f"{OURS}/namespaces/{{namespace}}/podreports/{{name}}"


@dataclass(frozen=True)
class Route(Generic[A]):
    """The handler of a method and a path, which may have variables in braces."""

    method: str
    path: str
    handle: Callable[..., Awaitable[A]]
    """Called with the request and the values of the path's variables. This API's handlers get the source first."""
    answers: str
    """The kinds of the objects in its answers."""
    fixed: tuple[Any, ...] = ()
    """The handler's arguments for variables that the path does not have."""

    @property
    def pattern(self) -> re.Pattern[str]:
        """The pattern that matches a request's path; its groups are the values of the variables."""
        return re.compile(re.sub(r"\\\{\w+\\\}", "([^/]+)", re.escape(self.path)))


ROUTES: Final = (
    Route("GET", "/version", discovery.version, "Info"),
    Route("GET", "/api", discovery.core_versions, "APIVersions"),
    Route("GET", "/apis", discovery.groups, "APIGroupList"),
    Route("GET", "/api/v1", discovery.core_resources, "APIResourceList"),
    Route("GET", OURS, discovery.own_resources, "APIResourceList"),
    Route("GET", "/api/v1/pods", pods.list_pods, "PodList, Table", (None,)),
    Route("GET", "/api/v1/namespaces/{namespace}/pods", pods.list_pods, "PodList, Table"),
    Route("GET", "/api/v1/namespaces/{namespace}/pods/{name}", pods.get_pod, "Pod, Table"),
    Route("GET", "/api/v1/nodes", node.list_nodes, "NodeList, Table"),
    Route("GET", "/api/v1/nodes/{name}", node.get_node, "Node, Table"),
    Route("GET", "/api/v1/events", events.list_events, "EventList, Table", (None,)),
    Route("GET", "/api/v1/namespaces/{namespace}/events", events.list_events, "EventList, Table"),
    Route("GET", f"{OURS}/podreports", pods.list_reports, "PodReportList", (None,)),
    Route("GET", f"{OURS}/namespaces/{{namespace}}/podreports", pods.list_reports, "PodReportList"),
    Route("GET", _REPORT, pods.get_report, "PodReport"),
    Route("POST", f"{_REPORT}/plan", pods.plan_of, "PodReport"),
    Route("GET", f"{OURS}/nodedescriptions", node.list_descriptions, "NodeDescriptionList"),
    Route("GET", f"{OURS}/nodedescriptions/{{name}}", node.get_description, "NodeDescription"),
    Route("GET", f"{OURS}/steps", node.steps, "StepList"),
    Route("POST", f"{OURS}/journal/settle", node.settle_journal, "Status"),
    Route("POST", f"{OURS}/nodereport/refresh", node.refresh_report, "Status"),
)
"""All routes of the API."""
_PATTERNS: Final = tuple((route, route.pattern) for route in ROUTES)

_OF_A_CLUSTER: Final = re.compile(r"/apis?(/.*)?")
"""The paths of a Kubernetes API server."""


async def answer(source: PodSource, asked: Request) -> Answer:
    """Return the answer to a request. An ApiError becomes an answer too."""
    try:
        route, names = _route(asked.method, asked.path)
        return await route.handle(source, asked, *route.fixed, *names)
    except ApiError as error:
        return refusal(error)


async def answer_in_process(
    source: PodSource, path: str, query: Sequence[tuple[str, str]] = (), accept: str = JSON
) -> Reply:
    """Return the answer to a GET from within this process, without a socket. Raises the source's exceptions."""
    parameters: dict[str, list[str]] = {}
    for name, value in query:
        parameters.setdefault(name, []).append(value)
    given = await answer(source, Request("GET", path, parameters, accept))
    body = b"".join([part async for part in given.parts])
    return Reply(given.code, json.loads(body), warnings_in(given.headers.get("Warning", "")))


def matching(
    patterns: Sequence[tuple[Route[A], re.Pattern[str]]], method: str, path: str
) -> tuple[tuple[Route[A], tuple[str, ...]] | None, str]:
    """Return the route of a request with the values of its variables (None = no route), and the path's methods."""
    found = [(route, match.groups()) for route, pattern in patterns if (match := pattern.fullmatch(path))]
    ours = next((each for each in found if each[0].method == method), None)
    return ours, ", ".join(sorted({route.method for route, _ in found}))


def refusal(error: ApiError) -> Answer:
    """Return an error in the form of an answer."""
    return Answer(whole(error.document), error.code, {"Allow": error.allow} if error.allow else {})


def _route(method: str, path: str) -> tuple[Route[Answer], tuple[str, ...]]:
    """Return the route of a request, and the values of its variables. Raises ApiError if there is none."""
    found, allowed = matching(_PATTERNS, method, path)
    if found is not None:
        return found
    if allowed:
        raise ApiError(405, f"{path} has no {method}: it answers {allowed}", allow=allowed)
    if _OF_A_CLUSTER.fullmatch(path):
        raise ApiError(501, f"{path}: this is a node's API; it has pods, their events and nodes, and no such resource")
    raise ApiError(404, f"{path}: there is no such path; /api/v1/pods has the node's pods")
