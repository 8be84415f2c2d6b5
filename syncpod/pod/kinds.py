"""Pod, ConfigMap and Secret: the objects themselves."""

import base64
from typing import Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from syncpod.pod.meta import ObjectMeta
from syncpod.pod.spec import PodSpec
from syncpod.pod.status import PodStatus
from syncpod.pod.wire import Base64, Flag, Model


class Pod(Model):
    """A pod: its spec and its status."""

    kind: Literal["Pod"] = "Pod"
    api_version: Literal["v1"] = "v1"
    metadata: ObjectMeta = Field(default_factory=ObjectMeta)
    spec: PodSpec = Field(default_factory=PodSpec)
    status: PodStatus = Field(default_factory=PodStatus)

    @model_serializer(mode="wrap")
    def _write_kind_too(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        written: dict[str, Any] = write(self)
        return {"apiVersion": self.api_version, "kind": self.kind, **written}


class ConfigMap(Model):
    """Configuration as keys and values; no key is in both maps."""

    kind: Literal["ConfigMap"] = "ConfigMap"
    api_version: Literal["v1"] = "v1"
    metadata: ObjectMeta = Field(default_factory=ObjectMeta)
    immutable: Flag | None = None
    data: dict[str, str] = Field(default_factory=dict)
    binary_data: dict[str, Base64] = Field(default_factory=dict)

    @model_serializer(mode="wrap")
    def _write_kind_too(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        written: dict[str, Any] = write(self)
        return {"apiVersion": self.api_version, "kind": self.kind, **written}


class Secret(Model):
    """Confidential data as keys and values; `stringData` is merged over `data`."""

    kind: Literal["Secret"] = "Secret"
    api_version: Literal["v1"] = "v1"
    metadata: ObjectMeta = Field(default_factory=ObjectMeta)
    immutable: Flag | None = None
    # Secret values are not in the repr, so neither logs nor failing assertions show them.
    data: dict[str, Base64] = Field(default_factory=dict, repr=False)
    string_data: dict[str, str] = Field(default_factory=dict, repr=False)
    type: str = ""

    @model_serializer(mode="wrap")
    def _write_kind_too(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        written: dict[str, Any] = write(self)
        return {"apiVersion": self.api_version, "kind": self.kind, **written}


def values(found: ConfigMap | Secret) -> dict[str, bytes]:
    """Return each key's bytes: ``data`` and ``binaryData``, or ``data`` with ``stringData`` laid over it.

    The object must have passed validation. Raises ValueError, without the value in its text, for invalid base64.
    """
    if isinstance(found, ConfigMap):
        texts, encoded = found.data, found.binary_data
    else:
        texts, encoded = found.string_data, found.data
    return {
        **{key: base64.b64decode(text) for key, text in encoded.items()},
        **{key: text.encode() for key, text in texts.items()},
    }
