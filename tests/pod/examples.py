"""The base pod of the tests, and manifests of it."""

import copy
import re
from pathlib import Path
from typing import Any

from syncpod.pod import parse_pod, validate_pod, with_defaults

MANIFESTS = Path(__file__).parent / "manifests"

_BASE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web"},
    "spec": {
        "initContainers": [{"name": "setup", "image": "registry.local/setup:1"}],
        "containers": [
            {"name": "server", "image": "registry.local/server:1"},
            {"name": "log", "image": "registry.local/log:1"},
        ],
        "volumes": [{"name": "work", "emptyDir": {}}],
    },
}


def manifest(name: str) -> bytes:
    """Return one of the manifests."""
    return (MANIFESTS / name).read_bytes()


def pod(**changes: Any) -> dict[str, Any]:
    """Return the base pod with values by path, with `__` between the steps: spec__containers__0__image="x"."""
    return changed({path.replace("__", "."): value for path, value in changes.items()})


def changed(changes: dict[str, Any], base: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the base pod with these values by path, such as `spec.containers.0.image`."""
    document = copy.deepcopy(_BASE if base is None else base)
    for path, value in changes.items():
        *steps, last = re.split(r"\.(?![^\[]*\])", path)
        holder: Any = document
        for step in steps:
            holder = holder[int(step)] if step.isdecimal() else holder.setdefault(step, {})
        if last.isdecimal():
            holder[int(last)] = value
        else:
            holder[last] = value
    return document


def problems(changes: dict[str, Any]) -> list[str]:
    """Return the errors of the base pod with these changes and with defaults."""
    return [str(problem) for problem in validate_pod(with_defaults(parse_pod(changed(changes))))]
