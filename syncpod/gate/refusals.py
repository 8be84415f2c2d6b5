"""What the gate's log says of refused calls: one line each, and few of them however many calls there are."""

from __future__ import annotations

import logging
from typing import Final

log = logging.getLogger(__name__)

QUIET_SECONDS: Final = 10.0
"""For this long, further refusals of the same call by the same node are only counted."""
_REMEMBERED: Final = 1_000


class Refusals:
    """Writes the log. `now` is in seconds of any steady clock."""

    def __init__(self) -> None:
        self._said: dict[tuple[str, str], tuple[float, int]] = {}
        """By node and method: when it was last said, and how many refusals have not been said since."""

    def refused(self, node: str, method: str, sentence: str, now: float) -> None:
        """Say, or count, that a call was refused."""
        about = (node, method[:128])
        before, unsaid = self._said.get(about, (now - QUIET_SECONDS, 0))
        if now - before < QUIET_SECONDS:
            self._said[about] = (before, unsaid + 1)
            return
        if len(self._said) >= _REMEMBERED:  # a node may invent names of methods
            self._said.clear()
        self._said[about] = (now, 0)
        more = f" ({unsaid} more since the last line)" if unsaid else ""
        log.warning("refused: node %s, %r: %s%s", node, about[1], sentence, more)
