"""Checks of references to the pod's own fields, in variables and files of volumes."""

from collections.abc import Iterator
from fractions import Fraction

from syncpod.pod.env import ObjectFieldSelector, ResourceFieldSelector
from syncpod.pod.problems import Problem
from syncpod.pod.quantity import parse_quantity
from syncpod.pod.validation import syntax

ENV_FIELDS = (
    "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
    "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
)  # fmt: skip
"""Fields that a variable may show, besides single labels and annotations."""
VOLUME_FIELDS = ("metadata.name", "metadata.namespace", "metadata.uid", "metadata.labels", "metadata.annotations")
"""Fields that a file may show, besides single labels and annotations."""

_RESOURCES = tuple(
    f"{kind}.{name}" for kind in ("limits", "requests") for name in ("cpu", "memory", "ephemeral-storage")
)
_HUGE_PAGES = ("limits.hugepages-", "requests.hugepages-")
_CPU_DIVISORS = ("1m", "1")
_BYTE_DIVISORS = ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")
_KEYED = ("metadata.labels", "metadata.annotations")


def check_field_ref(selector: ObjectFieldSelector, fields: tuple[str, ...], path: str) -> Iterator[Problem]:
    """Check a reference to a field of the pod, which must be in `fields` (validateObjectFieldSelector)."""
    if selector.api_version not in ("", "v1"):
        yield Problem(f"{path}.apiVersion", "must be v1")
    here, wanted = f"{path}.fieldPath", selector.field_path
    if not wanted:
        yield Problem(here, "required")
        return
    name, opened, rest = wanted.partition("['")
    if opened and rest.endswith("']"):
        key = rest[:-2]
        if name not in _KEYED:
            yield Problem(here, f"may have a key in brackets only behind {' and '.join(_KEYED)}")
        elif wrong := syntax.qualified_name(key.lower() if name == "metadata.annotations" else key):
            yield Problem(here, f"its key {wrong}")
    elif wanted not in fields:
        keyed = ", ".join(f"{each}['key']" for each in _KEYED)
        yield Problem(here, f"must be {keyed} or {', '.join(fields)}")


def check_resource_field_ref(selector: ResourceFieldSelector, path: str, *, names_container: bool) -> Iterator[Problem]:
    """Check a reference to a request or limit. In a volume it must name a container; a variable is in one already."""
    if names_container and not selector.container_name:
        yield Problem(f"{path}.containerName", "required")
    resource = selector.resource
    if not resource:
        yield Problem(f"{path}.resource", "required")
    elif resource not in _RESOURCES and not resource.startswith(_HUGE_PAGES):
        yield Problem(f"{path}.resource", f"must be one of {', '.join(_RESOURCES)}")
    elif selector.divisor is not None and not _is_divisor(selector.divisor, resource):
        divisors = _CPU_DIVISORS if resource.endswith(".cpu") else _BYTE_DIVISORS
        yield Problem(f"{path}.divisor", f"must be one of {', '.join(divisors)}")


def _is_divisor(text: str, resource: str) -> bool:
    """Say whether a divisor is valid for its resource; 0, in any notation, is the default."""
    number = parse_quantity(text).number
    if resource.endswith(".cpu"):
        return number in (0, 1, Fraction(1, 1000))
    # Kubernetes compares canonical forms: 1024 is not 1Ki, but 1024Ki is 1Mi.
    spelled = _BYTE_DIVISORS[7:] if text.endswith("i") else _BYTE_DIVISORS[:7]
    return number in (0, 1) or number in {parse_quantity(divisor).number for divisor in spelled}
