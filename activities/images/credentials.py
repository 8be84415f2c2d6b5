"""The credentials for pulling a pod's images: its pull secrets, and the node's own."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from temporalio import activity

from activities.images.reference import InvalidImage, repository_of
from activities.step_attempt import StepAttempt
from syncpod.cri.keyring import (
    Credential,
    DockerConfigInvalid,
    Keyring,
    SecretSource,
    credentials_in_secret,
)
from syncpod.objects import ObjectRef, ObjectUnreadable, references, values
from syncpod.pod import Pod, Secret


@dataclass(frozen=True)
class PullCredentials:
    """The credentials to try for an image, in this order, and the pod's Secrets that could not be used."""

    matching: tuple[Credential, ...]
    failed: tuple[str, ...] = ()
    """Names of Secrets that are missing, or whose content is not that of a pull secret."""


async def pull_credentials(attempt: StepAttempt, pod: Pod, image: str) -> PullCredentials:
    """Return the credentials of the pod's Secrets that match the image, then the node's.

    Mirrors kubelet_pods.go, getPullSecretsForPod, and credentialprovider/secrets/secrets.go, MakeDockerKeyring, v1.36.

    Difference: any Secret that cannot be used is named in an event, and the pull goes on without it. The kubelet does
    so only for a missing Secret; it silently skips a Secret of another type, and fails the pull if one is not JSON.
    """
    try:
        repository = repository_of(image)
    except InvalidImage:
        return PullCredentials(())
    return await asyncio.to_thread(_look_up, attempt, pod, repository)


def pull_secrets(pod: Pod) -> tuple[ObjectRef, ...]:
    """Return the Secrets that a pod names for its pulls, each once, in its order."""
    return tuple(dict.fromkeys(reference.ref for reference in references(pod) if reference.use == "pull"))


def _look_up(attempt: StepAttempt, pod: Pod, repository: str) -> PullCredentials:
    entries: list[tuple[str, Credential]] = []
    failed: list[str] = []
    for ref in pull_secrets(pod):
        try:
            entries += _entries(attempt, ref)
        except (DockerConfigInvalid, ObjectUnreadable, OSError) as why:
            activity.logger.warning("pull secret %s/%s cannot be used: %s", ref.namespace, ref.name, why)
            failed.append(ref.name)
    own = attempt.node.pulls.node_credentials.keyring()
    return PullCredentials((*Keyring(entries).lookup(repository), *own.lookup(repository)), tuple(failed))


def _entries(attempt: StepAttempt, ref: ObjectRef) -> list[tuple[str, Credential]]:
    """Return the credentials in a Secret. Raises DockerConfigInvalid, ObjectUnreadable, OSError."""
    secret = attempt.node.objects.get(ref)
    if not isinstance(secret, Secret):
        raise DockerConfigInvalid("it is not there")
    source = SecretSource(ref.namespace, ref.name, secret.metadata.uid)
    return credentials_in_secret(secret.type, values(secret), source)
