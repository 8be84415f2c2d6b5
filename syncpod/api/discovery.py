"""Handlers for discovery, the first requests of a Kubernetes client: versions, groups and resources of the API."""

from __future__ import annotations

from typing import Any, Final

from syncpod.api.lists import whole
from syncpod.api.messages import Answer, Request
from syncpod.api.source import PodSource

_OURS: Final = "syncpod.dev"
_READ: Final = ["get", "list"]


async def version(source: PodSource, asked: Request) -> Answer:
    """Answer with the version of Kubernetes whose kubelet's decisions this node mirrors."""
    from importlib.metadata import version as version_of

    empty = dict.fromkeys(("gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler", "platform"), "")
    ours = {"major": "1", "minor": "36", "gitVersion": f"v1.36.0+syncpod.{version_of('syncpod')}"}
    return Answer(whole(ours | empty))


async def core_versions(source: PodSource, asked: Request) -> Answer:
    """Answer with the versions of the core group."""
    return Answer(whole({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}))


async def groups(source: PodSource, asked: Request) -> Answer:
    """Answer with the groups of the API."""
    ours = {"groupVersion": f"{_OURS}/v1", "version": "v1"}
    group = {"name": _OURS, "versions": [ours], "preferredVersion": ours}
    return Answer(whole({"kind": "APIGroupList", "apiVersion": "v1", "groups": [group]}))


async def core_resources(source: PodSource, asked: Request) -> Answer:
    """Answer with the resources of the core group."""
    resources = [
        _resource("pods", "Pod", _READ, short="po"),
        _resource("nodes", "Node", _READ, short="no", namespaced=False),
        _resource("events", "Event", ["list"], short="ev"),
    ]
    return Answer(whole(_list("v1", resources)))


async def own_resources(source: PodSource, asked: Request) -> Answer:
    """Answer with the resources of syncpod's own group, which Kubernetes does not have."""
    resources = [
        _resource("podreports", "PodReport", _READ),
        _resource("nodedescriptions", "NodeDescription", _READ, namespaced=False),
        _resource("steps", "Step", ["list"], namespaced=False),
    ]
    return Answer(whole(_list(f"{_OURS}/v1", resources)))


def _list(group: str, resources: list[dict[str, Any]]) -> dict[str, Any]:
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group, "resources": resources}


def _resource(name: str, kind: str, verbs: list[str], *, short: str = "", namespaced: bool = True) -> dict[str, Any]:
    resource = {
        **{"name": name, "singularName": kind.lower(), "kind": kind},
        **{"namespaced": namespaced, "verbs": verbs},
    }
    return resource | ({"shortNames": [short]} if short else {})
