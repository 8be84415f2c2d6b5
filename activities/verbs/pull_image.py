"""pull_image: pull the images that one container needs: its own, and those of the image volumes that it mounts."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta

from activities.images.credentials import pull_credentials, pull_secrets
from activities.images.presence import (
    NeededImage,
    container_of,
    image_fault,
    kind_of,
    look_at_image,
    machine_image_message,
    missing_images,
    needed_images,
    reference_of,
    report_present,
)
from activities.images.progress import watched
from activities.node.clock import monotonic
from activities.node.metrics import count_failed_start, time_pull
from activities.step_attempt import PodFault, StepAttempt, warning
from syncpod.cri import SandboxConfig, errors
from syncpod.cri.keyring import Credential
from syncpod.go_durations import go_duration
from syncpod.messages.identity import pod_workflow_id
from syncpod.messages.steps import Fault, PullImage, StepEvent, StepResult
from syncpod.translation.sandbox_config import sandbox_config


async def pull_image(attempt: StepAttempt, request: PullImage) -> StepResult:
    """Pull the images of the container that its pull policies require; return which containers still lack an image.

    Mirrors images/image_manager.go, v1.36, EnsureImageExists, its events and messages included; the workflow does the
    back-off. A pull also counts as failed if the runtime lacks the image afterwards, or does not find it at the
    container's start. Otherwise no back-off would delay the next pull. (In a kubelet the start fails then.)

    Pulls are serial on the node unless configured otherwise. Pulls of the same image are always serial: the second
    finds the image that the first has pulled. A pull may be repeated: the runtime keeps the layers that it already has.
    A cancelled pull ends at once, even while it waits for its turn. A pull creates nothing in the pod, and runs in
    parallel with the pod's other steps.

    While the step pulls, and after it has failed, the node has a note that the pod waits for its pull secrets. When one
    of them changes, the back-off ends.

    Raises PodFault: ErrImagePull, InvalidImageName, RegistryUnavailable, SignatureValidationFailed, ErrImageNeverPull,
    ImageInspectError.
    """
    container = container_of(request.pod, request.container)
    try:
        for needed in needed_images(request.pod, container):
            await _ensure(attempt, request, needed)
    except PodFault as fault:
        count_failed_start(kind_of(request.pod, container.name), fault.fault)
        _wait_for_secrets(attempt, request)
        raise
    except BaseException:
        _wait_no_more(attempt, request)
        raise
    _wait_no_more(attempt, request)
    return StepResult(missing_images=await missing_images(attempt, request.pod))


def _wait_for_secrets(attempt: StepAttempt, request: PullImage) -> None:
    """Note on the node that the pod must pull again when one of its pull secrets changes."""
    for ref in pull_secrets(request.pod):
        attempt.node.waiting_for.setdefault(ref, set()).add(_waiter(attempt, request))


def _wait_no_more(attempt: StepAttempt, request: PullImage) -> None:
    for ref in pull_secrets(request.pod):
        waiters = attempt.node.waiting_for.get(ref, set())
        waiters.discard(_waiter(attempt, request))
        if not waiters:
            attempt.node.waiting_for.pop(ref, None)


def _waiter(attempt: StepAttempt, request: PullImage) -> tuple[str, str]:
    return pod_workflow_id(attempt.ref.namespace, attempt.ref.name), request.container


async def _ensure(attempt: StepAttempt, request: PullImage, needed: NeededImage) -> None:
    """Pull an image when it is this pull's turn, unless the image is present before that."""
    pulls = attempt.node.pulls
    if pulls.was_missed(attempt.ref.uid, request.container, needed.image):
        raise _not_there(needed, "the runtime had it after its pull, and does not find it for the container's start")
    ended, asked = pulls.ended, monotonic()
    if await _is_enough(attempt, request, needed):
        return
    attempt.doing = f"waits for other pulls to pull {needed.image}"
    async with pulls.turn(attempt, reference_of(needed)):
        if pulls.ended == ended or not await _is_enough(attempt, request, needed):
            await _pull(attempt, request, needed, asked)


async def _is_enough(attempt: StepAttempt, request: PullImage, needed: NeededImage) -> bool:
    """Return whether the node's image may be used without a pull, and if so emit the event; never for policy Always."""
    attempt.doing = f"looks for image {needed.image}"
    found = None if needed.policy == "Always" else await look_at_image(attempt, request.pod, needed)
    if found is None:
        return False
    report_present(attempt, needed, found)
    return True


async def _pull(attempt: StepAttempt, request: PullImage, needed: NeededImage, asked: float) -> None:
    """Pull, and record the credential that worked; `asked` is when this pull began to wait (monotonic seconds)."""
    node, records = attempt.node, attempt.node.pulls.records
    _wait_for_secrets(attempt, request)  # before the secrets are read, so that no later change is missed
    credentials = await pull_credentials(attempt, request.pod, needed.image)
    config = sandbox_config(
        request.pod, attempt=request.sandbox_attempt, node=node.context, incarnation=request.ref.incarnation
    )
    await asyncio.to_thread(records.intend, needed.image)
    try:
        attempt.emit_now("Pulling", f'Pulling image "{needed.image}"', needed.of_container)
        began = monotonic()
        async with watched(attempt, needed.image):
            used = await _try_each(attempt, needed, credentials.matching, config)
        ended = monotonic()
        image = await node.cri.image_status(reference_of(needed))
        if image is None:
            raise _not_there(needed, "the runtime reports that it pulled it, and does not find it afterwards")
    except BaseException as error:
        if isinstance(error, PodFault) and credentials.failed:
            attempt.events.append(_without_secrets(credentials.failed))
        await asyncio.to_thread(records.failed, needed.image)
        raise
    await asyncio.to_thread(records.pulled, needed.image, image.id, used)
    time_pull(ended - asked, image.size)
    if image.stands_for_machine:
        attempt.emit("Pulled", machine_image_message(needed.image), needed.of_container)
        return
    attempt.emit(
        "Pulled",
        f'Successfully pulled image "{needed.image}" in {elapsed(ended - began)} '
        f"({elapsed(ended - asked)} including waiting). Image size: {image.size} bytes.",
        needed.of_container,
    )


def _without_secrets(names: Sequence[str]) -> StepEvent:
    """Return the event that names the pull secrets that could not be read for a failed pull.

    It is emitted only if the pull failed (kubelet.go, v1.37, SyncPod): a secret may be missing without any effect.
    """
    message = f"Unable to retrieve some image pull secrets ({', '.join(names)}); "
    message += "attempting to pull the image may not succeed."
    return warning("FailedToRetrieveImagePullSecret", message)


def elapsed(seconds: float) -> str:
    """Return a duration as in the kubelet's event: Go's format, cut to milliseconds (image_manager.go, v1.36)."""
    return go_duration(timedelta(milliseconds=int(seconds * 1000)))


async def _try_each(
    attempt: StepAttempt, needed: NeededImage, credentials: tuple[Credential, ...], config: SandboxConfig
) -> Credential | None:
    """Pull with one credential after the other until one works, or anonymously if there is no credential.

    Returns the credential that worked; None if none was needed (kuberuntime_image.go, v1.36, PullImage). Raises
    PodFault, or TransportFault if the runtime does not answer.
    """
    reference, cri = reference_of(needed), attempt.node.cri
    if not attempt.node.pulls.rate.accept():
        raise _failed(needed, [errors.CriError("pull_image", "UNKNOWN", "pull QPS exceeded")])
    refusals: list[errors.CriError] = []
    for credential in credentials or (None,):
        try:
            await attempt.interruptible(cri.pull_image(reference, credential=credential, sandbox_config=config))
        except errors.CriError as error:
            if isinstance(error, errors.TransportFault) and reference not in error.message:
                raise
            # The error names the image, so the registry was unreachable or slow, and not the runtime. containerd 2
            # passes the registry's codes on.
            refusals.append(error)
        else:
            return credential
    raise _failed(needed, refusals) from refusals[-1]


def _not_there(needed: NeededImage, why: str) -> PodFault:
    """Return the fault of a pull that the runtime reports as done, although it does not have the image."""
    message = f'image "{needed.image}": {why}'
    event = warning("Failed", f"Failed to pull {message}", needed.of_container)
    return image_fault(Fault.ERR_IMAGE_PULL, message, needed, event)


def _failed(needed: NeededImage, refusals: list[errors.CriError]) -> PodFault:
    """Return the fault of a failed pull (evalCRIPullErr); a name that the runtime refuses is InvalidImageName.

    Several different errors become one text, as in the kubelet's aggregates; the fault is then ErrImagePull.
    """
    # The kubelet strips the code where it is Unknown (cri-client, remote_image.go, v1.36, PullImage).
    texts = tuple(dict.fromkeys(each.message if each.code == "UNKNOWN" else errors.go_error(each) for each in refusals))
    text = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    event = warning("Failed", f'Failed to pull image "{needed.image}": {text}', needed.of_container)
    because = f"image pull failed for {needed.image} because"
    error = refusals[0] if len(texts) == 1 else None
    match error:
        case errors.RegistryUnavailable():
            details = error.message.removeprefix("RegistryUnavailable")
            message = f"{because} the registry is unavailable{details}"
            return image_fault(Fault.REGISTRY_UNAVAILABLE, message, needed, event)
        case errors.SignatureValidationFailed():
            details = error.message.removeprefix("SignatureValidationFailed")
            message = f"{because} the signature validation failed{details}"
            return image_fault(Fault.SIGNATURE_VALIDATION_FAILED, message, needed, event)
        case errors.InvalidImageName():
            return image_fault(Fault.INVALID_IMAGE_NAME, text, needed, event)
        case _:
            return image_fault(Fault.ERR_IMAGE_PULL, text, needed, event)
