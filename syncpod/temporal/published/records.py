"""The port for the node's journal."""

from datetime import datetime
from typing import Protocol

from syncpod.journal.records import TaskRecords


class Records(Protocol):
    """The journal's part of one state. It never changes, and may be read in any thread."""

    def journal_records(self, since: datetime | None) -> TaskRecords | None:
        """Return what the journal keeps of the pod from `since` on (None = all that is known); None = nothing."""
