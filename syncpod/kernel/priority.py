"""The place of this process among the machine's others, where processor time runs short."""

from __future__ import annotations

import contextlib
import os
from typing import Final

from syncpod.kernel.oom_score import raise_oom_score_adj

NICE: Final = -10
"""The scheduler offers such a process nine times the share of an ordinary one; others get the time that it does not
use."""


def prefer_this_process() -> None:
    """Have this process run before busy ones, if it may: root may.

    On a machine with many more busy processes than cores, an ordinary process gets a few hundredths of a core, and the
    node would not answer just when its operator looks. Call this before any thread starts: threads take the priority
    from the one that starts them, as child processes do. Containers are children of their runtime.
    """
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, min(NICE, os.getpriority(os.PRIO_PROCESS, 0)))


def be_ordinary() -> None:
    """Give up a priority above others that this process has from its parent, also where memory runs short.

    Call this before any thread starts.
    """
    with contextlib.suppress(OSError):
        raise_oom_score_adj(0)
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, max(0, os.getpriority(os.PRIO_PROCESS, 0)))
