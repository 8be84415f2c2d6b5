"""The versions of the kubelet whose decisions a node can take.

Their decisions differ in a few places. Each of these places reads a property of :class:`KubeletVersion`, so a search
for that name finds all of them.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class KubeletVersion(StrEnum):
    """A version of the kubelet whose decisions were recorded from that kubelet itself."""

    V1_36 = "1.36"
    V1_37 = "1.37"

    @property
    def looks_at_newest_sandbox_only(self) -> bool:
        """Whether init containers are judged only by instances of the newest sandbox (kubernetes/kubernetes#138514).

        Then a main container in that sandbox, even if it has ended, proves that the pod is initialized. In 1.36,
        instances of earlier sandboxes count too, and a main container is a proof only until it ends.
        """
        return self is not KubeletVersion.V1_36

    @property
    def resizes_before_starts(self) -> bool:
        """Whether the pod is also resized if a container is about to start with other resources than before."""
        return self is not KubeletVersion.V1_36

    @property
    def explains_sandboxes(self) -> bool:
        """Whether a false `PodReadyToStartContainers` has a reason and a message (kubernetes/kubernetes#135300)."""
        return self is not KubeletVersion.V1_36


FOLLOWED: Final = KubeletVersion.V1_37
"""The kubelet that a node follows."""

_FIRST_DECISIONS_OF_1_37: Final = 2


def followed_by(decisions: int) -> KubeletVersion:
    """Return the kubelet that decisions of this version follow (:data:`~syncpod.lifecycle.version.DECISION_VERSION`).

    So a run that an older worker began keeps its kubelet, and replays with it.
    """
    return FOLLOWED if decisions >= _FIRST_DECISIONS_OF_1_37 else KubeletVersion.V1_36
