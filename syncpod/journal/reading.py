"""Reading a node's journal. The file is enough: the node's worker need not run."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from syncpod.journal.file import FILE_NAME, SIGN_NAME, VERSION
from syncpod.journal.records import (
    SERVER_AWAY,
    Absence,
    EventRecord,
    HistoryEntry,
    Instance,
    PodLife,
    Service,
    microseconds,
    moment,
)
from syncpod.lifecycle.exit import Exit


@dataclass(frozen=True)
class LifeRecords:
    """All records of one life of a pod, oldest first."""

    life: PodLife
    begun: datetime
    """The time of the oldest record that was ever written for this life."""
    seen: datetime
    """When its workflow last wrote a record."""
    gone: datetime | None = None
    """When nothing of it was left; None while it exists."""
    present: dict[str, Any] = field(default_factory=dict)
    """Its state when last seen, as in `TaskRecords.present`."""
    entries: tuple[HistoryEntry, ...] = ()
    events: tuple[EventRecord, ...] = ()
    instances: tuple[Instance, ...] = ()
    """Instances by container, in the order of their numbers."""


class NoJournal(Exception):
    """There is no journal to read. The text says why, in one sentence."""


def lives_of(state_dir: Path, namespace: str, name: str) -> list[LifeRecords]:
    """Return the journal's records of each life of the pods with this name, oldest first. Blocks.

    Raises NoJournal.
    """
    with _opened(state_dir / FILE_NAME) as connection:
        rows = connection.execute(
            "SELECT id, namespace, name, uid, incarnation, begun, seen, gone, present FROM life "
            "WHERE (namespace, name) = (?, ?) ORDER BY begun, id",
            (namespace, name),
        ).fetchall()
        return [_life_records(connection, row) for row in rows]


def pods_of(state_dir: Path) -> list[tuple[PodLife, datetime | None]]:
    """Return every life in a node's journal and when it ended, oldest first. Blocks. Raises NoJournal."""
    with _opened(state_dir / FILE_NAME) as connection:
        rows = connection.execute("SELECT namespace, name, uid, incarnation, gone FROM life ORDER BY begun, id")
        return [(PodLife(*row[:4]), _when(row[4])) for row in rows]


def events_of_gone(state_dir: Path, since: datetime, namespace: str | None = None) -> list[tuple[PodLife, EventRecord]]:
    """Return the events of gone pods since a moment, in a namespace (None = in all). Blocks. Raises NoJournal."""
    begin = microseconds(since)
    with _opened(state_dir / FILE_NAME) as connection:
        rows = connection.execute(
            "SELECT id, namespace, name, uid, incarnation FROM life WHERE gone >= ? AND ifnull(namespace = ?, 1)",
            (begin, namespace),
        ).fetchall()
        return [
            (PodLife(*life), each)
            for number, *life in rows
            for each in _events(connection, number)
            if each.last >= since
        ]


def services_of(state_dir: Path) -> list[Service]:
    """Return the times in which workers served a node, oldest first. Blocks. Raises NoJournal."""
    with _opened(state_dir / FILE_NAME) as connection:
        rows = connection.execute("SELECT begun, ended, how FROM service ORDER BY begun")
        return [Service(moment(begun), _when(ended), how) for begun, ended, how in rows]


def last_sign_of(state_dir: Path, memory_dir: Path) -> datetime | None:
    """Return the last sign of life of a node's worker; None if it is not known. Blocks."""
    signs = []
    for directory in (state_dir, memory_dir):
        with suppress(OSError):
            signs.append((directory / SIGN_NAME).stat().st_mtime_ns)
    return moment(max(signs) // 1000) if signs else None


def absences_of(services: Sequence[Service]) -> list[Absence]:
    """Return the times between services, oldest first. The times before the first and after the last are not known."""
    return [
        Absence(before.ended, after.begun, before.how)
        for before, after in pairwise(services)
        if before.ended is not None and before.ended < after.begun
    ]


class NodeGaps(NamedTuple):
    """When a node could not act."""

    absences: list[Absence]
    """The past times without a worker or a Temporal server, in the order of their beginnings."""
    silent_since: datetime | None
    """Since when the Temporal server has not answered the node's worker, if one still runs; None = it answers."""


def gaps_of(state_dir: Path) -> NodeGaps:
    """Return when a node had no worker, or no worker that got an answer from its server. Blocks. Raises NoJournal."""
    services = services_of(state_dir)
    with _opened(state_dir / FILE_NAME) as connection:
        has_table = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'outage'").fetchone()
        rows = connection.execute("SELECT begun, ended FROM outage ORDER BY begun").fetchall() if has_table else []
    outages = [Absence(moment(begun), moment(ended), SERVER_AWAY) for begun, ended in rows if ended is not None]
    lasting = [moment(begun) for begun, ended in rows if ended is None]
    return NodeGaps(sorted((*absences_of(services), *outages)), lasting[-1] if lasting else None)


@dataclass(frozen=True)
class JournalSummary:
    """A summary of a node's journal since a moment."""

    there: int
    """How many pods there are."""
    gone: int
    """How many lives of pods have ended since then."""
    ends: int
    """How many instances have ended since then."""
    restless: tuple[tuple[LifeRecords, int], ...]
    """The pods with the most ends since then and how many each has, sorted by that number, highest first."""
    due: tuple[LifeRecords, ...] = ()
    """The pods for which something is due at a known time: their present state, without most records."""


def node_summary(state_dir: Path, since: datetime, *, most: int) -> JournalSummary:
    """Return a summary of a node's journal since a moment, with at most `most` pods. Blocks. Raises NoJournal."""
    begin = microseconds(since)
    with _opened(state_dir / FILE_NAME) as connection:
        there, gone = connection.execute(
            "SELECT count(*) FILTER (WHERE gone IS NULL), count(*) FILTER (WHERE gone >= ?) FROM life", (begin,)
        ).fetchone()
        ended = "FROM instance WHERE exit_code IS NOT NULL AND coalesce(ended, started, 0) >= ?"
        (ends,) = connection.execute(f"SELECT count(*) {ended}", (begin,)).fetchone()
        rows = connection.execute(
            "SELECT id, namespace, name, uid, incarnation, begun, seen, gone, present, ends FROM life JOIN "
            f"(SELECT life, count(*) AS ends, max(ended) AS last {ended} GROUP BY life) ON life = id "
            "ORDER BY ends DESC, last DESC, id LIMIT ?",
            (begin, most),
        ).fetchall()
        restless = tuple((_life_records(connection, row[:-1]), row[-1]) for row in rows)
        return JournalSummary(there, gone, ends, restless, tuple(_due(connection)))


def _due(connection: sqlite3.Connection) -> Iterator[LifeRecords]:
    """Yield the lives with a known due time: the end of a back-off, of the active deadline, or of a deletion's grace.

    A life that is being deleted includes its lines, which say when its grace period was shortened.
    """
    rows = connection.execute(
        "SELECT id, namespace, name, uid, incarnation, begun, seen, present FROM life WHERE gone IS NULL "
        """AND (present LIKE '%"until"%' OR present LIKE '%"activeDeadlineSeconds"%' """
        """OR present LIKE '%"graceSeconds"%') ORDER BY begun, id"""
    ).fetchall()
    for number, *life, begun, seen, text in rows:
        present = json.loads(text)
        entries = tuple(_entries(connection, number)) if present.get("deletion") else ()
        yield LifeRecords(PodLife(*life), moment(begun), moment(seen), present=present, entries=entries)


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Yield the journal, for reading only. Raises NoJournal."""
    try:
        path.stat()
        # Not mode=ro: if the worker was killed, the first reader must replay the write-ahead log.
        connection = sqlite3.connect(f"file:{_quoted(path)}?mode=rw", uri=True, timeout=2.0, isolation_level=None)
    except FileNotFoundError:
        raise NoJournal(f"there is no journal in {path.parent}: no worker of this version has run there") from None
    except PermissionError:
        raise NoJournal(f"{path}: permission denied; only the node's user may read it") from None
    except sqlite3.Error as error:
        raise NoJournal(f"the journal cannot be read: {error}: {path}") from None
    try:
        connection.execute("PRAGMA query_only = 1")
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version == 0:
            raise NoJournal(f"the journal in {path.parent} is still being created")
        if version != VERSION:
            raise NoJournal(f"the journal's format is {version}, and this version of syncpod reads {VERSION}: {path}")
        connection.execute("BEGIN")  # so that all reads see the same state
        yield connection
    except sqlite3.Error as error:
        raise NoJournal(f"the journal cannot be read: {error}: {path}") from None
    finally:
        connection.close()


def _quoted(path: Path) -> str:
    return str(path).replace("%", "%25").replace("?", "%3f").replace("#", "%23")


def _life_records(connection: sqlite3.Connection, row: tuple[Any, ...]) -> LifeRecords:
    number, namespace, name, uid, incarnation, begun, seen, gone, present = row
    return LifeRecords(
        life=PodLife(namespace, name, uid, incarnation),
        begun=moment(begun),
        seen=moment(seen),
        gone=_when(gone),
        present=json.loads(present) if present else {},
        entries=tuple(_entries(connection, number)),
        events=tuple(_events(connection, number)),
        instances=tuple(_instances(connection, number)),
    )


def _entries(connection: sqlite3.Connection, life: int) -> Iterator[HistoryEntry]:
    # The lines of one workflow task have the same time. Possible causes are sorted before their possible effects.
    rows = connection.execute(
        "SELECT at, kind, subject, container, restart, reason, outcome, attempt, took_ms, fact, seconds "
        "FROM line WHERE life = ? "
        "ORDER BY at, instr('update,signal,step,exit,hold,decision', kind), subject <> 'create_sandbox', restart, key",
        (life,),
    )
    for at, *rest in rows:
        yield HistoryEntry(moment(at), *rest)


def _events(connection: sqlite3.Connection, life: int) -> Iterator[EventRecord]:
    rows = connection.execute(
        "SELECT type, reason, message, first, last, container, count FROM happening WHERE life = ? ORDER BY first, key",
        (life,),
    )
    for type_, reason, message, first, last, container, count in rows:
        yield EventRecord(
            type=type_,
            reason=reason,
            message=message,
            container=container,
            count=count,
            first=moment(first),
            last=moment(last),
        )


def _instances(connection: sqlite3.Connection, life: int) -> Iterator[Instance]:
    rows = connection.execute(
        "SELECT container, restart, id, image, started, ended, exit_code, reason, message, cause, killed_by, log_end "
        "FROM instance WHERE life = ? ORDER BY container, restart",
        (life,),
    )
    for container, restart, id_, image, started, ended, code, reason, message, cause, killed_by, log_end in rows:
        begun = _when(started)
        exit_ = Exit(
            id=id_,
            name=container,
            restart=restart,
            exit_code=code or 0,
            reason=reason,
            message=message,
            started_at=begun,
            finished_at=_when(ended),
            cause=cause,
            killed_by=killed_by,
        )
        yield Instance(container, restart, id_, image, begun, exit_ if code is not None else None, log_end)


def _when(number: int | None) -> datetime | None:
    return None if number is None else moment(number)
