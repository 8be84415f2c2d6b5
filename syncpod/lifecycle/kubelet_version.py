"""The kubelet whose decisions a node takes.

The decisions of two kubelets differ in a few places. Each of these places asks here, so that a search for
:class:`KubeletVersion` finds all of them.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class KubeletVersion(StrEnum):
    """A kubelet whose decisions are known from its own recordings."""

    V1_36 = "1.36"
    V1_37 = "1.37"

    @property
    def looks_at_newest_sandbox_only(self) -> bool:
        """Whether init containers are judged by instances of the newest sandbox alone.

        Then a main container there, also one that has ended, proves that the pod is initialized
        (kubernetes/kubernetes#138514). Before, instances of earlier sandboxes counted too, and a main container only as
        long as it had not ended.
        """
        return self is not KubeletVersion.V1_36

    @property
    def resizes_before_starts(self) -> bool:
        """Whether a pod is resized too if a container is about to start with other resources than before."""
        return self is not KubeletVersion.V1_36

    @property
    def explains_sandboxes(self) -> bool:
        """Whether the condition `PodReadyToStartContainers` says why it is false (kubernetes/kubernetes#135300)."""
        return self is not KubeletVersion.V1_36


FOLLOWED: Final = KubeletVersion.V1_37
"""The kubelet that a node follows."""

_FIRST_DECISIONS_OF_1_37: Final = 2


def followed_by(decisions: int) -> KubeletVersion:
    """Return the kubelet that decisions of this version follow (:data:`~syncpod.lifecycle.version.DECISION_VERSION`).

    So a run that an older worker began goes on as it was, and is replayed so.
    """
    return FOLLOWED if decisions >= _FIRST_DECISIONS_OF_1_37 else KubeletVersion.V1_36
