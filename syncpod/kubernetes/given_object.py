"""A ConfigMap or Secret of an API server as a node keeps it. Values in, values out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic import ValidationError

from syncpod.kubernetes.json_documents import mapping
from syncpod.objects import Kind, ObjectRef, values
from syncpod.pod import ConfigMap, Secret

PLURALS: Final[Mapping[Kind, str]] = {"ConfigMap": "configmaps", "Secret": "secrets"}
_KEPT_METADATA: Final = ("name", "namespace", "uid", "creationTimestamp")


class NotAnObject(ValueError):
    """The API server's answer is not the requested ConfigMap or Secret; the text shows nothing of its content."""


def path_of(ref: ObjectRef) -> str:
    """Return the path of the API server's list that contains an object."""
    return f"/api/v1/namespaces/{ref.namespace}/{PLURALS[ref.kind]}"


def given_object(ref: ObjectRef, document: Mapping[str, Any]) -> ConfigMap | Secret:
    """Return the part of an object that a node keeps: its content and its identity. Raises NotAnObject.

    Labels, annotations, versions and managers are left out: no pod gets them, so their changes do not matter. The
    annotation of `kubectl apply` would repeat a Secret's values.
    """
    metadata = mapping(document.get("metadata"))
    kept = {name: metadata[name] for name in _KEPT_METADATA if name in metadata}
    fields = ("immutable", "data", "binaryData") if ref.kind == "ConfigMap" else ("immutable", "data", "type")
    content = {name: document[name] for name in fields if document.get(name) is not None}
    model = ConfigMap if ref.kind == "ConfigMap" else Secret
    try:
        found: ConfigMap | Secret = model.model_validate({**content, "metadata": kept})
        values(found)
    except (ValidationError, ValueError):  # the error's text would show the content
        raise NotAnObject(f"the API server's {ref} in namespace {ref.namespace} is not valid") from None
    if (found.metadata.namespace, found.metadata.name) != (ref.namespace, ref.name):
        raise NotAnObject(f"the API server gave another object for {ref} in namespace {ref.namespace}")
    return found
