"""Which of a pod's images the node has, and whether a container may go on without a pull."""

from __future__ import annotations

import asyncio

from activities.attempt import Attempt, PodFault, warning
from activities.image_reference import InvalidImage, with_default_tag
from syncpod.cri import CriRuntime
from syncpod.cri.errors import CriError, TransportFault
from syncpod.cri.port import ImageStatus
from syncpod.messages import ContainerKind, Fault, StepEvent
from syncpod.pod import Container, Pod


def all_containers(pod: Pod) -> tuple[Container, ...]:
    """Return every container of the pod: init, normal, ephemeral."""
    return (*pod.spec.init_containers, *pod.spec.containers, *pod.spec.ephemeral_containers)


def container_of(pod: Pod, name: str) -> Container:
    """Return the pod's container of that name, of whatever kind. Raises KeyError."""
    for container in all_containers(pod):
        if container.name == name:
            return container
    raise KeyError(f"the pod has no container {name!r}")


def kind_of(pod: Pod, name: str) -> ContainerKind:
    """Return what kind of container that is: the kubelet's container_type."""
    if any(container.name == name for container in pod.spec.init_containers):
        return "init_container"
    if any(container.name == name for container in pod.spec.ephemeral_containers):
        return "ephemeral_container"
    return "container"


async def missing_images(cri: CriRuntime, pod: Pod) -> tuple[str, ...]:
    """Return the names of the containers whose image the node has not got, in the pod's order.

    An image that the runtime cannot be asked about counts as missing: the pull finds out why, and says so. Raises
    TransportFault.
    """
    containers = all_containers(pod)
    images = tuple(dict.fromkeys(container.image for container in containers))
    present = dict(zip(images, await asyncio.gather(*(_is_present(cri, image) for image in images)), strict=True))
    return tuple(container.name for container in containers if not present[container.image])


async def _is_present(cri: CriRuntime, image: str) -> bool:
    try:
        return await cri.image_status(with_default_tag(image)) is not None
    except TransportFault:
        raise
    except (InvalidImage, CriError):
        return False


def reference_of(container: Container) -> str:
    """Return the container's image with its tag. Raises PodFault InvalidImageName, with the kubelet's events."""
    try:
        return with_default_tag(container.image)
    except InvalidImage as invalid:
        image = container.image
        message = f'Failed to apply default image tag "{image}": couldn\'t parse image name "{image}": {invalid}'
        told = warning("InspectFailed", message, container.name)
        raise image_fault(Fault.INVALID_IMAGE_NAME, message, container, told) from invalid


async def look_at_image(attempt: Attempt, container: Container) -> ImageStatus | None:
    """Return what the node has of the container's image, None when it has to be pulled.

    Raises PodFault: InvalidImageName, ImageInspectError, or ErrImageNeverPull for an image that is absent and must not
    be pulled; each with its events (images/image_manager.go, v1.36, EnsureImageExists).
    """
    reference = reference_of(container)
    try:
        image = await attempt.node.cri.image_status(reference)
    except TransportFault:
        raise
    except CriError as error:
        message = f'Failed to inspect image "{container.image}": {error.message}'
        told = warning("InspectFailed", message, container.name)
        raise image_fault(Fault.IMAGE_INSPECT_ERROR, message, container, told) from error
    if image is None and container.image_pull_policy == "Never":
        message = f'Container image "{container.image}" is not present with pull policy of Never'
        told = warning(Fault.ERR_IMAGE_NEVER_PULL.value, message, container.name)
        raise image_fault(Fault.ERR_IMAGE_NEVER_PULL, message, container, told)
    return image


def say_present(attempt: Attempt, container: Container) -> None:
    """Say that the image was there and nothing was pulled."""
    message = f'Container image "{container.image}" already present on machine and can be accessed by the pod'
    attempt.say("Pulled", message, container.name)


def image_fault(fault: Fault, message: str, container: Container, told: StepEvent) -> PodFault:
    """Build the fault; `told` is followed by the event that the kubelet has for every start without its image."""
    return PodFault(fault, message, told, warning("Failed", f"Error: {fault.value}", container.name))
