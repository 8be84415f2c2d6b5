"""Checks of a pod as a whole."""

from collections.abc import Iterator

from syncpod.pod.containers import EphemeralContainer
from syncpod.pod.kinds import Pod
from syncpod.pod.problems import Problem
from syncpod.pod.resources import ResourceRequirements
from syncpod.pod.spec import PodDNSConfig, PodSpec
from syncpod.pod.validation import syntax
from syncpod.pod.validation.annotations import check_pod_annotations
from syncpod.pod.validation.containers import Surroundings, check_containers, check_ephemeral_container
from syncpod.pod.validation.metadata import check_labels, check_metadata
from syncpod.pod.validation.operating_system import check_operating_system
from syncpod.pod.validation.resources import check_pod_resources, check_resources
from syncpod.pod.validation.scheduling import check_affinity, check_tolerations, check_topology_spread
from syncpod.pod.validation.security import check_pod_security_context
from syncpod.pod.validation.volumes import check_volumes

_LARGEST_DEADLINE = 2**31 - 1
_LONGEST_HOSTNAME = 64
_MOST_NAMESERVERS = 3
_MOST_SEARCHES = 32
_LONGEST_SEARCHES = 2048


def validate_pod(pod: Pod) -> tuple[Problem, ...]:
    """Return the problems of a pod that has its defaults, in the order of the document."""
    return tuple(
        (
            *check_metadata(pod.metadata, "metadata"),
            *check_pod_annotations(pod, "metadata.annotations"),
            *_check_spec(pod.spec, pod.metadata.name, "spec"),
        )
    )


def validate_ephemeral_container(pod: Pod, container: EphemeralContainer) -> tuple[Problem, ...]:
    """Return the problems of an ephemeral container for this pod; paths start at the container."""
    spec = pod.spec
    targets = frozenset(one.name for one in (*spec.containers, *spec.init_containers))
    taken = targets | {one.name for one in spec.ephemeral_containers}
    problems = list(check_ephemeral_container(container, targets, _surroundings(spec), "ephemeralContainer"))
    if wrong := syntax.dns_label(container.name) if container.name else "required":
        problems.insert(0, Problem("ephemeralContainer.name", wrong))
    elif container.name in taken:
        problems.insert(0, Problem("ephemeralContainer.name", f"{container.name} is a container of this pod already"))
    return tuple(problems)


def _surroundings(spec: PodSpec) -> Surroundings:
    return Surroundings(
        spec=spec,
        volumes={volume.name: volume for volume in spec.volumes},
        claims=frozenset(claim.name for claim in spec.resource_claims),
    )


def _check_spec(spec: PodSpec, pod_name: str, path: str) -> Iterator[Problem]:
    yield from check_volumes(spec.volumes, pod_name, f"{path}.volumes")
    yield from _check_resource_claims(spec, f"{path}.resourceClaims")
    yield from check_containers(_surroundings(spec), path)
    if (deadline := spec.active_deadline_seconds) is not None and not 1 <= deadline <= _LARGEST_DEADLINE:
        yield Problem(f"{path}.activeDeadlineSeconds", f"must be between 1 and {_LARGEST_DEADLINE}")
    yield from check_pod_resources(spec, f"{path}.resources")
    yield from check_pod_security_context(spec.security_context, spec, f"{path}.securityContext")
    yield from _check_namespaces(spec, path)
    yield from _check_names(spec, path)
    yield from check_labels(spec.node_selector, f"{path}.nodeSelector")
    yield from check_affinity(spec.affinity, f"{path}.affinity")
    yield from check_tolerations(spec.tolerations, f"{path}.tolerations")
    yield from check_topology_spread(spec.topology_spread_constraints, f"{path}.topologySpreadConstraints")
    yield from _check_scheduling_gates(spec, f"{path}.schedulingGates")
    if spec.scheduling_group is not None:
        name = spec.scheduling_group.pod_group_name
        if wrong := syntax.dns_subdomain(name) if name else "required":
            yield Problem(f"{path}.schedulingGroup.podGroupName", wrong)
    overhead = ResourceRequirements(limits=spec.overhead)
    for problem in check_resources(overhead, f"{path}.overhead", claims=frozenset()):
        yield Problem(problem.path.replace(".overhead.limits[", ".overhead["), problem.message)
    yield from _check_dns(spec, f"{path}.dnsConfig")
    for index, gate in enumerate(spec.readiness_gates):
        if wrong := syntax.qualified_name(gate.condition_type):
            yield Problem(f"{path}.readinessGates[{index}].conditionType", wrong)
    for index, alias in enumerate(spec.host_aliases):
        if wrong := syntax.ip(alias.ip):
            yield Problem(f"{path}.hostAliases[{index}].ip", wrong)
        for place, hostname in enumerate(alias.hostnames):
            if wrong := syntax.dns_subdomain(hostname):
                yield Problem(f"{path}.hostAliases[{index}].hostnames[{place}]", wrong)
    yield from check_operating_system(spec, path)


def _check_namespaces(spec: PodSpec, path: str) -> Iterator[Problem]:
    if spec.share_process_namespace and spec.host_pid:
        yield Problem(f"{path}.shareProcessNamespace", "must not be true beside hostPID: true")
    if spec.host_users is False:
        shared = {"hostNetwork": spec.host_network, "hostPID": spec.host_pid, "hostIPC": spec.host_ipc}
        for name in (name for name, is_shared in shared.items() if is_shared):
            yield Problem(f"{path}.{name}", "must not be true beside hostUsers: false")
        for kind, containers in (("initContainers", spec.init_containers), ("containers", spec.containers)):
            for index, container in enumerate(containers):
                if container.volume_devices:
                    yield Problem(f"{path}.{kind}[{index}].volumeDevices", "must not be set beside hostUsers: false")


def _check_names(spec: PodSpec, path: str) -> Iterator[Problem]:
    for name, value in (("hostname", spec.hostname), ("subdomain", spec.subdomain)):
        if value and (wrong := syntax.dns_label(value)):
            yield Problem(f"{path}.{name}", wrong)
    for name, value in (
        ("nodeName", spec.node_name),
        ("serviceAccountName", spec.service_account_name),
        ("priorityClassName", spec.priority_class_name),
    ):
        if value and (wrong := syntax.dns_subdomain(value)):
            yield Problem(f"{path}.{name}", wrong)
    if spec.runtime_class_name is not None and (wrong := syntax.dns_subdomain(spec.runtime_class_name)):
        yield Problem(f"{path}.runtimeClassName", wrong)
    if (override := spec.hostname_override) is not None:
        here = f"{path}.hostnameOverride"
        if len(override) > _LONGEST_HOSTNAME:
            yield Problem(here, f"must be no more than {_LONGEST_HOSTNAME} characters")
        elif wrong := syntax.dns_subdomain(override):
            yield Problem(here, wrong)
        if spec.set_hostname_as_fqdn or spec.host_network:
            yield Problem(here, "must not be set beside setHostnameAsFQDN or hostNetwork")


def _check_dns(spec: PodSpec, path: str) -> Iterator[Problem]:
    """Check the resolver's settings, which libc limits (validatePodDNSConfig)."""
    config = spec.dns_config or PodDNSConfig()
    if spec.dns_policy == "None" and not config.nameservers:
        yield Problem(f"{path}.nameservers", "required with dnsPolicy: None")
    if len(config.nameservers) > _MOST_NAMESERVERS:
        yield Problem(f"{path}.nameservers", f"must be no more than {_MOST_NAMESERVERS}")
    for index, nameserver in enumerate(config.nameservers):
        if wrong := syntax.ip(nameserver):
            yield Problem(f"{path}.nameservers[{index}]", wrong)
    if len(config.searches) > _MOST_SEARCHES:
        yield Problem(f"{path}.searches", f"must be no more than {_MOST_SEARCHES}")
    if len(" ".join(config.searches)) > _LONGEST_SEARCHES:
        yield Problem(f"{path}.searches", f"must be no more than {_LONGEST_SEARCHES} characters with blanks between")
    for index, search in enumerate(config.searches):
        if wrong := syntax.search_domain(search):
            yield Problem(f"{path}.searches[{index}]", wrong)
    for index, option in enumerate(config.options):
        if not option.name:
            yield Problem(f"{path}.options[{index}].name", "required")


def _check_resource_claims(spec: PodSpec, path: str) -> Iterator[Problem]:
    seen: set[str] = set()
    for index, claim in enumerate(spec.resource_claims):
        here = f"{path}[{index}]"
        if wrong := syntax.dns_label(claim.name) if claim.name else "required":
            yield Problem(f"{here}.name", wrong)
        elif claim.name in seen:
            yield Problem(f"{here}.name", f"{claim.name} is there twice")
        seen.add(claim.name)
        names = {
            "resourceClaimName": claim.resource_claim_name,
            "resourceClaimTemplateName": claim.resource_claim_template_name,
        }
        if sum(name is not None for name in names.values()) != 1:
            yield Problem(here, f"must have one of {' and '.join(names)}")
        for field, name in names.items():
            if name is not None and (wrong := syntax.dns_subdomain(name)):
                yield Problem(f"{here}.{field}", wrong)


def _check_scheduling_gates(spec: PodSpec, path: str) -> Iterator[Problem]:
    seen = set()
    for index, gate in enumerate(spec.scheduling_gates):
        if wrong := syntax.qualified_name(gate.name):
            yield Problem(f"{path}[{index}].name", wrong)
        elif gate.name in seen:
            yield Problem(f"{path}[{index}].name", f"{gate.name} is there twice")
        seen.add(gate.name)
    if spec.node_name and spec.scheduling_gates:
        yield Problem(path, "must be empty where nodeName is set")
