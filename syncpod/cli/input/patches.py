"""Patches of a pod, as ``patch -p`` takes them: strategic merge, JSON merge (RFC 7386), JSON patch (RFC 6902).

A strategic merge treats a Pod's lists by core/v1's patchMergeKey, v1.36: containers are merged by name, mounts by path.
A JSON patch is applied as Kubernetes' library does it (evanphx/json-patch, v4). Python's library, jsonpatch, has no
negative indices, passes no test for null of a field that is missing, and names neither the operation nor the path in
its errors. Using jsonpatch with these additions would take two further packages, and no less code than here. Pure:
documents in, documents out.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

_KEYS: Final[Mapping[str, str]] = {
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "volumes": "name",
    "env": "name",
    "imagePullSecrets": "name",
    "resourceClaims": "name",
    "schedulingGates": "name",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "ports": "containerPort",
    "hostAliases": "ip",
    "topologySpreadConstraints": "topologyKey",
    "conditions": "type",
}
"""The field that identifies an element, by the name of each list that is merged. Other lists are replaced."""

_REQUIRED: Final[Mapping[str, Sequence[str]]] = {
    "add": ("path", "value"),
    "replace": ("path", "value"),
    "test": ("path", "value"),
    "remove": ("path",),
    "move": ("path", "from"),
    "copy": ("path", "from"),
}
"""The fields that an operation of a JSON patch needs, by its `op`."""
_INDEX: Final = re.compile(r"[+-]?[0-9]{1,9}")


def merged(document: Any, patch: Any) -> Any:
    """Return a document with a JSON merge patch applied: null removes, lists are replaced."""
    if not isinstance(patch, Mapping):
        return copy.deepcopy(patch)
    whole = dict(document) if isinstance(document, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            whole.pop(key, None)
        else:
            whole[key] = merged(whole.get(key), value)
    return whole


def strategically_merged(document: Any, patch: Any, path: str = "") -> Any:
    """Return a document with a strategic merge patch applied; ``$patch: delete`` and ``replace`` are obeyed.

    Raises ValueError for another directive, and for an element without its key.
    """
    if not isinstance(patch, Mapping):
        return copy.deepcopy(patch)
    directive = patch.get("$patch", "merge")
    if wrong := [key for key in patch if key.startswith("$") and key != "$patch"]:
        raise ValueError(f"{path}{wrong[0]}: is not supported here: use --type json for that")
    if directive not in ("merge", "replace"):
        raise ValueError(f"{path}$patch: must be merge, replace, or in a list delete, not {directive}")
    whole = dict(document) if isinstance(document, Mapping) and directive == "merge" else {}
    for key, value in patch.items():
        if key == "$patch":
            continue
        if value is None:
            whole.pop(key, None)
        elif isinstance(value, list) and key in _KEYS:
            whole[key] = _merged_list(whole.get(key) or [], value, _KEYS[key], f"{path}{key}")
        else:
            whole[key] = strategically_merged(whole.get(key), value, f"{path}{key}.")
    return whole


def _merged_list(known: Sequence[Any], patches: Sequence[Any], key: str, path: str) -> list[Any]:
    """Return a list with each patch merged into the element with its key, or added at the end."""
    found = list(known)
    for index, patch in enumerate(patches):
        here = f"{path}[{index}]"
        if not isinstance(patch, Mapping) or (key not in patch and patch.get("$patch") != "replace"):
            raise ValueError(f"{here}.{key}: required, to tell which one is meant")
        if patch.get("$patch") == "replace" and key not in patch:
            return [each for each in patches if "$patch" not in each]
        at = next((at for at, one in enumerate(found) if isinstance(one, Mapping) and one.get(key) == patch[key]), None)
        if patch.get("$patch") == "delete":
            found = [one for place, one in enumerate(found) if place != at]
        elif at is None:
            found.append(strategically_merged({}, patch, f"{here}."))
        else:
            found[at] = strategically_merged(found[at], patch, f"{here}.")
    return found


def patched(document: Any, operations: Any) -> Any:
    """Return a document with a JSON patch applied. Raises ValueError that names the operation which fails."""
    if not isinstance(operations, list):
        raise ValueError("a JSON patch is a list of operations")
    whole = copy.deepcopy(document)
    for number, operation in enumerate(operations):
        path = operation.get("path", "") if isinstance(operation, Mapping) else ""
        try:
            _require_whole(operation)
            whole = _done(whole, copy.deepcopy(operation))
        except (KeyError, IndexError, TypeError, ValueError) as wrong:
            why = str(wrong) if type(wrong) is ValueError else "leads nowhere"
            raise ValueError(f"[{number}] {path}: {why}") from None
    return whole


def _require_whole(operation: Any) -> None:
    """Raise ValueError for a value that is no operation, or lacks one of its fields."""
    if not isinstance(operation, Mapping):
        raise ValueError("must be an object with op and path")
    needed = _REQUIRED.get(str(operation.get("op")))
    if needed is None:
        raise ValueError(f"op must be add, remove, replace, move, copy or test, not {operation.get('op')}")
    for field in needed:
        if field not in operation:
            raise ValueError(f"{field} is required")
        if field != "value" and not isinstance(operation[field], str):
            raise ValueError(f"{field} must be a string")


def _done(whole: Any, operation: Mapping[str, Any]) -> Any:
    """Return the document after one operation; it may be changed in place."""
    op, steps = operation["op"], _steps(operation["path"])
    if op == "test":
        if not _is_same(_tested(whole, steps), operation["value"]):
            raise ValueError("the test fails: it has another value")
        return whole
    if op == "remove":
        return _without(whole, steps)
    if op in ("move", "copy"):
        source = _steps(operation["from"])
        value = copy.deepcopy(_at(whole, source))
        return _with(_without(whole, source) if op == "move" else whole, steps, value)
    if op == "replace":
        _at(whole, steps)
        return _with(whole, steps, operation["value"], instead=True)
    return _with(whole, steps, operation["value"])


def _tested(whole: Any, steps: Sequence[str]) -> Any:
    """Return the value to test; None for a field that its object does not have, as in Kubernetes' library."""
    holder = _at(whole, steps[:-1])
    return holder.get(steps[-1]) if steps and isinstance(holder, dict) else _at(whole, steps)


def _is_same(one: Any, other: Any) -> bool:
    """Return whether JSON values are equal (RFC 6902, 4.6): `true` is not 1, unlike in Python."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_is_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_is_same, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def _steps(pointer: str) -> list[str]:
    """Return the steps of a JSON pointer (RFC 6901)."""
    if pointer and not pointer.startswith("/"):
        raise ValueError("a path begins with /")
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]


def _at(whole: Any, steps: Sequence[str]) -> Any:
    for step in steps:
        whole = whole[_place(whole, len(whole), step) if isinstance(whole, list) else step]
    return whole


def _place(holder: Sequence[Any], size: int, step: str) -> int:
    """Return the index that a step names among `size` places of a list; -1 is the last one, as in Kubernetes."""
    if _INDEX.fullmatch(step) is None:
        raise ValueError(f"{step} is no index of a list")
    if not -size <= (index := int(step)) < size:
        raise ValueError(f"the list has only {len(holder)} elements")
    return index % size


def _without(whole: Any, steps: Sequence[str]) -> Any:
    holder, step = _at(whole, steps[:-1]), steps[-1]
    del holder[_place(holder, len(holder), step) if isinstance(holder, list) else step]
    return whole


def _with(whole: Any, steps: Sequence[str], value: Any, *, instead: bool = False) -> Any:
    """Return the document with a value in a place. In a list it is inserted, or replaces the element (`instead`)."""
    if not steps:
        return value
    holder, step = _at(whole, steps[:-1]), steps[-1]
    if not isinstance(holder, list):
        holder[step] = value
    elif instead:
        holder[_place(holder, len(holder), step)] = value
    else:
        holder.insert(len(holder) if step == "-" else _place(holder, len(holder) + 1, step), value)
    return whole
