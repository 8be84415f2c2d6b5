"""The pods that the fleet is asked for: each node's own, and Deployments. Their containers note everything they do."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from qa.chaos import witness

SECRET: Final = "planted-in-the-env-of-a-pod"
"""A value in the specs that must not be readable without the fleet's keys."""
COMMAND: Final = f"{witness.PLACE}/witness"
ROLLED, GUARDED = "web", "keep"
"""The names of the Deployment that is rolled out, and of the one that may never have too many copies (`stop-after`)."""
STOP_AFTER: Final = 120
NOWHERE: Final = "registry.invalid/planted/nothing:9"
"""An image that no node can pull."""


@dataclass(frozen=True)
class Wanted:
    """The numbers of pods to ask for."""

    nodes: tuple[str, ...]
    each: int
    """Pods with a `nodeName`, for each node."""
    rolled: int
    """Copies of the Deployment that is rolled out."""
    guarded: int
    """Copies of the Deployment that a cut-off node stops."""

    @classmethod
    def of(cls, pods: int, nodes: tuple[str, ...]) -> Wanted:
        """Divide a number of pods: about two thirds are bound to nodes; the others are copies of Deployments."""
        rolled, guarded = max(3, pods // 5), max(2, pods // 12)
        each = max(2, (pods - rolled - guarded) // len(nodes))
        return cls(nodes, each, max(rolled, pods - len(nodes) * each - guarded), guarded)

    @property
    def pods(self) -> int:
        return len(self.nodes) * self.each + self.rolled + self.guarded

    def own(self, node: str) -> tuple[str, ...]:
        """The names of a node's own pods."""
        return tuple(f"{_kind(number)}-{number}-{node}" for number in range(self.each))


def _kind(number: int) -> str:
    """The first word of a pod's name: one of four pods loops in failure, and one of four has an init container."""
    return ("serves", "loops", "begins", "serves")[number % 4]


def own_pods(wanted: Wanted, node: str, directory: Path) -> str:
    """The manifests of a node's own pods."""
    documents = [own_pod(name, number, node, directory) for number, name in enumerate(wanted.own(node))]
    return "\n---\n".join(map(json.dumps, documents))


def own_pod(name: str, number: int, node: str, directory: Path) -> dict[str, Any]:
    """The manifest of one pod for one node; pods with odd numbers have a network of their own."""
    spec = _spec(directory, _main("web")) | {"nodeName": node, "hostNetwork": number % 2 == 0}
    if name.startswith("loops"):
        spec["containers"].append(_main("fails", "for=1000", "code=3"))
    if name.startswith("begins"):
        spec["initContainers"] = [_main("first", "for=300")]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def rolled(wanted: Wanted, version: int, directory: Path, *, image: str = "") -> str:
    """The manifest of the Deployment that is rolled out; its container is called `v1`, `v2` and so on by version."""
    spec = _spec(directory, _main(f"v{version}") | ({"image": image, "imagePullPolicy": "Always"} if image else {}))
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge(wanted), "maxUnavailable": surge(wanted)}}
    more = {"strategy": strategy, "progressDeadlineSeconds": 3600}
    return json.dumps(_deployment(ROLLED, wanted.rolled, spec | {"hostNetwork": True}, **more))


def surge(wanted: Wanted) -> int:
    """The most additional copies, and the most missing ones, during a rollout."""
    return max(1, wanted.rolled // 10)


def guarded(wanted: Wanted, directory: Path) -> str:
    """The manifest of the Deployment whose copies a node stops when it has not heard from its fleet for a time."""
    document = _deployment(GUARDED, wanted.guarded, _spec(directory, _main("web")))
    document["metadata"]["annotations"] = {"syncpod.dev/when-lost": f"stop-after={STOP_AFTER}s"}
    return json.dumps(document)


def _deployment(name: str, replicas: int, spec: dict[str, Any], **more: Any) -> dict[str, Any]:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": spec}
    wish = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template, **more}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": wish}


def _spec(directory: Path, container: dict[str, Any]) -> dict[str, Any]:
    return {
        "terminationGracePeriodSeconds": 5,
        "containers": [container],
        "volumes": witness.volumes(directory),
    }


def _main(name: str, *options: str) -> dict[str, Any]:
    """A container that notes its pod and node, as the UID of each line: ``uid@node``."""

    def field(name: str, path: str) -> dict[str, Any]:
        return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}

    found = witness.container("$(POD_NAME)", name, *options)
    found["env"] = [
        field("POD_NAME", "metadata.name"),
        field("UID_OF_POD", "metadata.uid"),
        field("NODE_NAME", "spec.nodeName"),
        {"name": "POD_UID", "value": "$(UID_OF_POD)@$(NODE_NAME)"},
        {"name": "PLANTED_ENV", "value": SECRET},
    ]
    return found
