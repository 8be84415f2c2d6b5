"""The status of a pod and of its containers."""

from typing import Annotated, Any

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from syncpod.pod.enums import (
    ConditionStatus,
    PodPhase,
    PodQOSClass,
    PodResizeStatus,
    RecursiveReadOnlyMode,
    ResourceHealthStatus,
)
from syncpod.pod.resources import ResourceRequirements
from syncpod.pod.wire import EMPTY_IS_UNSET, Flag, Int32, Int64, Model, QuantityText, Time


class PodIP(Model):
    """An address of the pod."""

    ip: str = ""


class HostIP(Model):
    """An address of the node."""

    ip: str = ""


class PodCondition(Model):
    """One condition of the pod, and since when it has its value."""

    type: str = ""
    observed_generation: Int64 | None = None
    status: ConditionStatus | None = None
    last_probe_time: Time | None = None
    last_transition_time: Time | None = None
    reason: str = ""
    message: str = ""


class ContainerStateWaiting(Model):
    """The state of a container that does not run yet, with the reason."""

    reason: str = ""
    message: str = ""


class ContainerStateRunning(Model):
    """The state of a running container, with the time of its start."""

    started_at: Time | None = None


class ContainerStateTerminated(Model):
    """The state of a container that has ended: its exit code, the reason and the times."""

    exit_code: Int32 = 0
    signal: Int32 | None = None
    reason: str = ""
    message: str = ""
    started_at: Time | None = None
    finished_at: Time | None = None
    container_id: str = ""

    @model_serializer(mode="wrap")
    def _write_zeros_too(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        always: dict[str, Any] = {"exitCode": self.exit_code}
        written: dict[str, Any] = write(self)
        return {**always, **written}


class ContainerState(Model):
    """One of waiting, running and terminated; none of them means waiting."""

    waiting: ContainerStateWaiting | None = None
    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None


class ImageVolumeStatus(Model):
    """The image that an image volume shows."""

    image_ref: str = ""


class VolumeStatus(Model):
    """Details of a mounted volume."""

    image: ImageVolumeStatus | None = None


class VolumeMountStatus(Model):
    """The actual state of a mount."""

    name: str = ""
    mount_path: str = ""
    read_only: Flag = False
    recursive_read_only: RecursiveReadOnlyMode | None = None
    volume_status: VolumeStatus | None = None


class LinuxContainerUser(Model):
    """The user and groups that the first process started with."""

    uid: Int64 = 0
    gid: Int64 = 0
    supplemental_groups: tuple[Int64, ...] = ()

    @model_serializer(mode="wrap")
    def _write_zeros_too(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        always: dict[str, Any] = {"uid": self.uid, "gid": self.gid}
        written: dict[str, Any] = write(self)
        return {**always, **written}


class ContainerUser(Model):
    """The identity that the first process started with."""

    linux: LinuxContainerUser | None = None


class ResourceHealth(Model):
    """The health of one device."""

    resource_id: str = ""
    health: ResourceHealthStatus | None = None
    message: str | None = None


class ResourceStatus(Model):
    """The health of the devices of one resource."""

    name: str = ""
    resources: tuple[ResourceHealth, ...] = ()


class ContainerStatus(Model):
    """The state of one container, its last state, and how often it was restarted."""

    name: str = ""
    state: ContainerState = Field(default_factory=ContainerState)
    last_state: ContainerState = Field(default_factory=ContainerState)
    ready: Flag = False
    restart_count: Int32 = 0
    image: str = ""
    image_id: str = ""
    container_id: str = ""
    started: Flag | None = None
    allocated_resources: dict[str, QuantityText] = Field(default_factory=dict)
    resources: ResourceRequirements | None = None
    volume_mounts: tuple[VolumeMountStatus, ...] = ()
    user: ContainerUser | None = None
    allocated_resources_status: tuple[ResourceStatus, ...] = ()
    stop_signal: str | None = None

    @model_serializer(mode="wrap")
    def _write_zeros_too(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        always: dict[str, Any] = {
            "name": self.name,
            "ready": self.ready,
            "restartCount": self.restart_count,
            "image": self.image,
            "imageID": self.image_id,
        }
        written: dict[str, Any] = write(self)
        return {**always, **written}


class PodResourceClaimStatus(Model):
    """The claim made for an entry of the pod's resource claims."""

    name: str = ""
    resource_claim_name: str | None = None


class ContainerExtendedResourceRequest(Model):
    """An extended resource of a container and the request that serves it."""

    container_name: str = ""
    resource_name: str = ""
    request_name: str = ""


class PodExtendedResourceClaimStatus(Model):
    """The claim made for the pod's extended resources."""

    request_mappings: tuple[ContainerExtendedResourceRequest, ...] = ()
    resource_claim_name: str = ""


class NodeAllocatableResourceClaimStatus(Model):
    """Node resources that a claim stands for."""

    resource_claim_name: str = ""
    containers: tuple[str, ...] = ()
    resources: dict[str, QuantityText] = Field(default_factory=dict)


class PodStatus(Model):
    """The observed state of a pod."""

    observed_generation: Int64 | None = None
    phase: Annotated[PodPhase | None, EMPTY_IS_UNSET] = None
    conditions: tuple[PodCondition, ...] = ()
    message: str = ""
    reason: str = ""
    nominated_node_name: str = ""
    host_ip: str = ""
    host_ips: tuple[HostIP, ...] = ()
    pod_ip: str = ""
    pod_ips: tuple[PodIP, ...] = ()
    start_time: Time | None = None
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    qos_class: Annotated[PodQOSClass | None, EMPTY_IS_UNSET] = None
    ephemeral_container_statuses: tuple[ContainerStatus, ...] = ()
    resize: Annotated[PodResizeStatus | None, EMPTY_IS_UNSET] = None
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()
    extended_resource_claim_status: PodExtendedResourceClaimStatus | None = None
    allocated_resources: dict[str, QuantityText] = Field(default_factory=dict)
    resources: ResourceRequirements | None = None
    node_allocatable_resource_claim_statuses: tuple[NodeAllocatableResourceClaimStatus, ...] = ()
