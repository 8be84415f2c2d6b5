"""A container's environment variables, and the parts of volumes that it mounts.

Both are prepared in a thread of the pod, because a volume may lie on a file system that hangs. Both are ready before
the container is created.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from temporalio import activity

from activities.node.context import Node
from activities.step_attempt import StepAttempt
from syncpod.kernel.beneath import open_directory, read_beneath
from syncpod.messages.identity import pod_workflow_id
from syncpod.node.pod_threads import DiskWork
from syncpod.objects import ObjectRef, ObjectUnknown, ObjectUnreadable, values
from syncpod.pod import ConfigMap, Container, ContainerKind, Pod
from syncpod.redaction import of_process
from syncpod.translation import ContainerConfigError
from syncpod.translation.container_config import container_path, container_variables
from syncpod.translation.context import NodeContext
from syncpod.translation.env import NO_SOURCES, EnvFile, ObjectMissing, Sources, wanted_files, wanted_objects
from syncpod.translation.mounts import volume_places
from syncpod.translation.sub_paths import plan_sub_paths, sub_path_texts, sub_paths_directory
from syncpod.volumes.subpath import SubPath, SubPathRefused, clear_sub_paths, prepare_sub_path, refused_part
from syncpod.volumes.visibility import is_the_machines

_LARGEST_ENV_FILE = 1 << 20
"""The most bytes of one file with variables: the limit of a ConfigMap. Difference: the kubelet reads a file of any
size."""
_LARGEST_ENV_FILES = 8 << 20
"""The most bytes of all files together that one container's variables refer to. A manifest may name any number of
files, and all are in the worker's memory at the same time. The largest environment that Linux allows is a quarter of
this."""


async def variables_of(
    attempt: StepAttempt, pod: Pod, container: Container, kind: ContainerKind, pod_ips: tuple[str, ...]
) -> dict[str, str]:
    """Return a container's environment, from the ConfigMaps, Secrets and files that the node has now.

    If a required object is missing, or not yet received from the cluster, the node first notes that this pod waits for
    it, and then looks it up once more. So either this lookup finds the object, or the object's writer finds the note.
    The values of Secrets are hidden in all texts from then on. Raises
    :class:`~syncpod.translation.ContainerConfigError`, OSError.
    """
    noted: set[ObjectRef] = set()
    while True:
        sources = NO_SOURCES
        try:
            if wanted_objects(pod, container) or wanted_files(container):
                attempt.doing = f"reads the ConfigMaps and Secrets of {container.name}"
                sources = await attempt.on_disk(DiskWork.READ, partial(_read, attempt.node, pod, container))
                of_process.add(sources.secrets())
            return container_variables(
                pod, container, kind=kind, pod_ips=pod_ips, node=attempt.node.context, sources=sources
            )
        except ObjectMissing as missing:
            if missing.ref in noted:
                raise
            noted.add(missing.ref)
            waiter = pod_workflow_id(attempt.ref.namespace, attempt.ref.name), container.name
            attempt.node.waiting_for.setdefault(missing.ref, set()).add(waiter)


async def sub_paths_of(
    attempt: StepAttempt, pod: Pod, container: Container, kind: ContainerKind, variables: Mapping[str, str]
) -> dict[int, str]:
    """Prepare the parts of volumes that a container mounts; return the path of each by the index of its mount.

    The path is a place on the node, or one inside an image. Files that were prepared for an earlier instance are
    removed. Raises :class:`~syncpod.translation.ContainerConfigError`, UnsafeName, OSError.
    """
    texts = sub_path_texts(container, variables, container_path(pod, container.name, kind))
    if not texts:
        return {}
    attempt.doing = f"prepares the parts of volumes that {container.name} mounts"
    preparing = partial(_prepare, attempt.node.context, pod, container, texts)
    places = await attempt.on_disk(DiskWork.MAKE, preparing)
    return {**texts, **places}


def _read(node: Node, pod: Pod, container: Container) -> Sources:
    """Read those objects and files that a container's environment refers to and that exist. Blocks."""
    objects: dict[ObjectRef, Mapping[str, bytes]] = {}
    for ref in wanted_objects(pod, container):
        try:
            found = node.objects.get(ref)
        except ObjectUnknown as error:
            raise ObjectMissing(ref, str(error)) from error
        except ObjectUnreadable as error:
            raise ContainerConfigError(str(error)) from error
        if isinstance(found, ConfigMap):
            objects[ref] = {key: text.encode() for key, text in found.data.items()}
        elif found is not None:
            objects[ref] = values(found)
    files: dict[tuple[str, str], EnvFile] = {}
    if wanted := wanted_files(container):
        places, room = volume_places(pod, node.context), _LARGEST_ENV_FILES
        for volume, path in sorted(wanted):
            if volume in places:
                file = files[volume, path] = _read_file(places[volume], path)
                room -= len(file.content or b"")
                if room < 0:
                    raise ContainerConfigError(
                        f"the files of variables of container {container.name} have more than {_LARGEST_ENV_FILES} "
                        "bytes together"
                    )
    return Sources(objects, files)


def _read_file(place: Path, path: str) -> EnvFile:
    try:
        root = open_directory(place)
        try:
            content: bytes | None = read_beneath(root, path, _LARGEST_ENV_FILE)
        finally:
            os.close(root)
    except OSError as error:
        activity.logger.warning("%s: %s", place / path, error)
        content = None
    return EnvFile(str(place / path), content)


def _prepare(node: NodeContext, pod: Pod, container: Container, texts: Mapping[int, str]) -> dict[int, str]:
    """Prepare the parts that lie on the node. Blocks. Raises ContainerConfigError, UnsafeName, OSError."""
    plans = plan_sub_paths(pod, container, node, texts)
    if not plans:
        return {}
    if node.may_mount:
        clear_sub_paths(sub_paths_directory(node, pod.metadata.uid), container.name)
    elif not node.hands_over_paths:
        raise ContainerConfigError(
            "a part of a volume (subPath) cannot be mounted here: the runtime does not see the worker's mounts, and a "
            "path in the volume could lead the runtime, which has more rights, out of the volume"
        )
    return {index: str(_prepare_one(node, plan)) for index, plan in sorted(plans.items())}


def _prepare_one(node: NodeContext, plan: SubPath) -> Path:
    """Prepare one part. If that fails, only the worker's log has the cause, and the part's path is not reported at all.

    The path may contain a Secret's value, and the causes of an error would be written to the pod's history.
    """
    try:
        if node.has_own_files and not _is_shared(node, plan.root):
            why = f"the machine's {plan.root} is not at this path here, where the worker has files of its own"
            raise refused_part("prepare subPath", plan) from FileNotFoundError(errno.ENOENT, why)
        return prepare_sub_path(plan, may_mount=node.may_mount)
    except SubPathRefused as refused:
        cause = refused.__cause__
        activity.logger.warning(
            "%s: %s", refused, cause.strerror if isinstance(cause, OSError) else type(cause).__name__
        )
        raise ContainerConfigError(str(refused)) from None


def _is_shared(node: NodeContext, place: Path) -> bool:
    """Return whether worker and runtime have the same files at a volume's path, as they have in the node's own."""
    own = (node.state_dir, node.memory_dir)
    return any(place.is_relative_to(directory) for directory in own) or is_the_machines(place)
