"""The parts of a listing whose size a pod decides: termination messages and groups of users.

A listing is in the signals to the pod's workflow, in the results of its steps and in its state, so each of its bytes is
stored many times, and each container repeats the groups of the pod. All containers together have a limited number of
bytes for them, as JSON: a control character, of which a message's file may have 4,096, takes six there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from syncpod.lifecycle.observed import ObservedContainer
from syncpod.lifecycle.start_errors import START_ERROR, said_shortly
from syncpod.pod.wire import shortened

TERMINATION_MESSAGES_LIMIT: Final = 12 * 1024
"""Bytes of all termination messages in a pod's status, shared equally by its containers
(MaxPodTerminationMessageLogLength)."""

GROUPS_LIMIT: Final = 12 * 1024
"""Bytes of all groups of users in a pod's status, shared in the same way."""

_GENERATIONS: Final = 2
"""A status shows the last two instances of each container."""


def within_shares(containers: Sequence[ObservedContainer]) -> tuple[ObservedContainer, ...]:
    """Return a pod's listed containers, with each message cut to its share: the part that is shown.

    A user with more groups than its share has room for is not listed at all, as if the runtime did not say it.

    All messages together take no more than twice the limit, as JSON. A failed start's message goes on to mean the same
    (`syncpod.lifecycle.start_errors`), for which it may need a few words more. Mirrors status_manager.go, v1.36,
    normalizeStatus, which cuts the status alone.
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
        message = said_shortly(container.message, message)
    return container.model_copy(update={"message": message})
