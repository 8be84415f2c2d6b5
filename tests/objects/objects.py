"""Short constructors of ConfigMaps, Secrets and references."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from syncpod.objects import ObjectRef, ObjectStore
from syncpod.pod import ConfigMap, Secret, parse_config_map, parse_secret


def config_map(name: str = "a", namespace: str = "", **fields: Any) -> ConfigMap:
    return parse_config_map({"metadata": {"name": name, "namespace": namespace}, **fields})


def secret(name: str = "a", namespace: str = "", **fields: Any) -> Secret:
    return parse_secret({"metadata": {"name": name, "namespace": namespace}, **fields})


def ref(kind: str = "ConfigMap", name: str = "a", namespace: str = "default") -> ObjectRef:
    return ObjectRef("Secret" if kind == "Secret" else "ConfigMap", namespace, name)


def store_in(directory: Path) -> ObjectStore:
    return ObjectStore(directory / "state", directory / "memory")
