"""Converts a Pod from JSON to the bytes of Kubernetes' protobuf."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from protos.pods.v1 import pod_pb2

_INLINE: Final = ("volumeSource", "handler", "localObjectReference", "ephemeralContainerCommon")
"""Messages that JSON inlines: their fields are in the object around them."""
_TEXT: Final = 1
"""The `type` of an IntOrString that holds a string."""


def pod_bytes(pod: Mapping[str, Any]) -> bytes:
    """Return a v1 Pod as `k8s.io/api/core/v1` marshals it. Fields that version 1.37 lacks are left out.

    Raises ValueError, with the path, for a value of the wrong type.
    """
    message = pod_pb2.Pod()
    _fill(message, {name: value for name, value in pod.items() if name not in ("apiVersion", "kind")}, "")
    return message.SerializeToString(deterministic=True)


def _fill(message: Message, values: Mapping[str, Any], path: str) -> None:
    fields = _fields(message.DESCRIPTOR)
    for name, value in values.items():
        if value is None or name not in fields:
            continue
        inline, field = fields[name]
        target = getattr(message, inline) if inline else message
        try:
            _put(target, field, value, f"{path}.{name}")
        except (TypeError, AttributeError) as error:
            raise ValueError(f"{path}.{name}: {error}".lstrip(".")) from None


def _put(message: Message, field: FieldDescriptor, value: Any, path: str) -> None:
    """Set one field. Raises TypeError, AttributeError, ValueError."""
    kind = field.message_type
    if kind is None:
        if isinstance(value, list):
            getattr(message, field.name).extend(value)
        else:
            setattr(message, field.name, value)
        return
    part = getattr(message, field.name)
    if kind.GetOptions().map_entry:
        of_messages = kind.fields_by_name["value"].message_type is not None
        for key, each in value.items():
            if of_messages:
                _set(part[key], each, f"{path}[{key}]")
            else:
                part[key] = each
    elif isinstance(value, list):
        for position, each in enumerate(value):
            _set(part.add(), each, f"{path}[{position}]")
    else:
        part.SetInParent()
        _set(part, value, path)


def _set(message: Message, value: Any, path: str) -> None:
    """Fill a message from its JSON value, which is an object except for times, quantities and IntOrString.

    Raises TypeError, AttributeError, ValueError.
    """
    match message:
        case pod_pb2.Time():
            moment = datetime.fromisoformat(value).astimezone(UTC)
            message.seconds = int(moment.timestamp())
            message.nanos = moment.microsecond * 1000
        case pod_pb2.Quantity():
            message.string = str(value)
        case pod_pb2.IntOrString() if isinstance(value, str):
            message.type, message.strVal = _TEXT, value
        case pod_pb2.IntOrString():
            message.type, message.intVal = 0, value
        case pod_pb2.FieldsV1():
            message.Raw = json.dumps(value, separators=(",", ":")).encode()
        case _:
            _fill(message, value, path)


@cache
def _fields(kind: Descriptor) -> Mapping[str, tuple[str, FieldDescriptor]]:
    """Return a message's fields by their JSON names, each with the name of its inlined message, or ""."""
    found = {name: ("", field) for name, field in kind.fields_by_name.items() if name not in _INLINE}
    for inline in _INLINE:
        field = kind.fields_by_name.get(inline)
        if field is not None and field.message_type is not None:
            found |= {name: (inline, each) for name, each in field.message_type.fields_by_name.items()}
    return found
