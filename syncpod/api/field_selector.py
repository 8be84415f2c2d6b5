"""Field selectors, as ``--field-selector`` takes them: ``status.phase=Running,spec.nodeName!=n1``.

Mirrors apimachinery's pkg/fields and core/v1's AddFieldLabelConversionsForPod, v1.36: only the fields in `OF_PODS`,
with ``=``, ``==`` and ``!=``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

OF_ANY: Final = ("metadata.name", "metadata.namespace")
OF_PODS: Final = (
    *OF_ANY,
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.podIPs",
    "status.nominatedNodeName",
)
_PART: Final = re.compile(r"\s*([\w.]+)\s*(==|!=|=)\s*(\S*)\s*")


@dataclass(frozen=True)
class FieldRequirement:
    """One requirement: the field has the value, or, if `equal` is False, another value."""

    path: str
    value: str
    equal: bool

    def matches(self, document: Mapping[str, Any]) -> bool:
        """Return whether an object meets the requirement. A missing field counts as empty, or as false."""
        found: Any = document
        for step in self.path.split("."):
            found = found.get(step) if isinstance(found, Mapping) else None
        return (_text(found, self.path) == self.value) is self.equal


@dataclass(frozen=True)
class FieldSelector:
    """Requirements that must all be met; without any it selects everything."""

    fields: tuple[FieldRequirement, ...] = ()

    def matches(self, document: Mapping[str, Any]) -> bool:
        """Return whether an object, as its API has it, is selected."""
        return all(field.matches(document) for field in self.fields)


def parse_field_selector(text: str, known: tuple[str, ...] = OF_PODS) -> FieldSelector:
    """Read the requirements. Raises ValueError with the part that is wrong, or the field that is not `known`."""
    if not text.strip():
        return FieldSelector()
    fields = []
    for part in text.split(","):
        found = _PART.fullmatch(part)
        if found is None:
            raise ValueError(f"{part.strip()!r} is not a condition on a field: write status.phase=Running, or !=")
        if found[1] not in known:
            raise ValueError(f"{found[1]!r} cannot be selected by: must be one of {', '.join(known)}")
        fields.append(FieldRequirement(found[1], found[3], found[2] != "!="))
    return FieldSelector(tuple(fields))


def _text(found: Any, path: str) -> str:
    if path == "spec.hostNetwork":
        return "true" if found else "false"
    if isinstance(found, list):
        return ",".join(str(each.get("ip", "")) for each in found if isinstance(each, Mapping))
    return "" if found is None else str(found)
