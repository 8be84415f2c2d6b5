"""What a pod's termination messages may take together, in its status and in each listing of its containers.

A listing is in the signals to the pod's workflow, in the results of its steps and in its state, so each byte of a
message is stored many times. It counts as what it takes there: a control character, of which a file may have 4,096,
takes six bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from syncpod.lifecycle.observed import ObservedContainer
from syncpod.lifecycle.start_errors import START_ERROR, said_shortly
from syncpod.pod.json_size import shortened

TERMINATION_MESSAGES_LIMIT: Final = 12 * 1024
"""Bytes of all termination messages in a pod's status, shared equally by its containers
(MaxPodTerminationMessageLogLength)."""

_GENERATIONS: Final = 2
"""A status shows the last two instances of each container."""


def within_share(containers: Sequence[ObservedContainer]) -> tuple[ObservedContainer, ...]:
    """Return a pod's listed containers, with each message cut to its share: what is shown of it, and no more.

    All messages together take no more than twice the limit, as JSON. A failed start's message goes on to mean the same
    (`syncpod.lifecycle.start_errors`), for which it may need a few words more. Mirrors status_manager.go, v1.36,
    normalizeStatus, which cuts the status alone.
    """
    names = len({each.name for each in containers})
    share = _GENERATIONS * TERMINATION_MESSAGES_LIMIT // max(_GENERATIONS * names, len(containers), 1)
    return tuple(_cut(each, max(share, 6)) for each in containers)


def _cut(container: ObservedContainer, share: int) -> ObservedContainer:
    message = shortened(container.message, share)
    if message == container.message:
        return container
    if container.reason == START_ERROR:
        message = said_shortly(container.message, message)
    return container.model_copy(update={"message": message})
