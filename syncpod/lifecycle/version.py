"""Which decisions this tree takes, and which took those of a history.

Everything that a workflow calls in :mod:`syncpod.pod` and :mod:`syncpod.lifecycle` decides its commands, so a change of
what they answer is a change of the workflow. The number grows with each such change. A run that was begun with an older
one goes on with that, and continues as new at its next quiet point; the tree holds two versions at most
(docs/upgrading.md).

A run's version is that of the worker that took its first decision. It is read from that worker's build id, which the
server writes into the history with each workflow task; so a replay finds the same.
"""

from __future__ import annotations

import re
from typing import Final

DECISION_VERSION = 2
"""Version of the decisions.

2: a pod says how it is restarted; where the runtime no longer lists what ran, the record decides.
"""

_MARK: Final = re.compile(r"\+decisions\.([0-9]{1,6})")


def build_id(program: str) -> str:
    """Return the build id of a worker: the program's name and version, and that of its decisions."""
    return f"{program}+decisions.{DECISION_VERSION}"


def decisions_of(build_id: str) -> int:
    """Return the version of the decisions that a worker of this build id takes; the first ones did not say."""
    mark = _MARK.search(build_id)
    return int(mark[1]) if mark else 1
