"""The specification of a pod."""

from typing import Annotated

from pydantic import Field

from syncpod.pod.containers import Container, EphemeralContainer
from syncpod.pod.enums import DNSPolicy, OSName, PreemptionPolicy, RestartPolicy
from syncpod.pod.meta import LocalObjectReference
from syncpod.pod.resources import ResourceRequirements
from syncpod.pod.scheduling import (
    Affinity,
    PodResourceClaim,
    PodSchedulingGate,
    PodSchedulingGroup,
    Toleration,
    TopologySpreadConstraint,
)
from syncpod.pod.security import PodSecurityContext
from syncpod.pod.volumes import Volume
from syncpod.pod.wire import EMPTY_IS_UNSET, Flag, Int32, Int64, Model, QuantityText


class HostAlias(Model):
    """An address and the names it gets in /etc/hosts."""

    ip: str = ""
    hostnames: tuple[str, ...] = ()


class PodDNSConfigOption(Model):
    """One option of the resolver."""

    name: str = ""
    value: str | None = None


class PodDNSConfig(Model):
    """Resolver settings, added to those of the DNS policy."""

    nameservers: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    options: tuple[PodDNSConfigOption, ...] = ()


class PodReadinessGate(Model):
    """A condition that must be true for the pod to be ready."""

    condition_type: str = ""


class PodOS(Model):
    """The operating system that the pod is made for."""

    name: OSName | None = None


class PodSpec(Model):
    """The desired state of a pod."""

    volumes: tuple[Volume, ...] = ()
    init_containers: tuple[Container, ...] = ()
    containers: tuple[Container, ...] = ()
    ephemeral_containers: tuple[EphemeralContainer, ...] = ()
    restart_policy: Annotated[RestartPolicy | None, EMPTY_IS_UNSET] = None
    termination_grace_period_seconds: Int64 | None = None
    active_deadline_seconds: Int64 | None = None
    dns_policy: Annotated[DNSPolicy | None, EMPTY_IS_UNSET] = None
    node_selector: dict[str, str] = Field(default_factory=dict)
    service_account_name: str = ""
    service_account: str = ""
    automount_service_account_token: Flag | None = None
    node_name: str = ""
    host_network: Flag = False
    host_pid: Flag = False
    host_ipc: Flag = False
    share_process_namespace: Flag | None = None
    security_context: PodSecurityContext | None = None
    image_pull_secrets: tuple[LocalObjectReference, ...] = ()
    hostname: str = ""
    subdomain: str = ""
    affinity: Affinity | None = None
    scheduler_name: str = ""
    tolerations: tuple[Toleration, ...] = ()
    host_aliases: tuple[HostAlias, ...] = ()
    priority_class_name: str = ""
    priority: Int32 | None = None
    dns_config: PodDNSConfig | None = None
    readiness_gates: tuple[PodReadinessGate, ...] = ()
    runtime_class_name: str | None = None
    enable_service_links: Flag | None = None
    preemption_policy: PreemptionPolicy | None = None
    overhead: dict[str, QuantityText] = Field(default_factory=dict)
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    set_hostname_as_fqdn: Flag | None = None
    os: PodOS | None = None
    host_users: Flag | None = None
    scheduling_gates: tuple[PodSchedulingGate, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()
    resources: ResourceRequirements | None = None
    hostname_override: str | None = None
    scheduling_group: PodSchedulingGroup | None = None
