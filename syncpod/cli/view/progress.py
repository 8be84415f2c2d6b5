"""The progress of pods, on standard error: a live table on a terminal, else a line for each change."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Self

from syncpod.api.views.pod_columns import HEADER
from syncpod.api.views.text import printable
from syncpod.cli.console import remark, wants_colour
from syncpod.cli.fetched import FetchedPod
from syncpod.cli.view.live_table import summed, within
from syncpod.cli.view.rows import coloured_lines, row_of
from syncpod.cli.view.unready import hindrance
from syncpod.pod import Pod

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live


LastWords = Callable[["Pod"], str]
"""Returns a clause with the last line in the log of a crashing container of a pod; "" = there is none."""


class Progress:
    """Shows pods during the `with` block; on a terminal, the table is removed at its end."""

    def __init__(self, console: Console | None = None, *, last_words: LastWords = lambda _: "") -> None:
        """Print to standard error, or draw on this console."""
        self._console = console
        self._last_words = last_words
        self._live: Live | None = None
        self._shown: dict[tuple[str, str], tuple[str, str, str]] = {}

    def __enter__(self) -> Self:
        if self._console is not None or wants_colour(sys.stderr):
            from rich.console import Console
            from rich.live import Live

            self._console = self._console or Console(stderr=True)
            self._live = Live(console=self._console, transient=True, auto_refresh=False)
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, fetched_pods: Sequence[FetchedPod]) -> None:
        """Show pods as they are now."""
        if self._live is not None and self._console is not None:
            from rich.console import Group
            from rich.text import Text

            size, told = self._console.size, hindrances(fetched_pods, self._last_words)
            reasons, room = fitting(told, len(fetched_pods), width=size.width, height=size.height)
            drawn, left_out = within([row_of(fetched.listed) for fetched in fetched_pods], room)
            lines = coloured_lines(HEADER, drawn, stream=sys.stderr) + ([summed(left_out)] if left_out else [])
            table = Text.from_ansi("\n".join(lines), no_wrap=True)
            self._live.update(Group(table, *(Text(line, "yellow") for line in reasons)), refresh=True)
            return
        now = datetime.now(UTC)
        for fetched in fetched_pods:
            name, ready, status, *_ = row_of(fetched.listed, now).cells
            why = _why(fetched.pod, self._last_words)
            if self._shown.get(fetched.key) != (ready, status, why):
                self._shown[fetched.key] = (ready, status, why)
                remark(f"pod {name}: {status}, {ready} ready{f'; {why}' if why else ''}")


def fitting(reasons: Sequence[str], pods: int, *, width: int, height: int) -> tuple[list[str], int]:
    """Return the reasons that fit below the table on a terminal of that size, and the number of the table's lines.

    Two more lines are for the table's header, and for the cursor. If not everything fits, the reasons get a third of
    the lines, and the last line has the number of those left out.
    """
    room = height - 2
    heights = [len(textwrap.wrap(reason, width)) for reason in reasons]
    if pods + sum(heights) <= room:
        return list(reasons), room - sum(heights)
    most, taken = max(0, room // 3 - 1), 0
    for count, lines in enumerate(heights):
        if taken + lines > most:
            return [
                *reasons[:count],
                f"… and {len(reasons) - count} more; `syncpod explain POD` says why",
            ], room - taken - 1
        taken += lines
    return list(reasons), room - taken


def hindrances(fetched_pods: Sequence[FetchedPod], last_words: LastWords = lambda _: "") -> list[str]:
    """Return a line for each pod with a message about why it does not come up."""
    now = datetime.now(UTC)
    told = [
        (row_of(fetched.listed, now).cells, _why(fetched.pod, last_words))
        for fetched in fetched_pods
        if fetched.current
    ]
    return [printable(f"pod/{name}: {status}: {why}") for (name, _, status, *_), why in told if why]


def _why(pod: Pod, last_words: LastWords) -> str:
    why = hindrance(pod)
    return f"{why}{last_words(pod)}" if why else ""
