"""The images that a pod's containers need: which of them the node has, and which the pod may use."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from activities.images.credentials import pull_credentials
from activities.images.reference import InvalidImage, with_default_tag
from activities.step_attempt import PodFault, StepAttempt, warning
from syncpod.cri import CriRuntime
from syncpod.cri.errors import CriError, TransportFault
from syncpod.cri.port import ImageStatus
from syncpod.messages.steps import Fault, StepEvent
from syncpod.pod import Container, ContainerKind, Pod


@dataclass(frozen=True)
class NeededImage:
    """An image that a container needs for its start: its own, or that of an image volume that it mounts."""

    image: str
    """The name in the pod's spec."""
    policy: str
    """`Always`, `IfNotPresent` or `Never`."""
    container: str
    volume: str = ""
    """The image volume's name; "" for the container's own."""

    @property
    def of_container(self) -> str:
        """The container's name for events about the image; "" for a volume's image, whose events are about the pod."""
        return "" if self.volume else self.container


@dataclass(frozen=True)
class FoundImages:
    """The images that a container needs, as the node has them."""

    own: ImageStatus
    volumes: Mapping[str, str]
    """The runtime's id of the image of each image volume that the container mounts, by the volume's name."""


def all_containers(pod: Pod) -> tuple[Container, ...]:
    """Return every container of the pod: init, normal, ephemeral."""
    return (*pod.spec.init_containers, *pod.spec.containers, *pod.spec.ephemeral_containers)


def container_of(pod: Pod, name: str) -> Container:
    """Return the pod's container of that name, of any kind. Raises KeyError."""
    for container in all_containers(pod):
        if container.name == name:
            return container
    raise KeyError(f"the pod has no container {name!r}")


def kind_of(pod: Pod, name: str) -> ContainerKind:
    """Return the kind of the container of that name, as in the kubelet's label container_type."""
    if any(container.name == name for container in pod.spec.init_containers):
        return "init_container"
    if any(container.name == name for container in pod.spec.ephemeral_containers):
        return "ephemeral_container"
    return "container"


def needed_images(pod: Pod, container: Container) -> tuple[NeededImage, ...]:
    """Return the images that a container needs: those of the image volumes it mounts, then its own.

    Mirrors kuberuntime_manager.go, v1.36, getImageVolumes and toKubeContainerImageVolumes: an image volume that cannot
    be pulled fails only the containers that mount it.
    """
    sources = {volume.name: volume.image for volume in pod.spec.volumes if volume.image is not None}
    mounted = (name for name in dict.fromkeys(mount.name for mount in container.volume_mounts) if name in sources)
    return (
        *(
            NeededImage(sources[name].reference, sources[name].pull_policy or "IfNotPresent", container.name, name)
            for name in mounted
        ),
        NeededImage(container.image, container.image_pull_policy or "IfNotPresent", container.name),
    )


async def missing_images(attempt: StepAttempt, pod: Pod) -> tuple[str, ...]:
    """Return the names of the containers for which an image is to be pulled, in the pod's order.

    An image also counts as missing if its registry has to be contacted before it is used, or if the runtime cannot look
    it up: the pull then reports why. With policy Never no image counts as missing: the start then reports the error.
    Raises TransportFault.
    """
    needs = [needed for each in all_containers(pod) for needed in needed_images(pod, each) if needed.policy != "Never"]
    distinct = tuple(dict.fromkeys((needed.image, needed.policy == "Always") for needed in needs))
    looks = (_is_missing(attempt, pod, image, verify=not always) for image, always in distinct)
    missing = dict(zip(distinct, await asyncio.gather(*looks), strict=True))
    wanting = {needed.container for needed in needs if missing[needed.image, needed.policy == "Always"]}
    return tuple(container.name for container in all_containers(pod) if container.name in wanting)


async def _is_missing(attempt: StepAttempt, pod: Pod, image: str, *, verify: bool) -> bool:
    try:
        found = await attempt.node.images.status(with_default_tag(image))
    except TransportFault:
        raise
    except (InvalidImage, CriError):
        return True
    return found is None or (verify and not await _may_use(attempt, pod, image, found))


async def look_at_images(
    attempt: StepAttempt, pod: Pod, container: Container, *, pulled: bool = False
) -> FoundImages | None:
    """Return the images that a container needs; None if one has to be pulled first.

    `pulled`: the images have just been pulled for this start, so nothing is verified again. Raises PodFault as
    `look_at_image` does.
    """
    needs = needed_images(pod, container)
    found = await asyncio.gather(*(look_at_image(attempt, pod, needed, pulled=pulled) for needed in needs))
    own = found[-1]
    if own is None or None in found:
        return None
    volumes = {needed.volume: image.id for needed, image in zip(needs, found, strict=True) if image and needed.volume}
    return FoundImages(own, volumes)


async def look_at_image(
    attempt: StepAttempt, pod: Pod, needed: NeededImage, *, pulled: bool = False
) -> ImageStatus | None:
    """Return the node's copy of an image; None if it must be pulled, even if only to check that the pod may use it.

    `pulled`: the image has just been pulled for this pod. Raises PodFault InvalidImageName, ImageInspectError or
    ErrImageNeverPull, each with its events (images/image_manager.go, v1.36, EnsureImageExists). ErrImageNeverPull
    has the same message for an absent image and for an image that this pod may not use.
    """
    reference = reference_of(needed)
    try:
        image = await attempt.node.images.status(reference)
    except TransportFault:
        raise
    except CriError as error:
        message = f'Failed to inspect image "{needed.image}": {error.message}'
        event = warning("InspectFailed", message, needed.of_container)
        raise image_fault(Fault.IMAGE_INSPECT_ERROR, message, needed, event) from error
    verified = pulled or needed.policy == "Always"
    if image is not None and not verified and not await _may_use(attempt, pod, needed.image, image):
        image = None
    if image is None and needed.policy == "Never":
        message = f'Container image "{needed.image}" is not present with pull policy of Never'
        event = warning(Fault.ERR_IMAGE_NEVER_PULL.value, message, needed.of_container)
        raise image_fault(Fault.ERR_IMAGE_NEVER_PULL, message, needed, event)
    return image


async def image_id(cri: CriRuntime, image: str) -> str | None:
    """Return the id of an image, by its name in a pod's spec; None if the node does not have it. Raises CriError."""
    try:
        found = await cri.image_status(with_default_tag(image))
    except InvalidImage:
        return None
    return found.id if found is not None else None


async def _may_use(attempt: StepAttempt, pod: Pod, image: str, found: ImageStatus) -> bool:
    """Return whether the pod may use an image that the node has, by the node's records of pulls."""
    records = attempt.node.pulls.records
    if not records.needs_credentials(image, found.id):
        return records.may_use(image, found.id, ())
    credentials = await pull_credentials(attempt, pod, image)
    return await asyncio.to_thread(records.may_use, image, found.id, credentials.matching)


def reference_of(needed: NeededImage) -> str:
    """Return the image with its tag. Raises PodFault InvalidImageName, with the kubelet's events."""
    try:
        return with_default_tag(needed.image)
    except InvalidImage as invalid:
        image = needed.image
        message = f'Failed to apply default image tag "{image}": couldn\'t parse image name "{image}": {invalid}'
        event = warning("InspectFailed", message, needed.of_container)
        raise image_fault(Fault.INVALID_IMAGE_NAME, message, needed, event) from invalid


def report_present(attempt: StepAttempt, needed: NeededImage, image: ImageStatus | None) -> None:
    """Emit the event that the image was present and nothing was pulled; `image` is None if its status was not read."""
    if image is not None and image.stands_for_machine:
        message = machine_image_message(needed.image)
    else:
        message = f'Container image "{needed.image}" already present on machine and can be accessed by the pod'
    attempt.emit("Pulled", message, needed.of_container)


def machine_image_message(image: str) -> str:
    """Return the message about an image without files, for which the kubelet's words would be wrong."""
    return (
        f'Nothing was pulled for image "{image}": the embedded runtime has no registry, so the container runs programs '
        "of this machine. `syncpod load` gives the image files of its own"
    )


def image_fault(fault: Fault, message: str, needed: NeededImage, event: StepEvent) -> PodFault:
    """Build the fault; after `event` comes the event that the kubelet emits for every start without its image."""
    return PodFault(fault, message, event, warning("Failed", f"Error: {fault.value}", needed.container))
