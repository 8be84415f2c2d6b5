"""Checks of init, normal and ephemeral containers."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from syncpod.pod.containers import Container, EphemeralContainer
from syncpod.pod.problems import Problem
from syncpod.pod.spec import PodSpec
from syncpod.pod.validation import syntax
from syncpod.pod.validation.env import check_env, check_env_from
from syncpod.pod.validation.probes import check_lifecycle, check_probe
from syncpod.pod.validation.programs import check_program
from syncpod.pod.validation.resources import check_resize_policy, check_resources
from syncpod.pod.validation.security import check_security_context
from syncpod.pod.validation.volumes import check_mounts
from syncpod.pod.volumes import Volume

_MOST_RULES = 20
_MOST_EXIT_CODES = 255
_EPHEMERAL_REFUSED = (
    "ports", "resources", "resize_policy", "restart_policy", "restart_policy_rules", "liveness_probe",
    "readiness_probe", "startup_probe", "lifecycle",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The parts of a pod that the checks of its containers need."""

    spec: PodSpec
    volumes: Mapping[str, Volume]
    claims: frozenset[str]


def check_containers(around: Surroundings, path: str) -> Iterator[Problem]:
    """Check every container of the pod, and that no two share a name or a host port."""
    spec = around.spec
    if not spec.containers:
        yield Problem(f"{path}.containers", "required: at least one container")
    names: set[str] = set()
    ports: set[tuple[str, str, int]] = set()
    for index, container in enumerate(spec.containers):
        here = f"{path}.containers[{index}]"
        yield from _check_common(container, around, here)
        yield from _check_name(container.name, names, here)
        yield from _check_restart_rules(container, here)
        yield from _check_probes_and_hooks(container, around, here)
        yield from _check_host_ports(container, ports, here)
        if spec.host_network:
            yield from _check_host_network_ports(container, here)
    for index, container in enumerate(spec.init_containers):
        here = f"{path}.initContainers[{index}]"
        yield from _check_common(container, around, here)
        yield from _check_name(container.name, names, here)
        yield from _check_restart_rules(container, here)
        yield from _check_init_container(container, around, here)
        yield from _check_host_ports(container, set(), here)
    # A target must be a regular container, so the names are collected before ephemeral containers add theirs.
    targets = frozenset(names)
    for index, ephemeral in enumerate(spec.ephemeral_containers):
        here = f"{path}.ephemeralContainers[{index}]"
        yield from _check_name(ephemeral.name, names, here)
        yield from check_ephemeral_container(ephemeral, targets, around, here)


def check_ephemeral_container(
    container: EphemeralContainer, targets: frozenset[str], around: Surroundings, path: str
) -> Iterator[Problem]:
    """Check an ephemeral container, except whether its name is free."""
    yield from _check_common(container, around, path)
    if container.target_container_name and container.target_container_name not in targets:
        yield Problem(
            f"{path}.targetContainerName", f"{container.target_container_name!r} is not a container of this pod"
        )
    for name in _EPHEMERAL_REFUSED:
        field = type(container).model_fields[name]
        if getattr(container, name) != field.get_default(call_default_factory=True):
            yield Problem(f"{path}.{field.alias}", "must not be set for an ephemeral container")
    for index, mount in enumerate(container.volume_mounts):
        for name, value in (("subPath", mount.sub_path), ("subPathExpr", mount.sub_path_expr)):
            if value:
                yield Problem(f"{path}.volumeMounts[{index}].{name}", "must not be set for an ephemeral container")


def _check_common(container: Container, around: Surroundings, path: str) -> Iterator[Problem]:
    if not container.image:
        yield Problem(f"{path}.image", "required")
    elif container.image.strip() != container.image:
        yield Problem(f"{path}.image", "must not begin or end with white space")
    yield from _check_ports(container, f"{path}.ports")
    yield from check_env(container.env, around.volumes, f"{path}.env")
    yield from check_env_from(container.env_from, f"{path}.envFrom")
    yield from check_program(container, path)
    yield from check_mounts(container, around.volumes, path)
    yield from check_resources(container.resources, f"{path}.resources", claims=around.claims)
    yield from check_resize_policy(container.resize_policy, f"{path}.resizePolicy", around.spec.restart_policy)
    yield from check_security_context(
        container.security_context, f"{path}.securityContext", own_users=around.spec.host_users is False
    )


def _check_name(name: str, names: set[str], path: str) -> Iterator[Problem]:
    """Check a name, which is also part of log paths and cgroups."""
    if not name:
        yield Problem(f"{path}.name", "required")
    elif wrong := syntax.dns_label(name):
        yield Problem(f"{path}.name", wrong)
    elif name in names:
        yield Problem(f"{path}.name", f"{name} is the name of another container of this pod")
    names.add(name)


def _check_ports(container: Container, path: str) -> Iterator[Problem]:
    names = set()
    for index, port in enumerate(container.ports):
        here = f"{path}[{index}]"
        if port.name:
            if wrong := syntax.port_name(port.name):
                yield Problem(f"{here}.name", wrong)
            elif port.name in names:
                yield Problem(f"{here}.name", f"{port.name} is there twice")
            names.add(port.name)
        if not port.container_port:
            yield Problem(f"{here}.containerPort", "required")
        elif wrong := syntax.port_number(port.container_port):
            yield Problem(f"{here}.containerPort", wrong)
        if port.host_port and (wrong := syntax.port_number(port.host_port)):
            yield Problem(f"{here}.hostPort", wrong)
        if port.host_ip and (wrong := syntax.ip(port.host_ip)):
            yield Problem(f"{here}.hostIP", wrong)


def _check_host_ports(container: Container, taken: set[tuple[str, str, int]], path: str) -> Iterator[Problem]:
    for index, port in enumerate(container.ports):
        if port.host_port:
            wanted = (port.protocol or "TCP", port.host_ip, port.host_port)
            if wanted in taken:
                yield Problem(f"{path}.ports[{index}].hostPort", f"{port.host_port} is there twice")
            taken.add(wanted)


def _check_host_network_ports(container: Container, path: str) -> Iterator[Problem]:
    for index, port in enumerate(container.ports):
        if port.host_port != port.container_port:
            yield Problem(f"{path}.ports[{index}].hostPort", "must be equal to containerPort with hostNetwork: true")


def _check_restart_rules(container: Container, path: str) -> Iterator[Problem]:
    rules = container.restart_policy_rules
    if rules and container.restart_policy is None:
        yield Problem(f"{path}.restartPolicy", "required with restartPolicyRules")
    if len(rules) > _MOST_RULES:
        yield Problem(f"{path}.restartPolicyRules", f"must be no more than {_MOST_RULES}")
    for index, rule in enumerate(rules):
        here = f"{path}.restartPolicyRules[{index}]"
        if rule.action is None:
            yield Problem(f"{here}.action", "required")
        if rule.exit_codes is None:
            yield Problem(f"{here}.exitCodes", "required")
            continue
        if rule.exit_codes.operator is None:
            yield Problem(f"{here}.exitCodes.operator", "required")
        if len(rule.exit_codes.values) > _MOST_EXIT_CODES:
            yield Problem(f"{here}.exitCodes.values", f"must be no more than {_MOST_EXIT_CODES}")


def _check_probes_and_hooks(container: Container, around: Surroundings, path: str) -> Iterator[Problem]:
    yield from check_probe(container.liveness_probe, f"{path}.livenessProbe", once_is_success=True)
    yield from check_probe(container.startup_probe, f"{path}.startupProbe", once_is_success=True)
    yield from check_probe(container.readiness_probe, f"{path}.readinessProbe", once_is_success=False)
    yield from check_lifecycle(
        container.lifecycle,
        f"{path}.lifecycle",
        grace_seconds=around.spec.termination_grace_period_seconds or 0,
        os_name=around.spec.os.name if around.spec.os is not None else None,
    )


def _check_init_container(container: Container, around: Surroundings, path: str) -> Iterator[Problem]:
    """Check fields that only sidecars may have: other init containers have no probes and hooks."""
    if container.restart_policy == "Always":
        yield from _check_probes_and_hooks(container, around, path)
        return
    for name, value in (
        ("livenessProbe", container.liveness_probe),
        ("readinessProbe", container.readiness_probe),
        ("startupProbe", container.startup_probe),
        ("lifecycle", container.lifecycle),
    ):
        if value is not None:
            yield Problem(f"{path}.{name}", "may be set in an init container only with restartPolicy: Always")
    for index, policy in enumerate(container.resize_policy):
        if policy.restart_policy == "RestartContainer":
            yield Problem(
                f"{path}.resizePolicy[{index}].restartPolicy",
                "may be RestartContainer in an init container only with restartPolicy: Always",
            )
