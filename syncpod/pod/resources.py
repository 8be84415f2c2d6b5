"""Requests, limits and how a container takes a change of them."""

from pydantic import Field

from syncpod.pod.enums import ResourceResizeRestartPolicy
from syncpod.pod.wire import Model, QuantityText


class ResourceClaim(Model):
    """An entry of the pod's resource claims that a container uses."""

    name: str = ""
    request: str = ""


class ResourceRequirements(Model):
    """What is guaranteed (requests) and what is allowed (limits), by resource name."""

    limits: dict[str, QuantityText] = Field(default_factory=dict)
    requests: dict[str, QuantityText] = Field(default_factory=dict)
    claims: tuple[ResourceClaim, ...] = ()


class VolumeResourceRequirements(Model):
    """The capacity that a volume claim asks for."""

    limits: dict[str, QuantityText] = Field(default_factory=dict)
    requests: dict[str, QuantityText] = Field(default_factory=dict)


class ContainerResizePolicy(Model):
    """Whether a change of one resource restarts the container."""

    resource_name: str = ""
    restart_policy: ResourceResizeRestartPolicy | None = None
