"""The messages of a fleet's ConfigMaps and Secrets. Wherever Temporal keeps them, their content is sealed.

An object is sealed for the fleet when it is applied, and sealed anew for each node with a pod that refers to it. Lists
show no content, but only names, a Secret's type, and the number of keys.

The rules of :mod:`syncpod.messages` apply: unknown fields are ignored, every field has a default, names on the wire are
Kubernetes' camelCase.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from pydantic import Field, StrictInt

from syncpod.messages.identity import Message, bounded_id
from syncpod.messages.queries import WireEvent

FLEET_OBJECT_WORKFLOW: Final = "FleetObject"
"""Workflow type of one ConfigMap or Secret, whose id is ``object/<kind>/<namespace>/<name>``."""
FLEET_OBJECT_MEMO: Final = "fleetObject"
"""Key of the workflow's memo that holds a :class:`FleetObjectView`."""
SEAL_OBJECTS: Final = "seal_objects"
"""Activity of the fleet: seal objects for a node. It takes :class:`SealObjects` and returns :class:`ObjectsSealed`."""
ANNOUNCE_OBJECT: Final = "announce_object"
"""Activity of the fleet: signal to nodes that an object has changed. It takes :class:`FleetObjectRef`."""
KEPT: Final = "fleet object"
"""The sealing purpose of an object that its fleet keeps."""
GIVEN: Final = "node object"
"""The sealing purpose of an object for a node."""
FLEET_KEY: Final = "fleet key"
"""The sealing purpose of messages to a node about its fleet's key."""
SEALED_LIMIT: Final = 500_000
"""The most bytes of all sealed objects in one node's list: the list and its objects are one payload."""


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
    """An object whose content only one receiver can open."""

    version: str = ""
    """A digest that is equal for equal content. Without the fleet's key it reveals nothing else."""
    metadata: dict[str, str] = Field(default_factory=dict)
    """The metadata of the sealed payload."""
    sealed: str = ""
    """The data of the sealed payload, base64; "" = the receiver keeps the object if it already has it."""


class SealedKey(Message):
    """A fleet's key for a node, sealed with a key that the node trusts: a number and the key.

    The content is JSON, ``{"number": 1, "key": "<PEM>"}``.
    """

    metadata: dict[str, str] = Field(default_factory=dict)
    sealed: str = ""
    """The data of the sealed payload, base64."""


class PutObject(SealedObject):
    """Update ``put``: an object that is sealed for the fleet, with the fields that lists show."""

    type: str = ""
    """The type of a Secret."""
    keys: StrictInt = 0
    replaces: str = ""
    """The version that this object replaces: the same content, sealed for another key of the fleet. If the object in
    the workflow has another version, the update changes nothing. "" = this is new content."""


class FleetObjectView(FleetObjectRef):
    """An object as lists show it. This is also the content of the memo."""

    type: str = ""
    keys: int = 0
    version: str = ""
    since: datetime | None = None
    events: tuple[WireEvent, ...] = ()


class SealObjects(Message):
    """A request for the objects that the pods of a node's list refer to."""

    node: str = ""
    unproven: tuple[str, ...] = ()
    """``namespace/name`` of pods that only the node claims to have from the fleet. The node gets no new objects for
    these pods."""
    trusted: str = ""
    """The id of the fleet's key that the node reports as trusted; "" = not reported."""


class ObjectsSealed(Message):
    """Objects, each sealed for the node."""

    objects: tuple[SealedObject, ...] = ()
    referred: tuple[str, ...] = ()
    """The keys of all objects that its pods refer to, including those that the fleet does not have."""
    left_out: tuple[str, ...] = ()
    """The keys of objects that did not fit."""
    current: str = ""
    """The id of the fleet's key in use."""
    key: SealedKey | None = None
    """The key in use, sealed for the node; None = the node trusts it already."""


_MENTIONS: Final = frozenset(
    {"imagePullSecrets", "configMap", "configMapRef", "configMapKeyRef", "secret", "secretRef", "secretKeyRef"}
)


def may_refer(document: Any) -> bool:
    """Say whether a pod may refer to a ConfigMap or a Secret. False is certain; True is not."""
    if isinstance(document, dict):
        return not _MENTIONS.isdisjoint(document) or any(map(may_refer, document.values()))
    return isinstance(document, list) and any(map(may_refer, document))
