"""The downward API: fields of a pod and resources of its containers, as text."""

import re
from fractions import Fraction

from syncpod.pod import Container, ObjectFieldSelector, Pod, Quantity, ResourceFieldSelector, parse_quantity
from syncpod.pod.amounts import HUGE_PAGES
from syncpod.pod.go_text import go_quote
from syncpod.pod.origin import annotations_under_kubelet
from syncpod.pod.volumes import DownwardAPIVolumeFile
from syncpod.translation import ContainerConfigError
from syncpod.translation.context import NodeContext

_SUBSCRIPT = re.compile(r"(metadata\.(?:labels|annotations))\['(.*)'\]", re.DOTALL)

_IN_VOLUMES = ("metadata.name", "metadata.namespace", "metadata.uid", "metadata.labels", "metadata.annotations")
_RESOURCES = ("cpu", "memory", "ephemeral-storage")


def field_value(selector: ObjectFieldSelector, pod: Pod, node: NodeContext, pod_ips: tuple[str, ...], path: str) -> str:
    """Return the text of a field of the pod (kubelet_pods.go, v1.36, podFieldSelectorRuntimeValue).

    ``path`` is the selector's path in the pod, for errors. A missing label or annotation gives ``""``, and so do the
    pod's addresses while it has none. Raises :class:`ContainerConfigError` for a field that is not exposed.
    """
    meta, spec, wanted = pod.metadata, pod.spec, selector.field_path
    if selector.api_version not in ("", "v1"):
        raise ContainerConfigError(f"{path}.apiVersion: {selector.api_version!r} is not a version of Pod; use v1")
    subscript = _SUBSCRIPT.fullmatch(wanted)
    if subscript is not None:
        source = meta.labels if subscript[1] == "metadata.labels" else annotations_under_kubelet(meta)
        return source.get(subscript[2], "")
    match wanted:
        case "metadata.name":
            return meta.name
        case "metadata.namespace":
            return meta.namespace
        case "metadata.uid":
            return meta.uid
        case "metadata.labels":
            return format_map(meta.labels)
        case "metadata.annotations":
            return format_map(annotations_under_kubelet(meta))
        case "spec.nodeName" | "spec.host":
            return spec.node_name or node.name
        case "spec.serviceAccountName":
            return spec.service_account_name
        case "status.hostIP":
            return _host_addresses(node, path)[0]
        case "status.hostIPs":
            return ",".join(_host_addresses(node, path))
        case "status.podIP":
            return pod_ips[0] if pod_ips else ""
        case "status.podIPs":
            return ",".join(pod_ips)
        case _:
            raise ContainerConfigError(f"{path}.fieldPath: {wanted!r} is not a field that a container can be given")


def resource_value(
    selector: ResourceFieldSelector, pod: Pod, container: Container, node: NodeContext, path: str
) -> str:
    """Return a request or limit of a container, divided by the divisor and rounded up.

    If a limit is 0 or missing, the pod-level limit counts instead, or else the node's capacity (kubelet_resources.go,
    v1.36, defaultPodLimitsForDownwardAPI, and pkg/api/v1/resource/helpers.go, ExtractContainerResourceValue). A request
    that is not set is 0. Raises :class:`ContainerConfigError` for an unknown resource or container.
    """
    kind, _, resource = selector.resource.partition(".")
    if kind not in ("limits", "requests") or not (resource in _RESOURCES or resource.startswith(HUGE_PAGES)):
        raise ContainerConfigError(
            f"{path}.resource: {selector.resource!r} is not a resource that a container can be given"
        )
    if selector.container_name:
        named = (*pod.spec.containers, *pod.spec.init_containers)
        found = next((each for each in named if each.name == selector.container_name), None)
        if found is None:
            raise ContainerConfigError(f"{path}.containerName: the pod has no container {selector.container_name!r}")
        container = found
    if kind == "limits":
        amount = _limit(resource, pod, container, node, path)
    else:
        amount = parse_quantity(container.resources.requests.get(resource, "0"))
    divisor = parse_quantity(selector.divisor or "1")
    if resource == "cpu":
        return _rounded_up(amount.milli_value(), divisor.milli_value() or 1000)
    return _rounded_up(amount.value(), divisor.value() or 1)


def volume_field(file: DownwardAPIVolumeFile, pod: Pod, node: NodeContext, path: str) -> str:
    """Return the text of a file of a downwardAPI volume; ``path`` is the file's path in the pod.

    A volume may show the pod's metadata and a container's :func:`resource_value`; other fields are not known before the
    sandbox is made (downwardapi.go, v1.36, CollectData). Raises :class:`ContainerConfigError`.
    """
    if file.field_ref is not None:
        wanted = file.field_ref.field_path
        if wanted not in _IN_VOLUMES and _SUBSCRIPT.fullmatch(wanted) is None:
            raise ContainerConfigError(f"{path}.fieldRef.fieldPath: {wanted!r} is not a field that a volume can show")
        return field_value(file.field_ref, pod, node, (), f"{path}.fieldRef")
    if file.resource_field_ref is None:
        raise ContainerConfigError(f"{path}: required, one of fieldRef or resourceFieldRef")
    if not file.resource_field_ref.container_name:
        raise ContainerConfigError(f"{path}.resourceFieldRef.containerName: required")
    return resource_value(file.resource_field_ref, pod, pod.spec.containers[0], node, f"{path}.resourceFieldRef")


def format_map(entries: dict[str, str]) -> str:
    """Return ``key="value"`` lines in order of key, values quoted (pkg/fieldpath, v1.36, FormatMap)."""
    return "\n".join(f"{key}={go_quote(entries[key])}" for key in sorted(entries))


def _host_addresses(node: NodeContext, path: str) -> tuple[str, ...]:
    if not node.host.addresses:
        raise ContainerConfigError(f"{path}.fieldPath: node {node.name} has no IP address")
    return node.host.addresses


def _limit(resource: str, pod: Pod, container: Container, node: NodeContext, path: str) -> Quantity:
    """Return the limit on a container's use of a resource. Raises :class:`ContainerConfigError` if there is none."""
    own = parse_quantity(container.resources.limits.get(resource, "0"))
    if own.number > 0 or resource not in _RESOURCES:
        return own
    if pod.spec.resources is not None and resource in pod.spec.resources.limits:
        whole = parse_quantity(pod.spec.resources.limits[resource])
        if whole.number > 0:
            return whole
    capacity = {"cpu": node.host.cpus * 1000, "memory": node.host.memory_bytes, **node.capacity}
    if resource not in capacity:
        raise ContainerConfigError(f"{path}.resource: the container has no limit of {resource} to give")
    return Quantity(Fraction(capacity[resource], 1000 if resource == "cpu" else 1))


def _rounded_up(amount: int, divisor: int) -> str:
    return str(-(-amount // divisor))
