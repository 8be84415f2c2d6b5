"""The parts of a listing whose size a pod decides: termination messages and groups of users.

A listing is part of signals to the pod's workflow, of step results and of the workflow's state, so each byte is stored
many times. Each container also repeats the pod's groups. So all containers of a pod share a limited number of bytes, as
JSON. A control character takes six bytes in JSON, and the file of a termination message may have 4,096 of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from syncpod.lifecycle.observed import ObservedContainer
from syncpod.lifecycle.start_errors import START_ERROR, with_meaning
from syncpod.pod.wire import shortened

TERMINATION_MESSAGES_LIMIT: Final = 12 * 1024
"""The most bytes of all termination messages in a pod's status, shared equally by its containers
(MaxPodTerminationMessageLogLength)."""

GROUPS_LIMIT: Final = 12 * 1024
"""The most bytes of all groups of users in a pod's status, shared in the same way."""

_GENERATIONS: Final = 2
"""A status shows the last two instances of each container."""


def within_shares(containers: Sequence[ObservedContainer]) -> tuple[ObservedContainer, ...]:
    """Return a pod's listed containers, with each message cut to its share: the part that is shown.

    A user whose groups exceed their share is left out entirely, as if the runtime had not reported the user.

    All messages together take no more than twice the limit, as JSON. The message of a failed start keeps its meaning
    (`syncpod.lifecycle.start_errors`), for which it may exceed its share by a few words. Mirrors status_manager.go,
    v1.36, normalizeStatus, which cuts only the status.
    """
    names = len({each.name for each in containers})
    shares = max(_GENERATIONS * names, len(containers), 1)
    messages = max(6, _GENERATIONS * TERMINATION_MESSAGES_LIMIT // shares)
    groups = _GENERATIONS * GROUPS_LIMIT // shares
    return tuple(_without_many_groups(_cut(each, messages), groups) for each in containers)


def _without_many_groups(container: ObservedContainer, share: int) -> ObservedContainer:
    linux = container.user.linux if container.user is not None else None
    if linux is None or sum(len(str(group)) + 1 for group in linux.supplemental_groups) <= share:
        return container
    return container.model_copy(update={"user": None})


def _cut(container: ObservedContainer, share: int) -> ObservedContainer:
    message = shortened(container.message, share)
    if message == container.message:
        return container
    if container.reason == START_ERROR:
        message = with_meaning(container.message, message)
    return container.model_copy(update={"message": message})
