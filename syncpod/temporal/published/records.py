"""The port for the node's journal."""

from datetime import datetime
from typing import Protocol

from syncpod.journal.records import TaskRecords


class Records(Protocol):
    """The journal's part of a published state. A state never changes, and may be read in any thread."""

    def journal_records(self, since: datetime | None) -> TaskRecords | None:
        """Return the pod's records from `since` on (None = all records) for the journal; None if there are none."""
