"""As whom a pod's image may be pulled: its pull secrets, and the node's own credentials."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from temporalio import activity

from activities.attempt import Attempt
from activities.images.reference import InvalidImage, repository_of
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
    """What is to be tried for an image, in this order; and which of the pod's Secrets are no help."""

    matching: tuple[Credential, ...]
    failed: tuple[str, ...] = ()
    """Names of Secrets that are missing, or do not hold what a pull secret holds."""


async def pull_credentials(attempt: Attempt, pod: Pod, image: str) -> PullCredentials:
    """Return the credentials of the pod's Secrets that match the image, then the node's.

    Mirrors kubelet_pods.go, getPullSecretsForPod, and credentialprovider/secrets/secrets.go, MakeDockerKeyring, v1.36.

    Difference: a Secret that cannot be read is named in an event and done without, whatever is wrong with it; for the
    kubelet a missing one is, another type is passed over in silence, and one that is no JSON fails the pull.
    """
    try:
        repository = repository_of(image)
    except InvalidImage:
        return PullCredentials(())
    return await asyncio.to_thread(_look_up, attempt, pod, repository)


def pull_secrets(pod: Pod) -> tuple[ObjectRef, ...]:
    """Return the Secrets that a pod names for its pulls, each once, in its order."""
    return tuple(dict.fromkeys(reference.ref for reference in references(pod) if reference.use == "pull"))


def _look_up(attempt: Attempt, pod: Pod, repository: str) -> PullCredentials:
    entries: list[tuple[str, Credential]] = []
    failed: list[str] = []
    for ref in pull_secrets(pod):
        try:
            entries += _entries(attempt, ref)
        except (DockerConfigInvalid, ObjectUnreadable, OSError) as why:
            activity.logger.warning("pull secret %s/%s is no help: %s", ref.namespace, ref.name, why)
            failed.append(ref.name)
    own = attempt.node.pulls.node_credentials.keyring()
    return PullCredentials((*Keyring(entries).lookup(repository), *own.lookup(repository)), tuple(failed))


def _entries(attempt: Attempt, ref: ObjectRef) -> list[tuple[str, Credential]]:
    """Return what a Secret says of registries. Raises DockerConfigInvalid, ObjectUnreadable, OSError."""
    secret = attempt.node.objects.get(ref)
    if not isinstance(secret, Secret):
        raise DockerConfigInvalid("it is not there")
    source = SecretSource(ref.namespace, ref.name, secret.metadata.uid)
    return credentials_in_secret(secret.type, values(secret), source)
