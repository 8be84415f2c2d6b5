"""Which object is meant: a kind, a namespace and a name."""

from dataclasses import dataclass
from typing import Final, Literal

from syncpod.pod import ConfigMap, Secret

Kind = Literal["ConfigMap", "Secret"]
"""What a node keeps beside its pods."""

KINDS: Final[tuple[Kind, ...]] = ("ConfigMap", "Secret")


@dataclass(frozen=True, order=True, slots=True)
class ObjectRef:
    """One ConfigMap or Secret, whether it is there or not; ``str`` is what the kubelet calls it: ``configmap "x"``."""

    kind: Kind
    namespace: str
    name: str

    def __str__(self) -> str:
        return f'{self.kind.lower()} "{self.name}"'


def ref_of(found: ConfigMap | Secret) -> ObjectRef:
    """Return what names the object; one without a namespace is in ``default``."""
    return ObjectRef(found.kind, found.metadata.namespace or "default", found.metadata.name)
