"""The parts of its volumes that a container mounts (subPath, subPathExpr), as plans for :mod:`syncpod.volumes`."""

from collections.abc import Mapping
from pathlib import Path

from syncpod.pod import Container, Pod, VolumeMount
from syncpod.pod.expansion import LONGEST_PATH, TooLong, expand, references
from syncpod.translation import ContainerConfigError
from syncpod.translation.context import NodeContext
from syncpod.translation.mounts import volume_places
from syncpod.translation.paths import pod_directory, safe_name
from syncpod.volumes.subpath import SubPath


def sub_path_texts(container: Container, variables: Mapping[str, str], path: str) -> dict[int, str]:
    """Return the sub-path of each mount that has one, by the mount's index.

    ``variables`` is the container's environment, ``path`` its path in the pod. Messages show an expression as written,
    because its result may be secret. Raises :class:`ContainerConfigError` (kubelet_pods.go, v1.36, makeMounts, and
    container/helpers.go, ExpandContainerVolumeMounts).
    """
    wanted = {
        index: _text(mount, variables, f"{path}.volumeMounts[{index}]")
        for index, mount in enumerate(container.volume_mounts)
    }
    return {index: text for index, text in wanted.items() if text}


def plan_sub_paths(pod: Pod, container: Container, node: NodeContext, texts: Mapping[int, str]) -> dict[int, SubPath]:
    """Return the plan for each mount in `texts` whose volume has a directory on the node.

    The runtime itself mounts a part of an image volume. Raises :class:`~syncpod.translation.paths.UnsafeName`.
    """
    volumes, places = volume_places(pod, node), sub_paths_directory(node, pod.metadata.uid)
    owner = safe_name(container.name, "spec.containers[].name")
    plans = {}
    for index, text in texts.items():
        name = container.volume_mounts[index].name
        if name in volumes:
            place = places / safe_name(name, "spec.volumes[].name") / owner / str(index)
            plans[index] = SubPath(volume=name, container=owner, root=volumes[name], relative=text, place=place)
    return plans


def sub_paths_directory(node: NodeContext, uid: str) -> Path:
    """Return the directory in which sub-paths of a pod's volumes are bind-mounted.

    Raises :class:`~syncpod.translation.paths.UnsafeName`.
    """
    return pod_directory(node, uid) / "volume-subpaths"


def _text(mount: VolumeMount, variables: Mapping[str, str], path: str) -> str:
    text, written = mount.sub_path, mount.sub_path
    if mount.sub_path_expr:
        written = mount.sub_path_expr
        if missing := sorted(name for name in references(written) if not variables.get(name)):
            raise ContainerConfigError(f"missing value for {', '.join(missing)}")
        try:
            text = expand(written, variables, most=LONGEST_PATH)
        except TooLong as wrong:
            raise ContainerConfigError(f"{path}.subPathExpr: {wrong}") from None
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ContainerConfigError(f"{path}.subPathExpr: refers to a value that is not UTF-8 text") from None
    if text.startswith("/"):
        raise ContainerConfigError(f"error SubPath `{written}` must not be an absolute path")
    if ".." in text.split("/"):
        raise ContainerConfigError(f"unable to provision SubPath `{written}`: must not contain '..'")
    return text
