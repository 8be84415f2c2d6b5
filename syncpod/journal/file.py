"""The journal's file: SQLite in WAL mode, which stays intact when a process is killed.

Each record has a natural key, so a record that is written again after a replay, a retry or a crash stays one row. All
functions block, and belong in a thread of their own.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from syncpod.journal.records import SENDER, EventRecord, HistoryEntry, Instance, PodLife, TaskRecords, microseconds

log = logging.getLogger(__name__)

FILE_NAME: Final = "journal.db"
"""The journal's name in the node's state directory."""
BROKEN_NAME: Final = "journal.db.broken"
"""The name of the last file that could not be read, and was set aside."""
SIGN_NAME: Final = "journal.sign"
"""An empty file whose modification time is a sign of life of the node's worker. There is one in the memory directory,
and one beside the journal, which survives a reboot."""
VERSION: Final = 3
"""The number of the file's format. A file with another number is set aside."""
_BROKEN: Final = frozenset((sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB))
_COMPANIONS: Final = ("", "-wal", "-shm")
_PRUNED_TO: Final = 0.9
"""The fraction of the size limit that the file shrinks to when the oldest records are removed."""
_WAL_BYTES: Final = 4 * 2**20

_OUTAGES: Final = "CREATE TABLE IF NOT EXISTS outage (begun INTEGER PRIMARY KEY, ended INTEGER)"
"""The table of the times in which the Temporal server did not answer. Older files of this format lack it."""

# Instances have row ids. Without them a row of more than 1000 bytes, as with a KiB of log, would take a whole page.
_SCHEMA: Final = f"""
PRAGMA auto_vacuum = INCREMENTAL;
PRAGMA journal_mode = WAL;
BEGIN IMMEDIATE;
CREATE TABLE life (
    id INTEGER PRIMARY KEY, namespace TEXT NOT NULL, name TEXT NOT NULL, uid TEXT NOT NULL, incarnation TEXT NOT NULL,
    begun INTEGER NOT NULL, seen INTEGER NOT NULL, gone INTEGER, present TEXT NOT NULL,
    UNIQUE (namespace, name, uid, incarnation)
);
CREATE TABLE line (
    life INTEGER NOT NULL, at INTEGER NOT NULL, key INTEGER NOT NULL, kind TEXT NOT NULL, subject TEXT NOT NULL,
    container TEXT NOT NULL, restart INTEGER NOT NULL, reason TEXT NOT NULL, outcome TEXT NOT NULL,
    attempt INTEGER NOT NULL, took_ms INTEGER NOT NULL, fact TEXT NOT NULL, seconds REAL,
    PRIMARY KEY (life, at, key)
) WITHOUT ROWID;
CREATE TABLE happening (
    life INTEGER NOT NULL, first INTEGER NOT NULL, key INTEGER NOT NULL, type TEXT NOT NULL, reason TEXT NOT NULL,
    container TEXT NOT NULL, message TEXT NOT NULL, last INTEGER NOT NULL, count INTEGER NOT NULL,
    PRIMARY KEY (life, first, key)
) WITHOUT ROWID;
CREATE TABLE instance (
    life INTEGER NOT NULL, container TEXT NOT NULL, restart INTEGER NOT NULL, id TEXT NOT NULL, image TEXT NOT NULL,
    started INTEGER, ended INTEGER, exit_code INTEGER, reason TEXT NOT NULL, message TEXT NOT NULL,
    cause TEXT NOT NULL, killed_by TEXT NOT NULL, log_end TEXT NOT NULL,
    UNIQUE (life, container, restart)
);
CREATE TABLE service (
    begun INTEGER PRIMARY KEY, ended INTEGER, how TEXT NOT NULL, machine_boot TEXT NOT NULL
);
{_OUTAGES};
PRAGMA user_version = {VERSION};
COMMIT;
"""

# A life that its workflow reports after its recorded end is not gone. A late end of a container delays a recorded end.
_WRITE_LIFE: Final = """
INSERT INTO life (namespace, name, uid, incarnation, begun, seen, gone, present) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET seen = max(seen, excluded.seen),
    gone = CASE
        WHEN excluded.gone IS NULL AND excluded.present <> '' AND excluded.seen > gone THEN NULL
        ELSE max(coalesce(excluded.gone, gone), seen, excluded.seen) END,
    present = CASE WHEN excluded.seen >= seen AND excluded.present <> '' THEN excluded.present ELSE present END
RETURNING id
"""
_WRITE_ENTRY: Final = "INSERT OR IGNORE INTO line VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_WRITE_EVENT: Final = """
INSERT INTO happening VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET last = max(last, excluded.last), count = max(count, excluded.count)
"""
# A recorded end is kept if the same instance is written again without its end.
_WRITE_INSTANCE: Final = """
INSERT INTO instance VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET
    id = coalesce(nullif(excluded.id, ''), id), image = coalesce(nullif(excluded.image, ''), image),
    started = coalesce(excluded.started, started),
    ended = CASE WHEN excluded.exit_code IS NULL THEN ended ELSE coalesce(excluded.ended, ended) END,
    reason = CASE WHEN excluded.exit_code IS NULL THEN reason ELSE excluded.reason END,
    message = CASE WHEN excluded.exit_code IS NULL THEN message ELSE excluded.message END,
    cause = CASE WHEN excluded.exit_code IS NULL THEN cause ELSE coalesce(nullif(excluded.cause, ''), cause) END,
    killed_by = CASE
        WHEN excluded.exit_code IS NULL THEN killed_by ELSE coalesce(nullif(excluded.killed_by, ''), killed_by) END,
    exit_code = coalesce(excluded.exit_code, exit_code),
    log_end = coalesce(nullif(excluded.log_end, ''), log_end)
"""

_SERVICES_KEPT: Final = 1000
"""The most times of service, and outages, that are kept, for a worker or server that is restarted again and again."""
_BY_ANOTHER: Final = 5_000_000
"""A record that is this many microseconds later than a worker's last sign of life was written by another worker."""


_TIMES: Final = """
SELECT at FROM line UNION ALL SELECT last FROM happening
UNION ALL SELECT coalesce(ended, started, 0) FROM instance WHERE exit_code IS NOT NULL
"""
"""Selects the time of each record that may be removed."""


@dataclass(frozen=True)
class Limits:
    """How much the journal keeps."""

    age: timedelta = timedelta(days=90)
    """Older records are removed; zero = no limit of age."""
    size: int = 256 * 2**20
    """When the file has more bytes than this, the oldest records are removed."""


class JournalFile:
    """The journal file of one node. One thread at a time may use it. Every method raises sqlite3.Error and OSError."""

    def __init__(self, path: Path, limits: Limits) -> None:
        """Use the file at `path`. It is created with mode 0600 when it is first needed."""
        self._path = path
        self._limits = limits
        self._connection: sqlite3.Connection | None = None
        self._inode = 0

    def write(self, states: Iterable[TaskRecords]) -> int:
        """Write all records in one transaction. Return how many are new or changed."""
        with self._transaction() as connection:
            written = sum(_write(connection, each) for each in states)
        self._keep_small(self._opened())
        return written

    def used_bytes(self) -> int:
        """Return how many bytes of the file are in use. The size limit applies to this number."""
        return _used_bytes(self._opened())

    def lives_not_gone(self) -> list[PodLife]:
        """Return the lives whose end the journal has not recorded."""
        rows = self._opened().execute("SELECT namespace, name, uid, incarnation FROM life WHERE gone IS NULL")
        return [PodLife(*row) for row in rows]

    def life_of(self, uid: str, incarnation: str) -> PodLife | None:
        """Return the newest life with this UID and this incarnation ("" = any); None if there is none."""
        found = self._opened().execute(
            "SELECT namespace, name, uid, incarnation FROM life WHERE uid = ? AND ? IN ('', incarnation) "
            "ORDER BY begun DESC, id DESC LIMIT 1",
            (uid, incarnation),
        )
        row = found.fetchone()
        return PodLife(*row) if row is not None else None

    def has_sender(self, life: PodLife, entry: HistoryEntry) -> bool:
        """Say whether the journal has the sender of the message that a line is about."""
        found = self._opened().execute(
            "SELECT 1 FROM line JOIN life ON life.id = life WHERE (namespace, name, uid, incarnation) = (?, ?, ?, ?) "
            "AND at = ? AND (kind, subject) = (?, ?)",
            (*life, microseconds(entry.at), SENDER, entry.subject),
        )
        return found.fetchone() is not None

    def has_log_end(self, life: PodLife, container: str, restart: int) -> bool:
        """Say whether the journal has the end of an instance's log."""
        found = self._opened().execute(
            "SELECT log_end <> '' FROM instance JOIN life ON life.id = life WHERE (namespace, name, uid, incarnation) "
            "= (?, ?, ?, ?) AND container = ? AND restart = ?",
            (*life, container, restart),
        )
        return (found.fetchone() or (0,))[0] == 1

    def forget_old(self, now: datetime) -> None:
        """Remove records that are older than the age limit."""
        if not self._limits.age:
            return
        try:
            oldest = microseconds(now - self._limits.age)
        except OverflowError:  # the age limit reaches back before the calendar begins
            return
        with self._transaction() as connection:
            _forget(connection, oldest)
        _give_back(self._opened())

    def begin_service(self, now: datetime, machine_boot: str, last_sign: datetime | None) -> None:
        """Record that a worker serves the node from now on, and the end of a previous worker that did not record it.

        `last_sign` is the previous worker's last sign of life; None = not known.
        """
        begun = microseconds(now)
        with self._transaction() as connection:
            before = connection.execute(
                "SELECT begun, ended, machine_boot FROM service ORDER BY begun DESC LIMIT 1"
            ).fetchone()
            if before is not None:
                _end_service(connection, *before, now=begun, machine_boot=machine_boot, last_sign=last_sign)
            connection.execute(
                "UPDATE outage SET ended = max(begun, (SELECT ifnull(max(ended), ?) FROM service)) WHERE ended IS NULL",
                (begun,),
            )
            connection.execute(
                "INSERT OR REPLACE INTO service VALUES (?, NULL, '', ?)", (microseconds(now), machine_boot)
            )
            connection.execute(
                "DELETE FROM service WHERE begun NOT IN (SELECT begun FROM service ORDER BY begun DESC LIMIT ?)",
                (_SERVICES_KEPT,),
            )

    def end_service(self, now: datetime) -> None:
        """Record that the node's worker stops in an orderly way."""
        with self._transaction() as connection:
            connection.execute(
                "UPDATE service SET ended = ?, how = 'stopped' WHERE begun = (SELECT max(begun) FROM service) "
                "AND ended IS NULL",
                (microseconds(now),),
            )

    def write_outages(self, outages: Mapping[datetime, datetime | None]) -> None:
        """Record when outages of the server began and ended. Without an end, an outage lasts as long as its worker."""
        with self._transaction() as connection:
            connection.executemany(
                "INSERT OR REPLACE INTO outage VALUES (?, ?)",
                [(microseconds(begun), ended and microseconds(ended)) for begun, ended in outages.items()],
            )
            connection.execute(
                "DELETE FROM outage WHERE begun NOT IN (SELECT begun FROM outage ORDER BY begun DESC LIMIT ?)",
                (_SERVICES_KEPT,),
            )

    def close(self) -> None:
        """Close the file. It is opened again when it is needed."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def set_aside_if_broken(self, error: sqlite3.Error) -> Path | None:
        """Rename the file if `error` means that it is not a journal; return its new path. None for any other error."""
        if getattr(error, "sqlite_errorcode", 0) & 0xFF not in _BROKEN:
            return None
        self.close()
        return self._set_aside()

    # --- the file -----------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        connection = self._opened()
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield connection
            connection.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):  # SQLite has already rolled back if the disk is full
                connection.execute("ROLLBACK")
            raise

    def _opened(self) -> sqlite3.Connection:
        """Return the open file. If it was removed or replaced meanwhile, open or create it anew."""
        if self._connection is not None and not self._is_ours():
            self.close()
        if self._connection is None:
            # The file is created with its mode before SQLite opens it. SQLite gives its companions the same mode.
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
            self._connection = _connected(self._path)
            self._inode = self._path.stat().st_ino
        return self._connection

    def _is_ours(self) -> bool:
        try:
            return self._path.stat().st_ino == self._inode
        except FileNotFoundError:
            return False

    def _set_aside(self) -> Path:
        aside = self._path.with_name(BROKEN_NAME)
        for end in _COMPANIONS:
            Path(f"{aside}{end}").unlink(missing_ok=True)
            with contextlib.suppress(FileNotFoundError):
                Path(f"{self._path}{end}").rename(f"{aside}{end}")
        return aside

    def _keep_small(self, connection: sqlite3.Connection) -> None:
        """Remove the oldest records, a tenth at a time, while the file is above its size limit."""
        if _used_bytes(connection) <= self._limits.size:
            return
        while _used_bytes(connection) > self._limits.size * _PRUNED_TO:
            (count,) = connection.execute(f"SELECT count(*) FROM ({_TIMES})").fetchone()
            oldest = connection.execute(
                f"SELECT at FROM ({_TIMES}) ORDER BY at LIMIT 1 OFFSET ?", (count // 10,)
            ).fetchone()
            if oldest is None:
                break
            with self._transaction():
                _forget(connection, oldest[0] + 1)
        _give_back(connection)


def _connected(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=2.0, isolation_level=None, check_same_thread=False)
    try:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version == 0 and not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            connection.executescript(_SCHEMA)
        elif version != VERSION:
            raise _not_a_journal(f"its format is {version}, and this version of syncpod writes {VERSION}")
        elif (found := connection.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
            raise _not_a_journal(found)
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(_OUTAGES)
        connection.execute(f"PRAGMA journal_size_limit = {_WAL_BYTES}")
    except BaseException:
        connection.close()
        raise
    return connection


def _not_a_journal(why: str) -> sqlite3.DatabaseError:
    error = sqlite3.DatabaseError(why)
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    return error


def _used_bytes(connection: sqlite3.Connection) -> int:
    pages, free, size = (
        connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
    )
    return int((pages - free) * size)


def _give_back(connection: sqlite3.Connection) -> None:
    """Give pages that are no longer used back to the file system."""
    # Not `execute`: it takes only one step of the statement, which frees one page.
    connection.executescript("PRAGMA incremental_vacuum")


def _forget(connection: sqlite3.Connection, before: int) -> None:
    """Remove records from before `before`. A life is removed with its last record, but not while the pod exists."""
    connection.execute("DELETE FROM line WHERE at < ?", (before,))
    connection.execute("DELETE FROM happening WHERE last < ?", (before,))
    connection.execute(
        "DELETE FROM instance WHERE exit_code IS NOT NULL AND coalesce(ended, started, 0) < ?", (before,)
    )
    connection.execute("DELETE FROM service WHERE ended < ?", (before,))
    connection.execute("DELETE FROM outage WHERE ended < ?", (before,))
    for table in ("instance", "happening", "line", "life"):
        key = "id" if table == "life" else "life"
        connection.execute(f"DELETE FROM {table} WHERE {key} IN (SELECT id FROM life WHERE gone < ?)", (before,))


def _end_service(
    connection: sqlite3.Connection,
    begun: int,
    ended: int | None,
    boot: str,
    *,
    now: int,
    machine_boot: str,
    last_sign: datetime | None,
) -> None:
    """Record the end of the latest service; if its time is unknown, the worker's last sign of life counts.

    Later records come from a worker of an older version, which does not record its service.
    """
    how = ""
    if ended is None:
        how = "died" if boot == machine_boot else "machine"
        ended = max(begun, microseconds(last_sign) if last_sign is not None else begun)
    (written,) = connection.execute("SELECT coalesce(max(seen), 0) FROM life").fetchone()
    if ended + _BY_ANOTHER < written < now:
        connection.execute("UPDATE service SET ended = ?, how = '' WHERE begun = ?", (written, begun))
    elif how:
        connection.execute("UPDATE service SET ended = ?, how = ? WHERE begun = ?", (ended, how, begun))


# --- rows -------------------------------------------------------------------------------------------------------------


def _write(connection: sqlite3.Connection, records: TaskRecords) -> int:
    """Write the records of one life; return how many were new or changed."""
    life, at = records.life, microseconds(records.at)
    if records.present:
        _end_earlier_lives(connection, life, at)
    first = min((microseconds(each.at) for each in records.entries), default=at)
    row = connection.execute(
        _WRITE_LIFE, _storable((*life, min(first, at), at, at if records.is_gone else None, records.present))
    ).fetchone()
    number, before = row[0], connection.total_changes
    connection.executemany(_WRITE_ENTRY, (_entry_row(number, each) for each in records.entries))
    connection.executemany(_WRITE_EVENT, (_event(number, each) for each in records.events))
    connection.executemany(_WRITE_INSTANCE, (_instance(number, each) for each in records.instances))
    return connection.total_changes - before


def _end_earlier_lives(connection: sqlite3.Connection, life: PodLife, at: int) -> None:
    """End earlier lives of the same name whose end was not recorded: a name has only one pod at a time.

    Only a workflow's own records show that its life is the present one: the node also writes the ends of earlier lives.
    """
    connection.execute(
        "UPDATE life SET gone = max(seen, begun) WHERE (namespace, name) = (?, ?) AND (uid, incarnation) <> (?, ?) "
        "AND gone IS NULL AND seen < ?",
        (*life, at),
    )


def _entry_row(life: int, entry: HistoryEntry) -> tuple[Any, ...]:
    said = (
        entry.kind,
        entry.subject,
        entry.container,
        entry.restart,
        entry.reason,
        entry.outcome,
        entry.attempt,
        entry.took_ms,
        entry.fact,
        entry.seconds,
    )
    return _storable((life, microseconds(entry.at), _key(said), *said))


def _event(life: int, seen: EventRecord) -> tuple[Any, ...]:
    said = (seen.type, seen.reason, seen.container, seen.message)
    return _storable((life, microseconds(seen.first), _key(said), *said, microseconds(seen.last), seen.count))


def _instance(life: int, one: Instance) -> tuple[Any, ...]:
    times = (microseconds(at) if at is not None else None for at in (one.started_at, one.ended_at))
    end = (one.exit_code, one.reason, one.message, one.cause, one.killed_by, one.log_end)
    return _storable((life, one.container, one.restart, one.id, one.image, *times, *end))


def _storable(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a row without lone surrogates, which come from file names that are not UTF-8. SQLite refuses them.

    A row that cannot be written would block all later ones.
    """
    return tuple(each.encode(errors="replace").decode() if isinstance(each, str) else each for each in row)


def _key(said: tuple[str | float | None, ...]) -> int:
    """Return a digest of a record's content, which distinguishes it from other records of the same time."""
    text = "\0".join(map(str, said)).encode(errors="surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big", signed=True)
