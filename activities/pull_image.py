"""pull_image: fetch the image of one container."""

from __future__ import annotations

import time

from activities.attempt import Attempt, PodFault, warning
from activities.images import (
    container_of,
    image_fault,
    kind_of,
    look_at_image,
    missing_images,
    reference_of,
    say_present,
)
from activities.metrics import count_failed_start
from activities.wording import go_duration, go_error
from syncpod.cri import errors
from syncpod.cri.sandbox_config import sandbox_config
from syncpod.messages import Fault, PullImage, StepResult
from syncpod.pod import Container


async def pull_image(attempt: Attempt, request: PullImage) -> StepResult:
    """Pull the image if its policy asks for that; say for which of the pod's containers it is missing still.

    Mirrors images/image_manager.go, v1.36, EnsureImageExists, its events and messages included; its back-off is the
    workflow's. Pulls are serial on the node unless it is told otherwise. A pull may be repeated: the runtime goes on
    with the layers that it has. Cancelled, it ends at once, and so does waiting for one's turn.

    Raises PodFault: ErrImagePull, InvalidImageName, RegistryUnavailable, SignatureValidationFailed, ErrImageNeverPull,
    ImageInspectError.
    """
    container = container_of(request.pod, request.container)
    try:
        if not await _is_enough(attempt, container):
            await _pull_in_turn(attempt, request, container)
    except PodFault as fault:
        count_failed_start(kind_of(request.pod, container.name), fault.fault)
        raise
    return StepResult(missing_images=await missing_images(attempt.node.cri, request.pod))


async def _is_enough(attempt: Attempt, container: Container) -> bool:
    """Say whether the image that the node has will do, and say so in an event."""
    attempt.doing = f"looks for image {container.image}"
    if container.image_pull_policy == "Always" or await look_at_image(attempt, container) is None:
        return False
    say_present(attempt, container)
    return True


async def _pull_in_turn(attempt: Attempt, request: PullImage, container: Container) -> None:
    """Pull once it is this pull's turn, unless the one before it was for the same image."""
    slots = attempt.node.pull_slots
    asked = time.monotonic()
    waits = slots.locked()
    attempt.doing = f"waits for other pulls to pull {container.image}"
    await attempt.interruptible(slots.acquire())
    try:
        if waits and await _is_enough(attempt, container):
            return
        await _pull(attempt, request, container, asked)
    finally:
        slots.release()


async def _pull(attempt: Attempt, request: PullImage, container: Container, asked: float) -> None:
    node = attempt.node
    reference = reference_of(container)
    config = sandbox_config(
        request.pod, attempt=request.sandbox_attempt, node=node.context, incarnation=request.ref.incarnation
    )
    attempt.say("Pulling", f'Pulling image "{container.image}"', container.name)
    began = time.monotonic()
    attempt.doing = f"pulls {container.image}"
    try:
        await attempt.interruptible(node.cri.pull_image(reference, sandbox_config=config))
    except errors.CriError as error:
        if isinstance(error, errors.TransportFault) and reference not in error.message:
            raise
        # It names the image: the registry was away or slow, not the runtime (containerd 2 passes such codes on).
        raise _failed(container, error) from error
    ended = time.monotonic()
    image = await node.cri.image_status(reference)
    attempt.say(
        "Pulled",
        f'Successfully pulled image "{container.image}" in {go_duration(ended - began)} '
        f"({go_duration(ended - asked)} including waiting). Image size: {image.size if image else 0} bytes.",
        container.name,
    )


def _failed(container: Container, error: errors.CriError) -> PodFault:
    """Word a failed pull (evalCRIPullErr); a name that only the runtime refuses is an InvalidImageName here."""
    # The kubelet strips the code where it is Unknown (cri-client, remote_image.go, v1.36, PullImage).
    text = error.message if error.code == "UNKNOWN" else go_error(error)
    told = warning("Failed", f'Failed to pull image "{container.image}": {text}', container.name)
    because = f"image pull failed for {container.image} because"
    match error:
        case errors.RegistryUnavailable():
            details = error.message.removeprefix("RegistryUnavailable")
            message = f"{because} the registry is unavailable{details}"
            return image_fault(Fault.REGISTRY_UNAVAILABLE, message, container, told)
        case errors.SignatureValidationFailed():
            details = error.message.removeprefix("SignatureValidationFailed")
            message = f"{because} the signature validation failed{details}"
            return image_fault(Fault.SIGNATURE_VALIDATION_FAILED, message, container, told)
        case errors.InvalidImageName():
            return image_fault(Fault.INVALID_IMAGE_NAME, text, container, told)
        case _:
            return image_fault(Fault.ERR_IMAGE_PULL, text, container, told)
