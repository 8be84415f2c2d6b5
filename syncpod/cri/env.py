"""The environment of a container."""

from syncpod.cri.config_error import ContainerConfigError
from syncpod.cri.downward import field_value, resource_value
from syncpod.cri.expansion import expand
from syncpod.cri.node import NodeContext
from syncpod.pod import Container, EnvVarSource, Pod


def environment(
    pod: Pod, container: Container, node: NodeContext, pod_ips: tuple[str, ...], path: str
) -> dict[str, str]:
    """Return the container's variables in the order in which they are first declared; a later one of a name wins.

    A value sees the variables declared before it. There are no service variables without a cluster, and ConfigMaps and
    Secrets are not brought here: whatever refers to them is an error that names the field. ``path`` is the container's
    place in the pod. Raises :class:`ContainerConfigError` (kubelet_pods.go, v1.36, makeEnvironmentVariables;
    difference: the kubelet hands them over in the order of a Go map, which is none).
    """
    if container.env_from:
        raise ContainerConfigError(f"{path}.envFrom: ConfigMaps and Secrets are not supported by this version")
    variables: dict[str, str] = {}
    for index, variable in enumerate(container.env):
        value = variable.value
        if value:
            value = expand(value, variables)
        elif variable.value_from is not None:
            source_path = f"{path}.env[{index}].valueFrom"
            value = _from_source(variable.value_from, pod, container, node, pod_ips, source_path)
        variables[variable.name] = value
    return variables


def _from_source(
    source: EnvVarSource, pod: Pod, container: Container, node: NodeContext, pod_ips: tuple[str, ...], path: str
) -> str:
    if source.field_ref is not None:
        return field_value(source.field_ref, pod, node, pod_ips, f"{path}.fieldRef")
    if source.resource_field_ref is not None:
        return resource_value(source.resource_field_ref, pod, container, node, f"{path}.resourceFieldRef")
    wanted = next(
        (
            name
            for name, reference in (
                ("configMapKeyRef", source.config_map_key_ref),
                ("secretKeyRef", source.secret_key_ref),
                ("fileKeyRef", source.file_key_ref),
            )
            if reference is not None
        ),
        None,
    )
    if wanted is None:
        raise ContainerConfigError(f"{path}: required, one of fieldRef or resourceFieldRef")
    raise ContainerConfigError(f"{path}.{wanted}: not supported by this version")
