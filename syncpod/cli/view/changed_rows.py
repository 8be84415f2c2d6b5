"""Tables of which, after the first time, only the changed lines are printed: what ``--watch`` shows in a pipe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from syncpod.api.views.text import GAP, Columns

_TIMES = frozenset({"AGE", "SINCE"})
"""Columns that change by themselves."""

Key = tuple[str, ...]
"""What tells a line from others, such as namespace, name and node."""


class ChangedRows:
    """Remembers the lines of a table."""

    def __init__(self, *, headers: bool) -> None:
        """Remember none; with `headers`, the first line is the header."""
        self._headers = headers
        self._known: Mapping[Key, tuple[str, ...]] = {}
        self._table = Columns()

    def lines(self, header: Sequence[str], rows: Mapping[Key, Sequence[str]]) -> list[str]:
        """Return those lines that are new, or have changed apart from ages, aligned with those before."""
        steady = [at for at, name in enumerate(header) if name not in _TIMES]
        now = {key: tuple(row[at] for at in steady) for key, row in rows.items()}
        changed = [row for key, row in rows.items() if now[key] != self._known.get(key)]
        self._known = now
        if not changed:
            return []
        head, self._headers = [header] if self._headers else [], False
        return [GAP.join(line).rstrip() for line in self._table.align([*head, *changed])]
