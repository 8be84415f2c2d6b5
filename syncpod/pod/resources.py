"""Requests, limits and resize policies."""

from pydantic import Field

from syncpod.pod.enums import ResourceResizeRestartPolicy
from syncpod.pod.wire import Model, QuantityText


class ResourceClaim(Model):
    """An entry of the pod's resource claims that a container uses."""

    name: str = ""
    request: str = ""


class ResourceRequirements(Model):
    """Requests and limits by resource name."""

    limits: dict[str, QuantityText] = Field(default_factory=dict)
    requests: dict[str, QuantityText] = Field(default_factory=dict)
    claims: tuple[ResourceClaim, ...] = ()


class VolumeResourceRequirements(Model):
    """The capacity that a volume claim requests."""

    limits: dict[str, QuantityText] = Field(default_factory=dict)
    requests: dict[str, QuantityText] = Field(default_factory=dict)


class ContainerResizePolicy(Model):
    """The policy for the resize of one resource: it restarts the container, or it does not."""

    resource_name: str = ""
    restart_policy: ResourceResizeRestartPolicy | None = None


class ContainerResize(Model):
    """New requests and limits of one container; those that are not named stay as they are."""

    name: str = ""
    resources: ResourceRequirements = Field(default_factory=ResourceRequirements)


class PodResize(Model):
    """A resize: the spec of a Pod with nothing but resources in it."""

    containers: tuple[ContainerResize, ...] = ()
    init_containers: tuple[ContainerResize, ...] = ()
    resources: ResourceRequirements | None = None
    """Pod-level resources."""
