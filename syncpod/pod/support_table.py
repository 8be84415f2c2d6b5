"""A table of each field of a Pod: supported, ignored with a warning, or refused.

It is made from the models and the rules of :mod:`syncpod.pod.support`, so it always agrees with admission.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from enum import Enum
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel

from syncpod.pod.admission import DROPPED
from syncpod.pod.containers import Container, EphemeralContainer
from syncpod.pod.meta import ObjectMeta
from syncpod.pod.spec import PodSpec
from syncpod.pod.support import IN_EVERY_CONTAINER, REFUSED, WITHOUT_EFFECT, Rule
from syncpod.pod.wire import wire_name

SINCE = "0.1.0"
"""The version that supported the first fields; fields of later versions are in `_TAKEN_SINCE`."""

_TAKEN_SINCE: dict[str, str] = {}
"""The version that first supported a field, by path, if it is not :data:`SINCE`."""

_LISTS_OF_CONTAINERS = ("containers", "initContainers", "ephemeralContainers")


class Support(Enum):
    """How admission treats a field."""

    TAKEN = "supported"
    PARTLY = "some values"
    WARNED = "ignored with a warning"
    REFUSED = "refused"


class SupportRow(NamedTuple):
    """One field: its path, its support, a note, and the version that first supported it."""

    path: str
    support: Support
    note: str
    since: str


def rows() -> Iterator[SupportRow]:
    """Yield every field of a Pod's metadata and spec, in the order of the models.

    The three lists of containers appear once, with paths that begin with ``spec.<containers>[]``. A field that is
    refused or ignored as a whole has one row for everything in it.
    """
    yield from _rows(ObjectMeta, "metadata")
    yield from _rows(PodSpec, "spec")
    yield from _rows(Container, IN_EVERY_CONTAINER)
    for name, field in EphemeralContainer.model_fields.items():
        if name not in Container.model_fields:
            yield SupportRow(f"spec.ephemeralContainers[].{field.alias}", Support.TAKEN, "", SINCE)


def rendered() -> str:
    """Return the table as Markdown."""
    lines = ["| field | | since | |", "|---|---|---|---|"]
    for row in rows():
        path = row.path.replace(IN_EVERY_CONTAINER, "spec.containers[]", 1)
        lines.append(f"| `{path}` | {row.support.value} | {row.since} | {row.note} |")
    return "\n".join(lines) + "\n"


def _rows(model: type[BaseModel], path: str) -> Iterator[SupportRow]:
    for name, field in model.model_fields.items():
        here = f"{path}.{field.alias or wire_name(name)}"
        nested, is_list = _nested(field.annotation)
        if is_list:
            here += "[]"
        if path == "spec" and field.alias in _LISTS_OF_CONTAINERS:
            yield SupportRow(here, Support.TAKEN, _of_the_list(str(field.alias)), _since(here))
            continue
        row = _row(here.removesuffix("[]"), here)
        if row.support in (Support.REFUSED, Support.WARNED) or nested is None:
            yield row
        else:
            yield from _rows(nested, here)


def _row(path: str, shown: str) -> SupportRow:
    """Return the row of a field by the rules, whose paths lack the leading `spec.`."""
    if path in DROPPED:
        return SupportRow(shown, Support.WARNED, DROPPED[path], "")
    for rule in REFUSED:
        if _path_of(rule) == path and rule.accepted:
            values = ", ".join(f"`{_written(value)}`" for value in rule.accepted)
            return SupportRow(shown, Support.PARTLY, f"{values}; others are refused", _since(path))
        if _path_of(rule) == path:
            return SupportRow(shown, Support.REFUSED, rule.sentence, "")
    for rule in WITHOUT_EFFECT:
        if _path_of(rule) == path:
            return SupportRow(shown, Support.WARNED, rule.sentence, "")
    return SupportRow(shown, Support.TAKEN, _NOTES.get(path, ""), _since(path))


def _path_of(rule: Rule) -> str:
    return rule.path.replace("<>", IN_EVERY_CONTAINER) if rule.path.startswith("<>") else f"spec.{rule.path}"


def _since(path: str) -> str:
    return _TAKEN_SINCE.get(path, SINCE)


def _of_the_list(name: str) -> str:
    return {
        "containers": "each as below",
        "initContainers": "as `spec.containers`; `restartPolicy: Always` makes a sidecar",
        "ephemeralContainers": "not in a manifest: `syncpod debug` adds them to a running pod; as `spec.containers`, "
        "without ports, resources, probes, hooks and restarts",
    }[name]


_AMOUNTS = (
    "cpu, memory, ephemeral-storage, hugepages-<size>; devices are refused; "
    "cpu and memory may be changed while the pod runs"
)

_NOTES = {
    f"{IN_EVERY_CONTAINER}.resources.limits": _AMOUNTS,
    f"{IN_EVERY_CONTAINER}.resources.requests": _AMOUNTS,
    "spec.overhead": "added to what the pod requests and may use; devices are refused",
    "spec.resources.limits": "cpu, memory and hugepages-<size>, where the node writes cgroups: as root, with the "
    "cgroupfs driver",
    "spec.resources.requests": "cpu, memory and hugepages-<size>",
    f"{IN_EVERY_CONTAINER}.lifecycle.stopSignal": "with `spec.os.name`; a container is not started if its runtime "
    "has no stop signals (containerd before 2.3)",
    "spec.readinessGates[].conditionType": "its condition is set by `syncpod condition POD TYPE=True`, or by a signal",
    "metadata.generateName": "checked; a pod is applied under its `metadata.name`, which is required",
    "spec.serviceAccount": "the old name of `serviceAccountName`",
    "spec.enableServiceLinks": "there are no services here, so neither are there variables of theirs",
    "spec.securityContext.seLinuxChangePolicy": "of effect for persistent volumes alone, as under a kubelet",
    f"{IN_EVERY_CONTAINER}.resizePolicy[].resourceName": "`cpu`, `memory`",
    f"{IN_EVERY_CONTAINER}.resizePolicy[].restartPolicy": "what a resize does to a running container: `NotRequired` "
    "changes it in place, `RestartContainer` restarts the container",
    f"{IN_EVERY_CONTAINER}.volumeMounts[].recursiveReadOnly": "`Enabled` where the runtime announces it",
    "spec.hostUsers": "`true`; a pod with users of its own is refused by the node",
    f"{IN_EVERY_CONTAINER}.securityContext.procMount": "`Unmasked` needs `hostUsers: false`, as under a kubelet",
    f"{IN_EVERY_CONTAINER}.securityContext.appArmorProfile.type": "where the node has AppArmor",
    "spec.securityContext.appArmorProfile.type": "where the node has AppArmor",
    "spec.securityContext.supplementalGroupsPolicy": "`Strict` where the runtime announces it",
    "spec.tolerations[].key": "of effect to a scheduler alone: taken with a warning",
    "spec.runtimeClassName": "the handler's own name: there is no API server to look a RuntimeClass up at",
}


def _written(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _nested(annotation: Any) -> tuple[type[BaseModel] | None, bool]:
    """Return the model that a field or a field's list holds (None: it holds none), and whether the field is a list."""
    if get_origin(annotation) is Annotated:
        return _nested(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        found = [_nested(part) for part in get_args(annotation) if part is not type(None)]
        return next((each for each in found if each[0] is not None or each[1]), (None, False))
    if get_origin(annotation) is tuple:
        return _nested(get_args(annotation)[0])[0], True
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation, False
    return None, False
