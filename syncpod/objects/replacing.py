"""Replacement of an object by another of the same name, as an API server would do it."""

import base64
from collections.abc import Iterator
from datetime import datetime
from typing import Literal

from syncpod.pod import ConfigMap, Secret
from syncpod.pod.kinds import values

Change = Literal["created", "configured", "unchanged"]
"""The result of a put, in kubectl's words."""


class ObjectRefused(ValueError):
    """The object may not be changed in this way. The text says why in kubectl's words, and shows no value."""


def replaced(
    held: ConfigMap | Secret | None, wanted: ConfigMap | Secret, *, now: datetime, uid: str
) -> tuple[ConfigMap | Secret, Change]:
    """Return the object to store when `wanted` replaces `held` (None = there is none), and the kind of change.

    The node chooses uid, creationTimestamp and resourceVersion; those of `wanted` are ignored. Labels, annotations and
    data become exactly those of `wanted`: entries that are missing in the manifest are removed. `kubectl apply` would
    keep entries that others had added. ``stringData`` becomes ``data``, and a Secret without a type becomes ``Opaque``.

    Raises ObjectRefused for a change of an immutable field (apis/core/validation.go, v1.36, ValidateConfigMapUpdate and
    ValidateSecretUpdate).
    """
    content = _content(wanted)
    if held is None:
        identity = {"uid": uid, "creation_timestamp": now, "resource_version": "1"}
        return _with_metadata(content, identity), "created"
    if forbidden := tuple(_forbidden(held, content)):
        raise ObjectRefused(f'The {held.kind} "{held.metadata.name}" is invalid: {"; ".join(forbidden)}')
    if _content(held) == content:
        return held, "unchanged"
    identity = {
        "uid": held.metadata.uid,
        "creation_timestamp": held.metadata.creation_timestamp,
        "resource_version": str(int(held.metadata.resource_version or 0) + 1),
    }
    return _with_metadata(content, identity), "configured"


def _content(given: ConfigMap | Secret) -> ConfigMap | Secret:
    """Return an object in its stored form, without identity: with a namespace, and a Secret's strings as data."""
    metadata = type(given.metadata)(
        name=given.metadata.name,
        namespace=given.metadata.namespace or "default",
        labels=given.metadata.labels,
        annotations=given.metadata.annotations,
    )
    if isinstance(given, ConfigMap):
        return given.model_copy(update={"metadata": metadata})
    data = {key: base64.b64encode(value).decode() for key, value in sorted(values(given).items())}
    return given.model_copy(
        update={"metadata": metadata, "data": data, "string_data": {}, "type": given.type or "Opaque"}
    )


def _with_metadata(content: ConfigMap | Secret, identity: dict[str, object]) -> ConfigMap | Secret:
    return content.model_copy(update={"metadata": content.metadata.model_copy(update=identity)})


def _forbidden(held: ConfigMap | Secret, wanted: ConfigMap | Secret) -> Iterator[str]:
    if isinstance(held, Secret) and isinstance(wanted, Secret) and held.type != wanted.type:
        yield f'type: Invalid value: "{wanted.type}": field is immutable'
    if not held.immutable:
        return
    why = "Forbidden: field is immutable when `immutable` is set"
    if not wanted.immutable:
        yield f"immutable: {why}"
    if isinstance(held, ConfigMap) and isinstance(wanted, ConfigMap):
        if held.data != wanted.data:
            yield f"data: {why}"
        if held.binary_data != wanted.binary_data:
            yield f"binaryData: {why}"
    elif values(held) != values(wanted):
        yield f"data: {why}"
