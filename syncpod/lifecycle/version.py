"""The version of the decisions: this tree's version, and the version that made a given history.

Everything that a workflow calls in :mod:`syncpod.pod` and :mod:`syncpod.lifecycle` decides its commands, so a changed
result there changes the workflow. Each such change raises :data:`DECISION_VERSION`. A run goes on with the decisions
that it began with, and continues as new with newer ones at its next quiet point (docs/upgrading.md).

The version of a run is that of the worker that took its first workflow task. It is read from that worker's build id,
which the server records with each workflow task, so every replay finds the same version.
"""

from __future__ import annotations

import re
from typing import Final

DECISION_VERSION = 2
"""The version of this tree's decisions. 1 followed the kubelet 1.36, and 2 follows 1.37."""

BASELINE: Final = 1
"""The oldest version whose runs this tree replays and whose snapshots it reads."""

_MARK: Final = re.compile(r"\+decisions\.([0-9]{1,6})\.[0-9a-f]{12}\Z")


def build_id(program: str, digest: str) -> str:
    """Return a worker's build id: ``syncpod-0.1.0+decisions.1.0123456789ab``.

    `digest` is 12 hexadecimal digits that differ between two trees of one version with different sources.
    """
    return f"{program}+decisions.{DECISION_VERSION}.{digest}"


def decisions_of(build_id: str) -> int:
    """Return the version of the decisions that a worker of this build id takes; 0 if the build id names none."""
    mark = _MARK.search(build_id)
    return int(mark[1]) if mark else 0


def is_superseded(decisions: int) -> bool:
    """Say whether decisions of this version are older than this tree's."""
    return decisions < DECISION_VERSION


def too_old(decisions: int) -> str:
    """Return the sentence that refuses decisions older than :data:`BASELINE`; "" if they are not older."""
    if decisions >= BASELINE:
        return ""
    return f"decisions: are of version {decisions}, from before the first release; the oldest known are {BASELINE}"
