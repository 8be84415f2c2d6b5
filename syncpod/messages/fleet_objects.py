"""The messages of a fleet's ConfigMaps and Secrets, whose content is sealed wherever Temporal keeps it.

An object is sealed for the fleet when it is applied, and sealed anew for each node that has a pod which refers to it.
What lists show is not content: names, a Secret's type, and how many keys there are.

The same rules as in :mod:`syncpod.messages`: unknown fields are ignored, every field has a default, names on the wire
are Kubernetes' camelCase.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from pydantic import Field

from syncpod.messages.identity import Message, bounded_id
from syncpod.messages.queries import EventRecord

FLEET_OBJECT_WORKFLOW: Final = "FleetObject"
"""Workflow type of one ConfigMap or Secret, whose id is ``object/<kind>/<namespace>/<name>``."""
FLEET_OBJECT_MEMO: Final = "fleetObject"
"""Key of the workflow's memo that holds a :class:`FleetObjectView`."""
SEAL_OBJECTS: Final = "seal_objects"
"""Activity of the fleet: objects for a node. It takes :class:`SealObjects` and returns :class:`ObjectsSealed`."""
ANNOUNCE_OBJECT: Final = "announce_object"
"""Activity of the fleet: tell nodes that an object has changed. It takes :class:`FleetObjectRef`."""
KEPT: Final = "fleet object"
"""The purpose for which an object is sealed while its fleet keeps it."""
GIVEN: Final = "node object"
"""The purpose for which it is sealed for a node."""
SEALED_LIMIT: Final = 500_000
"""Bytes that the sealed objects of one node's list may have together: the list and they are one payload."""


def object_id(kind: str, namespace: str, name: str) -> str:
    """Return the workflow id of an object of a fleet."""
    return bounded_id("object/", f"{kind}/{namespace}/{name}")


class FleetObjectRef(Message):
    """One ConfigMap or Secret."""

    kind: str = ""
    namespace: str = "default"
    name: str = ""

    @property
    def key(self) -> str:
        """``Secret/default/keys``."""
        return f"{self.kind}/{self.namespace}/{self.name}"


class SealedObject(FleetObjectRef):
    """An object whose content only one receiver opens."""

    version: str = ""
    """Equal for equal content; it tells nobody without the fleet's key anything else of it."""
    metadata: dict[str, str] = Field(default_factory=dict)
    """Of the sealed payload."""
    sealed: str = ""
    """Its data, base64; "" = the receiver keeps what it has of the object, if it has it."""


class PutObject(SealedObject):
    """Update ``put``: an object, sealed for the fleet, and what lists show of it."""

    type: str = ""
    """A Secret's."""
    keys: int = 0


class FleetObjectView(FleetObjectRef):
    """What lists show: also the contents of the memo."""

    type: str = ""
    keys: int = 0
    version: str = ""
    since: datetime | None = None
    events: tuple[EventRecord, ...] = ()


class SealObjects(Message):
    """Which node needs objects: those that the pods of its list refer to."""

    node: str = ""
    unproven: tuple[str, ...] = ()
    """``namespace/name`` of pods that the node itself says it was given. It learns nothing new by them."""


class ObjectsSealed(Message):
    """Objects, each sealed for the node."""

    objects: tuple[SealedObject, ...] = ()
    referred: tuple[str, ...] = ()
    """Keys of all that its pods refer to, also of what the fleet does not have."""
    left_out: tuple[str, ...] = ()
    """Keys of objects for which there was no room."""


_MENTIONS: Final = frozenset(
    {"imagePullSecrets", "configMap", "configMapRef", "configMapKeyRef", "secret", "secretRef", "secretKeyRef"}
)


def may_refer(document: Any) -> bool:
    """Say whether a pod may refer to a ConfigMap or a Secret: it does not if this says no."""
    if isinstance(document, dict):
        return not _MENTIONS.isdisjoint(document) or any(map(may_refer, document.values()))
    return isinstance(document, list) and any(map(may_refer, document))
