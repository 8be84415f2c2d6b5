"""The progress of pods, on standard error: a live table on a terminal, else a line for each change."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Self

from syncpod.cli.console import printable, remark, wants_colour
from syncpod.cli.fetched import FetchedPod
from syncpod.cli.view.pod_columns import HEADER
from syncpod.cli.view.pod_table import coloured_lines, row_of
from syncpod.cli.view.unready import hindrance

if TYPE_CHECKING:
    from rich.live import Live


class Progress:
    """Shows pods during the `with` block; on a terminal, the table is removed at its end."""

    def __init__(self) -> None:
        self._live: Live | None = None
        self._shown: dict[tuple[str, str], tuple[str, str, str]] = {}

    def __enter__(self) -> Self:
        if wants_colour(sys.stderr):
            from rich.console import Console
            from rich.live import Live

            self._live = Live(console=Console(stderr=True), transient=True, auto_refresh=False)
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, fetched_pods: Sequence[FetchedPod]) -> None:
        """Show pods as they are now."""
        if self._live is not None:
            from rich.console import Group
            from rich.text import Text

            lines = coloured_lines(HEADER, [fetched.listed for fetched in fetched_pods], stream=sys.stderr)
            table = Text.from_ansi("\n".join(lines), no_wrap=True)
            self._live.update(Group(table, *(Text(line, "yellow") for line in hindrances(fetched_pods))), refresh=True)
            return
        now = datetime.now(UTC)
        for fetched in fetched_pods:
            name, ready, status, *_ = row_of(fetched.listed, now)
            why = hindrance(fetched.pod)
            if self._shown.get(fetched.key) != (ready, status, why):
                self._shown[fetched.key] = (ready, status, why)
                remark(f"pod {name}: {status}, {ready} ready{f'; {why}' if why else ''}")


def hindrances(fetched_pods: Sequence[FetchedPod]) -> list[str]:
    """Return a line for each pod with a message about why it does not come up."""
    now = datetime.now(UTC)
    told = [(row_of(fetched.listed, now), hindrance(fetched.pod)) for fetched in fetched_pods if fetched.current]
    return [printable(f"pod/{name}: {status}: {why}") for (name, _, status, *_), why in told if why]
