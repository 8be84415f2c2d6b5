"""Checks of a pod as a whole."""

from collections.abc import Iterator

from syncpod.pod.containers import EphemeralContainer
from syncpod.pod.defaults import APP_ARMOR_ANNOTATION, annotated_profile
from syncpod.pod.kinds import Pod
from syncpod.pod.problems import Problem
from syncpod.pod.resources import ResourceRequirements
from syncpod.pod.spec import PodSpec
from syncpod.pod.validation import syntax
from syncpod.pod.validation.containers import Surroundings, check_containers, check_ephemeral_container
from syncpod.pod.validation.metadata import check_labels, check_metadata
from syncpod.pod.validation.resources import check_resources
from syncpod.pod.validation.scheduling import check_affinity, check_tolerations, check_topology_spread
from syncpod.pod.validation.security import check_pod_security_context
from syncpod.pod.validation.volumes import check_volumes

_LARGEST_DEADLINE = 2**31 - 1
_LONGEST_HOSTNAME = 64


def validate_pod(pod: Pod) -> tuple[Problem, ...]:
    """Return what is wrong with a pod that has its defaults, in the order of the document."""
    return tuple(
        (
            *check_metadata(pod.metadata, "metadata"),
            *_check_app_armor_annotations(pod, "metadata.annotations"),
            *_check_spec(pod.spec, "spec"),
        )
    )


def validate_ephemeral_container(pod: Pod, container: EphemeralContainer) -> tuple[Problem, ...]:
    """Return what is wrong with an ephemeral container that is to join the pod; paths start at the container."""
    spec = pod.spec
    targets = frozenset(one.name for one in (*spec.containers, *spec.init_containers))
    taken = targets | {one.name for one in spec.ephemeral_containers}
    problems = list(check_ephemeral_container(container, targets, _surroundings(spec), "ephemeralContainer"))
    if wrong := syntax.dns_label(container.name) if container.name else "required":
        problems.insert(0, Problem("ephemeralContainer.name", wrong))
    elif container.name in taken:
        problems.insert(0, Problem("ephemeralContainer.name", f"{container.name} is a container of this pod already"))
    return tuple(problems)


def _check_app_armor_annotations(pod: Pod, path: str) -> Iterator[Problem]:
    """Check the annotations that came before appArmorProfile: a field beside one must say the same."""
    spec = pod.spec
    of_pod = spec.security_context.app_armor_profile if spec.security_context else None
    containers = {one.name: one for one in (*spec.containers, *spec.init_containers, *spec.ephemeral_containers)}
    for key, value in pod.metadata.annotations.items():
        if not key.startswith(APP_ARMOR_ANNOTATION):
            continue
        here = f"{path}[{key}]"
        container = containers.get(key.removeprefix(APP_ARMOR_ANNOTATION))
        profile = annotated_profile(value)
        if container is None:
            yield Problem(here, "names no container of this pod")
        elif profile is None:
            yield Problem(here, "must be runtime/default, unconfined or localhost/<profile>")
        elif profile != ((container.security_context and container.security_context.app_armor_profile) or of_pod):
            yield Problem(here, f"must agree with the appArmorProfile of container {container.name}")


def _surroundings(spec: PodSpec) -> Surroundings:
    return Surroundings(
        spec=spec,
        volumes={volume.name: volume for volume in spec.volumes},
        claims=frozenset(claim.name for claim in spec.resource_claims),
    )


def _check_spec(spec: PodSpec, path: str) -> Iterator[Problem]:
    yield from check_volumes(spec.volumes, f"{path}.volumes")
    yield from check_containers(_surroundings(spec), path)
    if (grace := spec.termination_grace_period_seconds) is not None and grace < 0:
        yield Problem(f"{path}.terminationGracePeriodSeconds", "must not be negative")
    if (deadline := spec.active_deadline_seconds) is not None and not 1 <= deadline <= _LARGEST_DEADLINE:
        yield Problem(f"{path}.activeDeadlineSeconds", f"must be between 1 and {_LARGEST_DEADLINE}")
    if spec.resources is not None:
        yield from check_resources(spec.resources, f"{path}.resources", claims=frozenset(), whole_pod=True)
    yield from check_pod_security_context(spec.security_context, spec, f"{path}.securityContext")
    yield from _check_namespaces(spec, path)
    yield from _check_names(spec, path)
    yield from check_labels(spec.node_selector, f"{path}.nodeSelector")
    yield from check_affinity(spec.affinity, f"{path}.affinity")
    yield from check_tolerations(spec.tolerations, f"{path}.tolerations")
    yield from check_topology_spread(spec.topology_spread_constraints, f"{path}.topologySpreadConstraints")
    yield from _check_scheduling_gates(spec, f"{path}.schedulingGates")
    if spec.scheduling_group is not None and not spec.scheduling_group.pod_group_name:
        yield Problem(f"{path}.schedulingGroup.podGroupName", "required")
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
    if spec.os is not None and spec.os.name is None:
        yield Problem(f"{path}.os.name", "required")


def _check_namespaces(spec: PodSpec, path: str) -> Iterator[Problem]:
    if spec.share_process_namespace and spec.host_pid:
        yield Problem(f"{path}.shareProcessNamespace", "must not be true beside hostPID: true")
    if spec.host_users is False:
        shared = {"hostNetwork": spec.host_network, "hostPID": spec.host_pid, "hostIPC": spec.host_ipc}
        for name in (name for name, is_shared in shared.items() if is_shared):
            yield Problem(f"{path}.{name}", "must not be true beside hostUsers: false")


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
    nameservers = spec.dns_config.nameservers if spec.dns_config else ()
    if spec.dns_policy == "None" and not nameservers:
        yield Problem(f"{path}.nameservers", "required with dnsPolicy: None")
    for index, nameserver in enumerate(nameservers):
        if wrong := syntax.ip(nameserver):
            yield Problem(f"{path}.nameservers[{index}]", wrong)


def _check_scheduling_gates(spec: PodSpec, path: str) -> Iterator[Problem]:
    seen = set()
    for index, gate in enumerate(spec.scheduling_gates):
        if wrong := syntax.qualified_name(gate.name):
            yield Problem(f"{path}[{index}].name", wrong)
        elif gate.name in seen:
            yield Problem(f"{path}[{index}].name", f"{gate.name} is there twice")
        seen.add(gate.name)
