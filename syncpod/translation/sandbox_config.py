"""Pod to PodSandboxConfig (kuberuntime_sandbox.go, v1.36, generatePodSandboxConfig)."""

from protos.cri.v1.api_pb2 import LinuxPodSandboxConfig, PodSandboxConfig, PodSandboxMetadata, PortMapping
from syncpod.pod import Container, Pod
from syncpod.pod.validation.syntax import dotted_sysctl
from syncpod.translation.cgroup_paths import pod_cgroup
from syncpod.translation.context import NodeContext
from syncpod.translation.dns import pod_dns
from syncpod.translation.hostname import kernel_hostname
from syncpod.translation.labels import sandbox_annotations, sandbox_labels
from syncpod.translation.paths import log_directory_of
from syncpod.translation.resources import overhead_resources, sandbox_resources
from syncpod.translation.security import sandbox_security_context


def sandbox_config(pod: Pod, *, attempt: int, node: NodeContext, incarnation: str) -> PodSandboxConfig:
    """Return the sandbox's config; equal arguments give equal configs.

    RunPodSandbox sends it, and so does each CreateContainer and PullImage for that sandbox. ``node.host.resolver`` is
    the host's current resolver. Raises :class:`SandboxConfigError` for a host name that the kernel does not accept, and
    :class:`~syncpod.translation.paths.UnsafeName` for names that lead out of their directories.
    """
    meta = pod.metadata
    dns, _ = pod_dns(pod, node.host.resolver, node.cluster_dns)
    return PodSandboxConfig(
        metadata=PodSandboxMetadata(name=meta.name, namespace=meta.namespace, uid=meta.uid, attempt=attempt),
        hostname="" if pod.spec.host_network else kernel_hostname(pod, node.cluster_dns.domain),
        log_directory=str(log_directory_of(pod, node)),
        dns_config=dns,
        port_mappings=_port_mappings(pod),
        labels=sandbox_labels(pod, node),
        annotations=sandbox_annotations(pod, node, incarnation),
        linux=LinuxPodSandboxConfig(
            cgroup_parent=str(pod_cgroup(node, pod)),
            security_context=sandbox_security_context(pod),
            sysctls=_sysctls(pod),
            overhead=overhead_resources(pod, node.host),
            resources=sandbox_resources(pod, node.host),
        ),
    )


def runtime_handler(pod: Pod) -> str:
    """Return the runtime handler that the pod names; ``""`` is the runtime's default.

    Difference: with no API server there are no RuntimeClass objects, so runtimeClassName names the handler itself.
    """
    return pod.spec.runtime_class_name or ""


def _port_mappings(pod: Pod) -> list[PortMapping]:
    """Return every port of main containers and sidecars; the runtime ignores those without a host port.

    Duplicate ports of a container count once: those with one name or, without names, equal in all fields
    (container/helpers.go, MakePortMappings). Difference: the kubelet silently leaves out the host ports of sidecars.
    """
    sidecars = (each for each in pod.spec.init_containers if each.restart_policy == "Always")
    return [mapping for container in (*pod.spec.containers, *sidecars) for mapping in _container_ports(container)]


def _container_ports(container: Container) -> list[PortMapping]:
    ports: dict[object, PortMapping] = {}
    for port in container.ports:
        key = port.name or (port.host_ip, port.protocol, port.container_port, port.host_port)
        ports.setdefault(
            key,
            PortMapping(
                protocol=port.protocol or "TCP",
                container_port=port.container_port,
                host_port=port.host_port or 0,
                host_ip=port.host_ip,
            ),
        )
    return list(ports.values())


def _sysctls(pod: Pod) -> dict[str, str]:
    security = pod.spec.security_context
    return {dotted_sysctl(each.name): each.value for each in security.sysctls} if security is not None else {}
