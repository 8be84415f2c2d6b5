"""A reference to an object: kind, namespace and name."""

from dataclasses import dataclass
from typing import Final, Literal

from syncpod.pod import ConfigMap, Secret

Kind = Literal["ConfigMap", "Secret"]
"""The kinds of objects that a node keeps."""

KINDS: Final[tuple[Kind, ...]] = ("ConfigMap", "Secret")


@dataclass(frozen=True, order=True, slots=True)
class ObjectRef:
    """One ConfigMap or Secret, which may not exist; ``str`` gives the kubelet's words: ``configmap "x"``."""

    kind: Kind
    namespace: str
    name: str

    def __str__(self) -> str:
        return f'{self.kind.lower()} "{self.name}"'


def ref_of(found: ConfigMap | Secret) -> ObjectRef:
    """Return the reference to an object; one without a namespace is in ``default``."""
    return ObjectRef(found.kind, found.metadata.namespace or "default", found.metadata.name)
