"""The database of the Temporal dev server: without the indexes that make a small machine's disk wear out.

The server's visibility table has an index for each search attribute that a workflow may have, 58 in all. Each write of
a row replaces the row in all of them: some sixty pages of 4 KiB, for a pod's start three times. A node has thousands of
rows at most, which are read as fast without an index. Without them the server writes a third as many bytes
(docs/engineering/performance-log.md).
"""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from typing import Final

_TABLE: Final = "executions_visibility"
_KEPT: Final = frozenset({"default_idx", "by_workflow_id", "by_status"})
"""The order of lists, one workflow's runs, and the open ones."""
_PATIENCE_SECONDS: Final = 5.0
"""How long to wait for a transaction of the server. Dropping the indexes takes a few milliseconds. The server's own
writes fail in that time, and it retries them."""


def drop_costly_indexes(database: Path) -> int:
    """Drop the visibility table's indexes but a few, and return how many were dropped. Blocks.

    No data changes. The server may run, but not on a full database. Raises sqlite3.Error.
    """
    with contextlib.closing(sqlite3.connect(database, timeout=_PATIENCE_SECONDS, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        found = connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name = ? AND sql IS NOT NULL", (_TABLE,)
        )
        costly = [name for (name,) in found if name not in _KEPT]
        for name in costly:
            connection.execute(f'DROP INDEX "{name}"')
        connection.execute("COMMIT")
    return len(costly)
