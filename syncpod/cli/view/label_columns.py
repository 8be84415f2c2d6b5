"""Labels as the last columns of a table: ``-L KEY,KEY`` and ``--show-labels``.

Mirrors cli-runtime's pkg/printers/tableprinter.go, v1.36, formatLabelHeaders and labelValues.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from syncpod.api.views.layout import NONE
from syncpod.cli.failure import BadInput


@dataclass(frozen=True)
class LabelColumns:
    """Which labels are shown as columns."""

    keys: tuple[str, ...] = ()
    """The labels that have a column each, in this order."""
    whole: bool = False
    """Whether all labels are shown in one last column."""

    @property
    def header(self) -> tuple[str, ...]:
        """The names of the columns: for each key, its last part in capitals."""
        return (*(key.rpartition("/")[2].upper() for key in self.keys), *(("LABELS",) if self.whole else ()))

    def cells(self, labels: Mapping[str, str]) -> tuple[str, ...]:
        """Return the cells for an object with these labels."""
        listed = ",".join(f"{key}={value}" for key, value in sorted(labels.items())) or NONE
        return (*(labels.get(key, NONE) for key in self.keys), *((listed,) if self.whole else ()))


def read_label_columns(keys: Sequence[str], output: str, *, whole: bool) -> LabelColumns:
    """Return the requested label columns; an entry may have several keys, separated by commas.

    Raises BadInput for labels if `output` has no columns.
    """
    wanted = tuple(key for words in keys for key in (word.strip() for word in words.split(",")) if key)
    if output not in ("", "wide") and (wanted or whole):
        flag = "--show-labels" if whole else "--label-columns"
        raise BadInput(f"{flag}: only tables have columns, and --output asks for {output.partition('=')[0]}")
    return LabelColumns(wanted, whole)
