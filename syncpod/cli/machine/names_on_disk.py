"""Names for completion and notes, read from this node's disk: no server is queried, and no slow library is loaded.

A node keeps a record of each pod beside the pod's volumes (`syncpod.node.pod_records`), and its ConfigMaps and Secrets
as files (`syncpod.objects.store`). Here they are read as plain JSON; unreadable ones are skipped.
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
    """Return the sorted names of the node's pods in a namespace (None = any) that have a workflow."""
    orphan = {one["uid"] for one in _orphans()}
    there = [pod for pod in _pods() if namespace in (None, _meta(pod)["namespace"]) and _meta(pod)["uid"] not in orphan]
    return sorted({_meta(pod)["name"] for pod in there})


def orphans(namespace: str | None) -> list[str]:
    """Return the sorted names of the pods in a namespace (None = any) that the node's report calls orphans."""
    return sorted({one["name"] for one in _orphans() if namespace in (None, one["namespace"])})


def containers(namespace: str, pod: str) -> list[str]:
    """Return the names of a pod's containers: init, normal, ephemeral."""
    for each in _pods():
        if (_meta(each)["namespace"], _meta(each)["name"]) == (namespace, pod):
            return [one["name"] for kind in _KINDS for one in each.get("spec", {}).get(kind, ())]
    return []


def namespaces() -> list[str]:
    """Return the namespaces in which the node has pods, and ``default``."""
    return sorted({"default", *(_meta(pod)["namespace"] for pod in _pods())})


def nodes() -> list[str]:
    """Return the name of this node, if it has state; the disk has no names of other nodes."""
    said = _read(node_settings(os.environ).state_dir / "node.json") or {}
    return [said["node"]] if isinstance(said.get("node"), str) else []


def objects(kind: str, namespace: str) -> list[str]:
    """Return the sorted names of the node's ConfigMaps or Secrets in a namespace."""
    settings = node_settings(os.environ)
    root = settings.memory_dir / "objects/secrets" if kind == "Secret" else settings.state_dir / "objects/configmaps"
    found = (_read(path) for path in (root / namespace).glob("*.json"))
    return sorted(_meta(each)["name"] for each in found if each is not None)


def pods_of_fleet(state_dir: Path) -> tuple[str, list[str]]:
    """Return the fleet that has given the node a list of pods, and which of these pods are on the node.

    `syncpod.agent.fleet.kept_intent` keeps the list. The fleet is "" if there is none. The pods are sorted, each as
    ``namespace/name``.
    """
    kept = _read(state_dir / "fleet-intent.json") or {}
    pods = kept.get("pods")
    told = {_key(each) for each in pods if isinstance(each, dict)} if isinstance(pods, list) else set()
    return str(kept.get("fleet", "")), sorted(told & {_key(each) for each in _pods(state_dir)})


def _key(pod: dict[str, Any]) -> str:
    return f"{_meta(pod)['namespace']}/{_meta(pod)['name']}"


def _pods(state_dir: Path | None = None) -> Iterator[dict[str, Any]]:
    """Yield the pods that a node has recorded in `state_dir`; None = the directory in the environment."""
    directory = (state_dir or node_settings(os.environ).state_dir) / "pods"
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
