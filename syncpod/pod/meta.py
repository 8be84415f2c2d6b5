"""Object metadata, label selectors and references to other objects: the parts that every kind shares."""

from typing import Any

from pydantic import Field

from syncpod.pod.enums import LabelSelectorOperator
from syncpod.pod.wire import Flag, Int32, Int64, Model, Time

SERVERS_METADATA = (
    "resource_version",
    "self_link",
    "uid",
    "creation_timestamp",
    "generation",
    "deletion_timestamp",
    "deletion_grace_period_seconds",
    "managed_fields",
)
"""Fields that an API server writes. In a manifest with no other sign of a server, `uid` is the author's choice."""

CLUSTERS_METADATA = ("owner_references", "finalizers")
"""Fields that other parts of a cluster act on."""


class OwnerReference(Model):
    """An object's owner."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: Flag | None = None
    block_owner_deletion: Flag | None = None


class ManagedFieldsEntry(Model):
    """A record of who last set which fields, for server-side apply; parsed and ignored."""

    manager: str = ""
    operation: str = ""
    api_version: str = ""
    time: Time | None = None
    fields_type: str = ""
    fields_v1: dict[str, Any] | None = None
    subresource: str = ""


class ObjectMeta(Model):
    """The metadata of an object: its name, identity, labels and annotations."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    self_link: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: Int64 | None = None
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    deletion_grace_period_seconds: Int64 | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()
    managed_fields: tuple[ManagedFieldsEntry, ...] = ()


class LabelSelectorRequirement(Model):
    """One condition on a label: key, operator, values."""

    key: str = ""
    operator: LabelSelectorOperator | None = None
    values: tuple[str, ...] = ()


class LabelSelector(Model):
    """Conditions on labels, all of which must hold."""

    match_labels: dict[str, str] = Field(default_factory=dict)
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class LocalObjectReference(Model):
    """Another object of the same namespace, by name."""

    name: str = ""


class TypedLocalObjectReference(Model):
    """Another object of the same namespace, by group, kind and name."""

    api_group: str | None = None
    kind: str = ""
    name: str = ""


class TypedObjectReference(Model):
    """Another object by group, kind, name and possibly namespace."""

    api_group: str | None = None
    kind: str = ""
    name: str = ""
    namespace: str | None = None


class KeyToPath(Model):
    """One key of a ConfigMap or Secret, and the file that it becomes."""

    key: str = ""
    path: str = ""
    mode: Int32 | None = None
