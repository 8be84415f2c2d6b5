"""Tables that are redrawn in place on a terminal, within its height."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from syncpod.api.views.text import Columns
from syncpod.cli.console import wants_colour
from syncpod.cli.view.rows import Row

if TYPE_CHECKING:
    from rich.console import Console

Lines = Callable[[Sequence[Row], Columns], Sequence[str]]
"""Returns the table's lines for these rows, with its header, aligned with the earlier lines."""


def can_redraw() -> bool:
    """Return whether standard output is a terminal on which a table can be drawn again in place."""
    return wants_colour(sys.stdout)


class LiveLines:
    """Draws lines during the `with` block; the last ones stay on the screen."""

    def __init__(self, console: Console | None = None) -> None:
        """Draw on standard output by default."""
        from rich.console import Console
        from rich.live import Live

        self._console = console or Console(highlight=False)
        self._live = Live(console=self._console, auto_refresh=False, vertical_overflow="crop")

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._live.stop()

    @property
    def room(self) -> int:
        """How many lines the terminal has for rows: all but the table's header, and the cursor's line below it."""
        return self._console.size.height - 2

    def draw(self, lines: Sequence[str]) -> None:
        """Draw these lines in place of those before."""
        from rich.text import Text

        self._live.update(Text.from_ansi("\n".join(lines), no_wrap=True, overflow="crop"), refresh=True)


class LiveTable(LiveLines):
    """Draws rows as a table."""

    def __init__(self, lines: Lines, console: Console | None = None) -> None:
        """Draw the lines that `lines` returns, on standard output by default."""
        super().__init__(console)
        self._lines, self._table = lines, Columns()

    def show(self, rows: Sequence[Row]) -> None:
        """Draw these rows. If there are more than the terminal has lines, pods that need attention are drawn first."""
        drawn, left_out = within(rows, self.room)
        self.draw([*self._lines(drawn, self._table), *([summed(left_out)] if left_out else [])])


def within(rows: Sequence[Row], room: int) -> tuple[list[Row], list[Row]]:
    """Return the rows that fit into `room` lines, in their order, and the rows that do not.

    If there are too many, one line is kept for the number of rows that are left out. Pods that run and are ready, or
    have completed, are left out first.
    """
    if len(rows) <= room:
        return list(rows), []
    wanted = sorted(range(len(rows)), key=lambda at: (rows[at].is_settled, at))
    chosen = set(wanted[: max(0, room - 1)])
    return [one for at, one in enumerate(rows) if at in chosen], [
        one for at, one in enumerate(rows) if at not in chosen
    ]


def summed(rows: Sequence[Row]) -> str:
    """Return the line for rows that are not shown: how many, and how many pods by status."""
    counts = Counter(one.status if one.current else "not answering" for one in rows if one.status)
    said = ", ".join(f"{count} {status}" for status, count in counts.most_common())
    return f"… {len(rows)} more{said and f': {said}'}"
