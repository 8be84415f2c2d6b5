"""Patches of a pod, as ``patch -p`` takes them: strategic merge, JSON merge (RFC 7386), JSON patch (RFC 6902).

A strategic merge treats a Pod's lists by core/v1's patchMergeKey, v1.36: containers are merged by name, mounts by
path. Pure: documents in, documents out.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
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
    for index, operation in enumerate(operations):
        try:
            whole = _done(whole, operation)
        except (KeyError, IndexError, TypeError, ValueError) as wrong:
            why = str(wrong) if type(wrong) is ValueError else "leads nowhere"
            path = operation.get("path", "") if isinstance(operation, Mapping) else ""
            raise ValueError(f"[{index}] {path}: {why}") from None
    return whole


def _done(whole: Any, operation: Mapping[str, Any]) -> Any:
    """Return the document after one operation; it may be changed in place."""
    op, steps = operation["op"], _steps(operation["path"])
    if op == "test":
        if not _is_same(_at(whole, steps), operation["value"]):
            raise ValueError("the test fails: it has another value")
        return whole
    if op in ("move", "copy"):
        value = copy.deepcopy(_at(whole, _steps(operation["from"])))
        whole = _changed(whole, _steps(operation["from"]), _remove) if op == "move" else whole
        return _changed(whole, steps, lambda holder, key: _add(holder, key, value))
    if op == "remove":
        return _changed(whole, steps, _remove)
    if op not in ("add", "replace"):
        raise ValueError(f"op must be add, remove, replace, move, copy or test, not {op}")
    if not steps:
        return operation["value"]
    if op == "replace":
        _at(whole, steps)
        return _changed(whole, steps, lambda holder, key: _replace(holder, key, operation["value"]))
    return _changed(whole, steps, lambda holder, key: _add(holder, key, operation["value"]))


def _is_same(one: Any, other: Any) -> bool:
    """Return whether JSON values are equal (RFC 6902, 4.6): `true` is not 1, as it is in Python."""
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
        whole = whole[int(step)] if isinstance(whole, list) else whole[step]
    return whole


def _changed(whole: Any, steps: Sequence[str], change: Callable[[Any, str], None]) -> Any:
    change(_at(whole, steps[:-1]), steps[-1])
    return whole


def _remove(holder: Any, key: str) -> None:
    del holder[int(key) if isinstance(holder, list) else key]


def _replace(holder: Any, key: str, value: Any) -> None:
    holder[int(key) if isinstance(holder, list) else key] = value


def _add(holder: Any, key: str, value: Any) -> None:
    if not isinstance(holder, list):
        holder[key] = value
    elif key == "-":
        holder.append(value)
    elif 0 <= int(key) <= len(holder):
        holder.insert(int(key), value)
    else:
        raise IndexError(key)
