"""Keeps the node's journal: writes the states that pods' workflows publish to a file, about a second later.

A workflow publishes its state at the end of a task, with the latest 200 lines of its history and all exits of its
containers. So the next worker receives the records that a killed worker did not write, and nothing is lost while the
disk is full. Only threads access SQLite and the logs. Nothing here fails a step or a workflow.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

from syncpod.agent import metrics
from syncpod.agent.background import cancel_all, keep_running
from syncpod.agent.senders import AskServer, CommandEntry, Senders
from syncpod.journal.file import FILE_NAME, SIGN_NAME, JournalFile, Limits
from syncpod.journal.reading import last_sign_of
from syncpod.journal.records import HistoryEntry, Instance, PodLife, TaskRecords
from syncpod.kernel.daemon_thread import in_daemon_thread
from syncpod.kernel.procfs import boot_id
from syncpod.lifecycle.exit import Exit
from syncpod.messages.identity import PodRef
from syncpod.node.log_end import end_of_log
from syncpod.node.secret_values import WITHHELD, may_have_unknown
from syncpod.node.tombstones import tombstone_at
from syncpod.objects import ObjectStore
from syncpod.redaction import of_process
from syncpod.temporal.published.records import Records
from syncpod.temporal.senders import Sent
from syncpod.translation.context import NodeContext
from syncpod.translation.paths import UnsafeName, container_log_file, pod_log_directory

log = logging.getLogger(__name__)

WRITE_SECONDS: Final = 1.0
"""Seconds that a published state waits to be written: states that are published meanwhile are written with it."""
RETRY_SECONDS: Final = 10.0
"""Seconds until a failed write is tried again."""
PATIENCE_SECONDS: Final = 2.0
"""Seconds that a removal of logs, or the worker's end, waits for the journal."""
LOG_END_BYTES: Final = 1024
_LOG_SEARCHED: Final = 40 * 1024
"""How many bytes from a log's end are searched for the last KiB of text: each line has a prefix, and at most 16 KiB."""
SIGN_SECONDS: Final = 1.0
"""The time between two signs of life."""
_SIGN_ON_DISK_SECONDS: Final = 60.0
"""The time between two signs of life on the disk. Each writes a page or two, which wears flash memory."""
_FORGET_SECONDS: Final = 3600.0
"""The time between two removals of records that are too old."""
_UNWRITTEN_ENDS: Final = 1000
"""The most ends of logs that are kept in memory while they cannot be written."""


_Run = tuple[str, str]
"""The ids of a workflow and of its run."""


async def _nobody_knows(_workflow_id: str, _run_id: str) -> list[Sent]:
    return []


class Journal:
    """The journal of one node. All methods belong to the agent's event loop."""

    def __init__(
        self,
        node: NodeContext,
        limits: Limits | None = None,
        *,
        ask_server: AskServer = _nobody_knows,
    ) -> None:
        """Write to the node's state directory.

        `ask_server` returns a run's signals and updates with their senders.
        """
        self._writer = _Writer(node, limits or Limits())
        self.senders = Senders(ask_server, node=node.name, keep=self._keep_senders)
        self._pending: dict[_Run, Records] = {}
        """The state that each run published last."""
        self._ends: list[tuple[PodLife, Instance]] = []
        """Instances that are about to be removed with their logs."""
        self._news = asyncio.Event()
        self._writing = asyncio.Lock()
        self._outages: dict[datetime, datetime | None] = {}
        """Beginnings and ends of outages of the server that are not in the file yet."""

    def take(self, workflow_id: str, run_id: str, published: Records) -> None:
        """Take a state that a workflow has published, to be written soon."""
        self._pending[workflow_id, run_id] = published
        self._news.set()

    def outage(self, begun: datetime, ended: datetime | None) -> None:
        """Take an outage of the server, when it begins (`ended` None) and when it ends."""
        self._outages[begun] = ended

    async def keep(self, ref: PodRef, instances: Sequence[Instance]) -> None:
        """Return once the ends of these instances are in the file, since their logs are about to be removed.

        A `ref` may have only a UID; then it means the journal's pod with that UID, if there is one. Returns after two
        seconds in any case: the journal may lose a record, but must not delay a step.
        """
        life = PodLife(*(getattr(ref, part) for part in PodLife._fields))
        new = [each for each in instances if not self._writer.has_log_end(life, each)]
        if self._is_stuck() or not (new or self._pending):
            return
        self._ends = [*self._ends, *((life, each) for each in new)][-_UNWRITTEN_ENDS:]
        self._news.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_SECONDS):
                await self.flush()

    async def run(self) -> None:
        """Write the states that were taken, remove old records, and give signs of life, until cancelled."""
        signs = asyncio.create_task(keep_running("the journal's signs of life", self._give_signs))
        senders = asyncio.create_task(keep_running("the journal's look-up of senders", self.senders.run))
        try:
            await self._run()
        finally:
            await cancel_all((signs, senders))

    async def _run(self) -> None:
        forgotten = -_FORGET_SECONDS
        while True:
            if time.monotonic() - forgotten >= _FORGET_SECONDS:
                forgotten = time.monotonic()
                async with self._writing:
                    await in_daemon_thread(self._writer.forget_old, name="journal")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_FORGET_SECONDS):
                    await self._news.wait()
            await asyncio.sleep(WRITE_SECONDS)
            if not await self._write():
                await asyncio.sleep(RETRY_SECONDS)

    async def _give_signs(self) -> None:
        """Record that this worker serves the node, and then give signs of life, until cancelled."""
        while True:
            async with self._writing:
                serves = await in_daemon_thread(self._writer.begin_service, name="journal")
            if serves:
                break
            await asyncio.sleep(RETRY_SECONDS)
        while True:
            await asyncio.sleep(SIGN_SECONDS)
            await in_daemon_thread(self._writer.give_sign, name="journal")
            await self._write_outages()

    async def _write_outages(self) -> None:
        """Record the latest news of outages. If that fails, it is tried again with the next sign of life."""
        if not self._outages:
            return
        async with self._writing:
            outages, self._outages = self._outages, {}
            if not await in_daemon_thread(partial(self._writer.write_outages, outages), name="journal"):
                self._outages = outages | self._outages

    async def flush(self) -> bool:
        """Write the states that have been taken so far, and say whether that succeeded. If not, it is tried again."""
        return await self._write()

    async def settle(self) -> str:
        """Write the states that have been taken so far; return why that fails, "" if it does not."""
        return "" if await self._write() else self._writer.why_failing

    async def close(self) -> None:
        """Write the unwritten records, within two seconds, and close the file."""
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await self.flush()
                async with self._writing:
                    await in_daemon_thread(self._writer.close, name="journal")
        except TimeoutError:
            log.warning("not everything is in the journal: it cannot be written in time")

    async def _keep_senders(self, entries: Sequence[tuple[PodLife, HistoryEntry]]) -> None:
        async with self._writing:
            await in_daemon_thread(partial(self._writer.write_senders, entries), name="journal")

    def _is_stuck(self) -> bool:
        """Say whether the disk hangs: then nobody should wait for it."""
        began = self._writer.began
        return began is not None and time.monotonic() - began > PATIENCE_SECONDS

    async def _write(self) -> bool:
        """Write pending records, in a thread, and say whether that succeeded."""
        async with self._writing:
            self._news.clear()
            pending, self._pending = self._pending, {}
            ends, self._ends = self._ends, []
            if not pending and not ends:
                return True
            written = False
            try:
                # A caller that gives up does not stop the thread. A record that is written twice stays one row.
                written = await in_daemon_thread(partial(self._writer.write, pending, ends), name="journal")
                for command in self._writer.commands():
                    self.senders.take(command)
            finally:
                if not written:
                    self._pending = pending | self._pending
                    self._ends = [*ends, *self._ends][-_UNWRITTEN_ENDS:]
                    self._news.set()
            return written


@dataclass
class _Known:
    """The records of one life that this process has written."""

    instances: dict[tuple[str, int], Instance] = field(default_factory=dict)
    """Instances by container and number, without the ends of their logs."""
    log_ends: frozenset[tuple[str, int]] = frozenset()
    """The instances whose end of the log is in the file, or could not be read."""
    commands: frozenset[tuple[datetime, str]] = frozenset()
    """Times and subjects of the commands in the workflow's last state, whose senders were already looked up."""


class _Writer:
    """The work of the journal's threads, which run one at a time."""

    def __init__(self, node: NodeContext, limits: Limits) -> None:
        self._node = node
        self._store = ObjectStore(node.state_dir, node.memory_dir)
        self._file = JournalFile(node.state_dir / FILE_NAME, limits)
        self._lock = threading.Lock()
        self._known: dict[PodLife, _Known] = {}
        self._runs: dict[str, tuple[str, datetime]] = {}
        """By workflow: its newest run, and the time up to which all its records are in the file."""
        self._is_opened = self._serves = False
        self.why_failing = ""
        """Why the file cannot be written now; "" = it can, as far as is known."""
        self._commands: list[CommandEntry] = []
        self.began: float | None = None
        """Monotonic time at which the current use of the disk began; None = no thread uses it."""
        self._next_sign_on_disk = 0.0
        """Monotonic time of the next sign of life on the disk."""
        self._signing = threading.Lock()
        self._is_closed = False

    def commands(self) -> list[CommandEntry]:
        """Return the written commands whose senders are not in the file, each only once."""
        found, self._commands = self._commands, []
        return found

    def write_senders(self, entries: Sequence[tuple[PodLife, HistoryEntry]]) -> None:
        """Write the senders of commands."""
        with self._using():
            try:
                self._file.write(
                    [self._without_secrets(TaskRecords(life, entry.at, entries=(entry,))) for life, entry in entries]
                )
            except (sqlite3.Error, OSError) as error:
                self._failed(error)

    def has_log_end(self, life: PodLife, instance: Instance) -> bool:
        """Say whether the end of an instance's log is known to be in the file."""
        known = self._known.get(life)
        return known is not None and (instance.container, instance.restart) in known.log_ends

    def write(self, pending: Mapping[_Run, Records], ends: Iterable[tuple[PodLife, Instance]]) -> bool:
        """Write everything or nothing, and say whether that succeeded. Failures are logged once, until a success."""
        with self._using():
            try:
                self._write(pending, ends)
            except (sqlite3.Error, OSError) as error:
                if not (isinstance(error, sqlite3.Error) and self._replaces_broken_file(error)):
                    return self._failed(error)
                try:
                    self._write(pending, ends)
                except (sqlite3.Error, OSError) as another:
                    return self._failed(another)
            if self.why_failing:
                log.warning("the journal can be written again")
            self.why_failing = ""
            return True

    def forget_old(self) -> None:
        """Open the file, and remove records that are too old."""
        with self._using():
            try:
                self._open()
                self._file.forget_old(datetime.now(UTC))
            except sqlite3.Error as error:
                if not self._replaces_broken_file(error):
                    self._failed(error)
            except OSError as error:
                self._failed(error)

    def begin_service(self) -> bool:
        """Record that this worker serves the node, and when the previous one ended; say whether that succeeded."""
        with self._using():
            if not self._serves:
                try:
                    last_sign = last_sign_of(self._node.state_dir, self._node.memory_dir)
                    self._file.begin_service(datetime.now(UTC), boot_id(), last_sign)
                except (sqlite3.Error, OSError) as error:
                    if not (isinstance(error, sqlite3.Error) and self._replaces_broken_file(error)):
                        self._failed(error)
                    return False
                self._serves = True
        self.give_sign()
        return True

    def write_outages(self, outages: Mapping[datetime, datetime | None]) -> bool:
        """Record outages of the server, and say whether that succeeded."""
        with self._using():
            try:
                self._file.write_outages(outages)
            except (sqlite3.Error, OSError) as error:
                return self._failed(error)
            return True

    def give_sign(self) -> None:
        """Give a sign of life of this worker: in memory each time, and on the disk each minute, for a reboot.

        Does nothing after `close`: a thread that was still waiting for the file may call it then.
        """
        with self._signing:
            if self._is_closed:
                return
            _sign(self._node.memory_dir)
            now = time.monotonic()
            if self._next_sign_on_disk <= now:
                self._next_sign_on_disk = now + _SIGN_ON_DISK_SECONDS
                _sign(self._node.state_dir)

    def close(self) -> None:
        """Record that this worker stops, and close the file. The sign of life on the disk stays."""
        with self._signing:
            self._is_closed = True
            _sign(self._node.state_dir)
            with contextlib.suppress(OSError):
                (self._node.memory_dir / SIGN_NAME).unlink()
        with self._using(), contextlib.suppress(sqlite3.Error, OSError):
            if self._serves:
                self._file.end_service(datetime.now(UTC))
            self._file.close()

    @contextlib.contextmanager
    def _using(self) -> Iterator[None]:
        with self._lock:
            self.began = time.monotonic()
            try:
                yield
            finally:
                self.began = None

    def _failed(self, error: Exception) -> bool:
        metrics.journal_failures.add(1)
        if not self.why_failing:
            log.warning("the journal cannot be written; trying again: %s", error)
        self.why_failing = str(error) or type(error).__name__
        return False

    def _replaces_broken_file(self, error: sqlite3.Error) -> bool:
        """Begin a new file if this one is broken; say whether it was. Later writes repeat all published records."""
        try:
            aside = self._file.set_aside_if_broken(error)
        except OSError:
            return False
        if aside is None:
            return False
        log.warning("the journal cannot be read (%s): a new one is begun, and the old one is kept as %s", error, aside)
        self._known, self._runs = {}, {}
        return True

    def _open(self) -> None:
        """At the first use, record pods with a tombstone as gone: the previous worker may not have written that."""
        if self._is_opened:
            return
        over = []
        for life in self._file.lives_not_gone():
            at = tombstone_at(self._node, life.uid, life.incarnation) if life.incarnation else None
            if at is not None:
                over.append(TaskRecords(life, at, is_gone=True))
        self._file.write(over)
        self._is_opened = True

    def _write(self, pending: Mapping[_Run, Records], ends: Iterable[tuple[PodLife, Instance]]) -> None:
        self._open()
        news = [(*run, each) for run, published in pending.items() if (each := self._news(*run, published)) is not None]
        named = ((life if life.name else self._file.life_of(life.uid, life.incarnation), each) for life, each in ends)
        kept = [
            (life, self._with_log_end(life, self._as_recorded(life, each))) for life, each in named if life is not None
        ]
        # A workflow's own record of an instance takes precedence, so it is written last.
        rows = [TaskRecords(life, each.ended_at or datetime.now(UTC), instances=(each,)) for life, each in kept]
        rows += [self._without_repeats(each) for _, _, each in news]
        metrics.journaled(self._file.write(map(self._without_secrets, rows)), self._file.used_bytes())
        for workflow_id, run_id, each in news:
            self._commands += (
                CommandEntry(workflow_id, run_id, each.life, entry) for entry in self._new_commands(each)
            )
            self._note(workflow_id, run_id, each)
        for life, one in kept:
            if (known := self._known.get(life)) is not None:
                known.log_ends |= {(one.container, one.restart)}

    def _new_commands(self, records: TaskRecords) -> Iterator[HistoryEntry]:
        """Yield the commands that are new to this process, and whose senders are not known."""
        known = self._known.get(records.life, _Known()).commands
        for entry in (each for each in records.entries if each.is_command):
            if (entry.at, entry.subject) not in known and not self._file.has_sender(records.life, entry):
                yield entry

    # --- new records --------------------------------------------------------------------------------------------------

    def _news(self, workflow_id: str, run_id: str, published: Records) -> TaskRecords | None:
        """Return a run's records that are newer than those in the file."""
        run, until = self._runs.get(workflow_id, ("", None))
        return published.journal_records(until if run == run_id else None)

    def _as_recorded(self, life: PodLife, instance: Instance) -> Instance:
        """Return the workflow's own record of an instance if that has an end, else `instance`."""
        known = self._known.get(life, _Known()).instances.get((instance.container, instance.restart))
        return known if known is not None and known.has_ended else instance

    def _without_repeats(self, records: TaskRecords) -> TaskRecords:
        """Return the records with only those instances that are new to the file, and with the ends of their logs."""
        known = self._known.get(records.life, _Known())
        news = (each for each in records.instances if known.instances.get((each.container, each.restart)) != each)
        wanted = tuple(self._with_log_end(records.life, each) for each in news)
        return replace(records, instances=wanted)

    def _note(self, workflow_id: str, run_id: str, records: TaskRecords) -> None:
        """Note that these records are in the file."""
        if records.is_gone:
            self._known.pop(records.life, None)
            self._runs.pop(workflow_id, None)
            return
        instances = {(each.container, each.restart): each for each in records.instances}
        before = self._known.get(records.life, _Known())
        ended = frozenset(key for key, each in instances.items() if each.has_ended)
        commands = frozenset((entry.at, entry.subject) for entry in records.entries if entry.is_command)
        self._known[records.life] = _Known(instances, ended | (before.log_ends & instances.keys()), commands)
        self._runs[workflow_id] = run_id, records.at

    def _with_log_end(self, life: PodLife, instance: Instance) -> Instance:
        """Return an instance. If it has ended, add the end of its log, unless the file already has that."""
        if not instance.has_ended or self._file.has_log_end(life, instance.container, instance.restart):
            return instance
        try:
            logs = pod_log_directory(self._node, life.namespace, life.name, life.uid)
            path = logs / container_log_file(instance.container, instance.restart)
            end = end_of_log(path, limit=LOG_END_BYTES, lines=LOG_END_BYTES, searched=_LOG_SEARCHED)
        except (OSError, UnsafeName):  # the log was removed, or there never was one
            return instance
        if end and may_have_unknown(self._node, self._store, life.uid, instance.started_at):
            end = WITHHELD
        return replace(instance, log_end=end)

    def _without_secrets(self, records: TaskRecords) -> TaskRecords:
        hide = of_process.redact
        return replace(
            records,
            entries=tuple(
                replace(each, reason=hide(each.reason), outcome=hide(each.outcome)) for each in records.entries
            ),
            events=tuple(replace(each, message=hide(each.message)) for each in records.events),
            instances=tuple(
                replace(each, exit=_exit_without_secrets(each.exit), log_end=hide(each.log_end))
                for each in records.instances
            ),
            present=hide(records.present),
        )


def _sign(directory: Path) -> None:
    """Give a sign of life in a directory. If that fails, the time of the worker's end will be less exact."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    with contextlib.suppress(OSError):
        sign = os.open(directory / SIGN_NAME, flags, 0o600)
        try:
            os.utime(sign)
        finally:
            os.close(sign)


def _exit_without_secrets(exit_: Exit | None) -> Exit | None:
    hide = of_process.redact
    return replace(exit_, message=hide(exit_.message), cause=hide(exit_.cause)) if exit_ is not None else None
