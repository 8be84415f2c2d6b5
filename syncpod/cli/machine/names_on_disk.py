"""Names for completion, read off this node's disk: no server is asked, and no library loaded that takes time.

A node keeps each pod that it has synced beside the pod's volumes (`syncpod.node.pod_records`), and its ConfigMaps and
Secrets as files (`syncpod.objects.store`); here they are read as plain JSON, by whoever may read them. What cannot be
read is passed over.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from syncpod.settings.node import node_settings

_KINDS = ("initContainers", "containers", "ephemeralContainers")


def pods(namespace: str | None) -> list[str]:
    """Return the names of the node's pods in a namespace (None = in any), in order: of those with a workflow."""
    stray = {one["uid"] for one in _orphans()}
    there = [pod for pod in _pods() if namespace in (None, _meta(pod)["namespace"]) and _meta(pod)["uid"] not in stray]
    return sorted({_meta(pod)["name"] for pod in there})


def orphans(namespace: str | None) -> list[str]:
    """Return the names of the pods in a namespace (None = in any) of which the node says that nobody asks for them."""
    return sorted({one["name"] for one in _orphans() if namespace in (None, one["namespace"])})


def containers(namespace: str, pod: str) -> list[str]:
    """Return the names of a pod's containers: init, normal, ephemeral."""
    for each in _pods():
        if (_meta(each)["namespace"], _meta(each)["name"]) == (namespace, pod):
            return [one["name"] for kind in _KINDS for one in each.get("spec", {}).get(kind, ())]
    return []


def namespaces() -> list[str]:
    """Return the namespaces in which the node has pods, and the one that is meant when none is named."""
    return sorted({"default", *(_meta(pod)["namespace"] for pod in _pods())})


def nodes() -> list[str]:
    """Return the name of the node whose state this is, if there is one: of others its disk knows nothing."""
    said = _read(node_settings(os.environ).state_dir / "node.json") or {}
    return [said["node"]] if isinstance(said.get("node"), str) else []


def objects(kind: str, namespace: str) -> list[str]:
    """Return the names of the node's ConfigMaps or Secrets in a namespace, in order."""
    settings = node_settings(os.environ)
    root = settings.memory_dir / "objects/secrets" if kind == "Secret" else settings.state_dir / "objects/configmaps"
    found = (_read(path) for path in (root / namespace).glob("*.json"))
    return sorted(_meta(each)["name"] for each in found if each is not None)


def _pods() -> Iterator[dict[str, Any]]:
    directory = node_settings(os.environ).state_dir / "pods"
    for path in sorted(directory.glob("*/pod.json")):
        record = _read(path)
        if record is not None and isinstance(record.get("pod"), dict):
            yield record["pod"]


def _orphans() -> list[dict[str, str]]:
    """Return name, namespace and UID of each pod that the node's report (`syncpod.node.report`) calls an orphan."""
    report = _read(node_settings(os.environ).state_dir / "node-report.json") or {}
    pods = [one for one in report.get("orphans", ()) if one.get("kind") == "pod"]
    return [{field: str(one.get(field, "")) for field in ("name", "namespace", "uid")} for one in pods]


def _meta(document: dict[str, Any]) -> dict[str, str]:
    meta = document.get("metadata", {})
    read = {field: str(meta.get(field, "")) for field in ("name", "namespace", "uid")}
    return {**read, "namespace": read["namespace"] or "default"}


def _read(path: Path) -> dict[str, Any] | None:
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return document if isinstance(document, dict) else None
