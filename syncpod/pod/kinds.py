"""Pod: the object itself."""

from typing import Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from syncpod.pod.meta import ObjectMeta
from syncpod.pod.spec import PodSpec
from syncpod.pod.status import PodStatus
from syncpod.pod.wire import Model


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
