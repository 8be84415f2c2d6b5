"""Published records of pods' workflows soon are in the node's journal, once each, and delay no step.

Holds: The journal delays a step or a workflow by two seconds at most.
Holds: The journal keeps who commanded a pod, and when a worker died.
"""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from temporalio.service import RPCError, RPCStatusCode

from syncpod.agent import background
from syncpod.agent import journal as agent_journal
from syncpod.agent.api_server import ApiServer
from syncpod.agent.journal import Journal
from syncpod.agent.pod_source import NodePods
from syncpod.agent.published_pods import PublishedPods
from syncpod.agent.senders import CommandEntry, Senders
from syncpod.api.client import SOCKET_NAME, settle_journal
from syncpod.journal.causes import changes_of
from syncpod.journal.file import FILE_NAME, JournalFile
from syncpod.journal.reading import (
    LifeRecords,
    NoJournal,
    absences_of,
    gaps_of,
    last_sign_of,
    lives_of,
    pods_of,
    services_of,
)
from syncpod.journal.records import SENDER, SERVER_AWAY, EntryKind, Fact, HistoryEntry, Instance, PodLife, TaskRecords
from syncpod.messages.identity import PodRef
from syncpod.node.secret_values import WITHHELD
from syncpod.node.tombstones import write_tombstone
from syncpod.objects import ObjectStore
from syncpod.redaction import of_process
from syncpod.temporal.senders import Sent
from syncpod.translation.context import NodeContext
from tests.agent.published import OfNoPod
from tests.agent.waiting import until
from tests.e2e.faults_disk import filled, small_disk
from tests.journal.records import NOON, WEB, at, ended, exit_line, records_of

REF = PodRef(**WEB._asdict())


@dataclass
class Shown(OfNoPod):
    """A state that a workflow has published."""

    said: TaskRecords
    asked: list[datetime | None] = field(default_factory=list)
    """The time since which the journal requested records, for each request."""
    uid: str = "uid-1"
    is_unready: bool = False
    at: datetime = NOON
    history_length: int = 7

    @property
    def is_gone(self) -> bool:
        return self.said.is_gone

    def journal_records(self, since: datetime | None) -> TaskRecords:
        self.asked.append(since)
        return self.said


def shown(seconds: float = 1, life: PodLife = WEB, **more: Any) -> Shown:
    return Shown(records_of(seconds, life, **more))


@pytest.fixture
def context(tmp_path: Path) -> NodeContext:
    state, logs = tmp_path / "state", tmp_path / "logs"
    state.mkdir()
    logs.mkdir()
    return NodeContext(name="n", state_dir=state, memory_dir=tmp_path, log_dir=logs, cluster="c/n")


@pytest_asyncio.fixture
async def journal(context: NodeContext) -> AsyncIterator[Journal]:
    of_process.add(["hunter2"])
    journal = Journal(context)
    yield journal
    await journal.close()


def log_of(context: NodeContext, restart: int, *lines: str) -> Path:
    path = context.log_dir / "default_web_uid-1" / "app" / f"{restart}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"2026-11-23T12:00:00.000000001Z stdout F {line}\n" for line in lines))
    return path


def break_file(path: Path) -> None:
    for end in ("-wal", "-shm", ""):
        Path(f"{path}{end}").unlink()
    path.write_bytes(b"\0garbage" * 4096)


def restarts_in(context: NodeContext) -> list[int]:
    """The numbers of the instances in all recorded exits; empty if there is no journal yet."""
    try:
        return [line.restart for each in lives_of(context.state_dir, "default", "web") for line in each.entries]
    except NoJournal:
        return []


def has_senders(context: NodeContext, number: int) -> bool:
    """Whether this many commands have senders in the journal; False if there is no journal yet."""
    try:
        found = lives_of(context.state_dir, "default", "web")
    except NoJournal:
        return False
    return sum(line.kind == SENDER for each in found for line in each.entries) == number


def only(context: NodeContext) -> LifeRecords:
    (found,) = lives_of(context.state_dir, "default", "web")
    return found


async def test_what_is_published_is_in_the_file_within_seconds(context: NodeContext, journal: Journal) -> None:
    running = asyncio.create_task(journal.run())
    journal.take("pod/default/web", "run", shown(entries=(exit_line(1),)))
    await until(lambda: restarts_in(context) == [0])
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_reader_has_all_that_the_worker_has_heard_written_first(
    context: NodeContext, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise `explain` could contradict the output of `wait`."""
    asking = partial(settle_journal, context.state_dir)
    await asyncio.to_thread(asking)  # without a worker, what is in the journal has to do
    pods = NodePods(context, PublishedPods(context), settle_journal=journal.settle)
    serving = asyncio.create_task(ApiServer(pods).run())
    await until((context.state_dir / SOCKET_NAME).exists)
    journal.take("pod/default/web", "run", shown(entries=(exit_line(1),)))
    assert await asyncio.to_thread(asking) == ""
    assert restarts_in(context) == [0]

    def full(self: JournalFile, states: object) -> int:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(JournalFile, "write", full)
    journal.take("pod/default/web", "run", shown(entries=(exit_line(1), exit_line(2))))
    assert await asyncio.to_thread(asking) == "database or disk is full"
    monkeypatch.undo()
    assert await asyncio.to_thread(asking) == ""
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)


async def test_the_last_kilobyte_of_the_log_of_an_instance_is_kept_with_its_end(
    context: NodeContext, journal: Journal
) -> None:
    log_of(context, 0, *("x" * 99 for _ in range(100)), "the password is hunter2", "bye")
    journal.take("pod/default/web", "run", shown(instances=(ended(), Instance("app", 1))))
    assert await journal.flush()
    first, second = only(context).instances
    assert first.log_end.endswith("x\nthe password is ***\nbye\n")
    assert 1000 < len(first.log_end) <= 1024
    assert second.log_end == ""


async def test_the_end_of_a_log_is_kept_without_the_rest_of_a_secret_and_of_a_long_line(
    context: NodeContext, journal: Journal
) -> None:
    log_of(context, 0, "hunter2" + "x" * 1021)
    log_of(context, 1, "y" * (16 * 1024))
    journal.take("pod/default/web", "run", shown(instances=(ended(), ended(restart=1))))
    assert await journal.flush()
    cut, long = only(context).instances
    assert cut.log_end == "**" + "x" * 1021 + "\n"
    assert long.log_end == "y" * 1023 + "\n"


async def test_the_end_of_a_log_is_withheld_if_values_that_its_container_was_given_are_not_known(
    context: NodeContext, journal: Journal
) -> None:
    """After a reboot the values of Secrets are lost, and no record shows that this pod had none."""
    log_of(context, 0, "the old password is hunter3")
    log_of(context, 1)
    ObjectStore(context.state_dir, context.memory_dir).begin_knowing()
    journal.take("pod/default/web", "run", shown(instances=(ended(), ended(restart=1))))
    assert await journal.flush()
    said, silent = only(context).instances
    assert (said.log_end, silent.log_end) == (WITHHELD, "")


async def test_the_end_of_a_log_is_kept_before_the_log_is_removed(context: NodeContext, journal: Journal) -> None:
    path = log_of(context, 0, "last words")
    await journal.keep(REF, [ended(exit_code=1)])
    path.unlink()
    journal.take("pod/default/web", "run", shown(instances=(ended(cause="liveness probe failed"),)))
    assert await journal.flush()
    (instance,) = only(context).instances
    assert (instance.log_end, instance.exit_code, instance.cause) == ("last words\n", 3, "liveness probe failed")
    await journal.keep(REF, [ended(exit_code=1)])  # the workflow's record counts
    assert only(context).instances == (instance,)


async def test_a_removal_that_knows_but_the_uid_is_of_the_pod_that_the_journal_has(
    context: NodeContext, journal: Journal
) -> None:
    log_of(context, 0, "last words")
    await journal.keep(PodRef(uid="uid-1"), [ended()])
    assert pods_of(context.state_dir) == []
    journal.take("pod/default/web", "run", shown(1))
    assert await journal.flush()
    for ref in (
        PodRef(uid="uid-1"),
        PodRef(uid="uid-1", incarnation="inc-1"),
        PodRef(uid="uid-1", incarnation="other"),
    ):
        await journal.keep(ref, [ended()])
    assert [life for life, _ in pods_of(context.state_dir)] == [WEB]
    assert [each.log_end for each in only(context).instances] == ["last words\n"]


async def test_no_link_to_another_log_is_followed(context: NodeContext, journal: Journal) -> None:
    path = log_of(context, 0)
    path.unlink()
    secret = context.log_dir / "other"
    secret.write_text("2026-11-23T12:00:00.000000001Z stdout F secret\n")
    path.symlink_to(secret)
    journal.take("pod/default/web", "run", shown(instances=(ended(),)))
    assert await journal.flush()
    assert only(context).instances[0].log_end == ""


async def test_a_run_is_asked_only_for_what_is_new_and_another_run_for_everything(journal: Journal) -> None:
    published = shown(1, entries=(exit_line(1),))
    for run in ("first", "first", "second"):
        journal.take("pod/default/web", run, published)
        assert await journal.flush()
    assert published.asked == [None, at(1), None]


async def test_the_next_worker_writes_what_a_killed_one_could_not(context: NodeContext) -> None:
    killed = Journal(context)
    killed.take("pod/default/web", "run", shown(1, entries=(exit_line(1),)))
    assert await killed.flush()
    killed.take("pod/default/web", "run", shown(2, entries=(exit_line(2, 1),)))  # never written
    following = Journal(context)
    everything = (exit_line(1), exit_line(2, 1), exit_line(3, 2))
    following.take("pod/default/web", "run", shown(3, entries=everything))
    assert await following.flush()
    assert only(context).entries == everything
    for each in (killed, following):
        await each.close()


async def test_a_deletion_whose_record_was_lost_is_known_to_the_next_worker(context: NodeContext) -> None:
    killed = Journal(context)
    killed.take("pod/default/web", "run", shown())
    assert await killed.flush()
    write_tombstone(context, WEB.uid, WEB.incarnation)
    following = Journal(context)
    running = asyncio.create_task(following.run())
    await until(lambda: only(context).gone is not None)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    for each in (killed, following):
        await each.close()


async def test_the_next_worker_knows_when_a_killed_one_gave_its_last_sign_of_life(context: NodeContext) -> None:
    killed = Journal(context)
    running = asyncio.create_task(killed.run())
    await until(lambda: last_sign_of(context.state_dir, context.memory_dir) is not None)
    running.cancel()  # and it is never closed
    await asyncio.wait([running])
    # A thread outlives the call that began it: the sign may have been made, and not have its time yet.
    await until(lambda: all(each.name != "journal" for each in threading.enumerate()))
    sign, (first,) = last_sign_of(context.state_dir, context.memory_dir), services_of(context.state_dir)
    following = Journal(context)
    running = asyncio.create_task(following.run())
    await until(lambda: len(services_of(context.state_dir)) == 2)
    running.cancel()
    await asyncio.wait([running])
    (absence,) = absences_of(services_of(context.state_dir))
    assert sign is not None
    assert (absence.begun, absence.how) == (max(sign, first.begun), "died")
    await following.close()
    assert services_of(context.state_dir)[-1].how == "stopped"
    await killed.close()


async def test_an_outage_of_the_server_is_in_the_journal_while_it_lasts_and_afterwards(
    context: NodeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first write fails, as on a full disk."""
    monkeypatch.setattr(agent_journal, "SIGN_SECONDS", 0.01)
    full = iter([True])
    write = JournalFile.write_outages

    def maybe_write(self: JournalFile, outages: Mapping[datetime, datetime | None]) -> None:
        if next(full, False):
            raise sqlite3.OperationalError("database or disk is full")
        write(self, outages)

    monkeypatch.setattr(JournalFile, "write_outages", maybe_write)
    journal, since = Journal(context), datetime.now(UTC) - timedelta(seconds=30)
    running = asyncio.create_task(journal.run())
    await until(lambda: last_sign_of(context.state_dir, context.memory_dir) is not None)
    journal.outage(since, None)
    await until(lambda: gaps_of(context.state_dir).silent_since == since)
    journal.outage(since, datetime.now(UTC))
    await until(lambda: gaps_of(context.state_dir).silent_since is None)
    (outage,) = gaps_of(context.state_dir).absences
    assert (outage.begun, outage.how) == (since, SERVER_AWAY)
    assert outage.ended > since
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await journal.close()


async def test_a_sign_of_life_is_given_on_the_disk_now_and_then_and_in_memory_each_time(context: NodeContext) -> None:
    context.memory_dir.mkdir(exist_ok=True)
    journal = Journal(context)
    running = asyncio.create_task(journal.run())
    try:
        await until(lambda: (context.memory_dir / "journal.sign").exists())
        await until(lambda: (context.state_dir / "journal.sign").exists())
        before = (context.memory_dir / "journal.sign").stat().st_mtime_ns
        await until(lambda: (context.memory_dir / "journal.sign").stat().st_mtime_ns > before)
        # A file is made first, and its time is set then: by now that has been done to both.
        on_disk = (context.state_dir / "journal.sign").stat().st_mtime_ns
        before = (context.memory_dir / "journal.sign").stat().st_mtime_ns
        await until(lambda: (context.memory_dir / "journal.sign").stat().st_mtime_ns > before)
        assert (context.state_dir / "journal.sign").stat().st_mtime_ns == on_disk
        assert last_sign_of(context.state_dir, context.memory_dir) != last_sign_of(context.state_dir, context.state_dir)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await journal.close()
    assert (context.state_dir / "journal.sign").stat().st_mtime_ns > on_disk


async def test_a_thread_that_waited_for_the_file_leaves_no_sign_of_life_of_a_worker_that_has_stopped(
    context: NodeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits, may_go_on, begin = threading.Event(), threading.Event(), JournalFile.begin_service

    def slow(*given: Any) -> None:
        waits.set()
        may_go_on.wait(60)
        begin(*given)

    monkeypatch.setattr(JournalFile, "begin_service", slow)
    context.memory_dir.mkdir(exist_ok=True)
    journal = Journal(context)
    running = asyncio.create_task(journal.run())
    await until(waits.is_set)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    closing = asyncio.create_task(journal.close())
    await until(lambda: (context.state_dir / "journal.sign").exists())
    may_go_on.set()
    await closing
    await until(lambda: all(thread.name != "journal" for thread in threading.enumerate()))
    assert not (context.memory_dir / "journal.sign").exists()


async def test_who_sent_a_command_is_asked_once_and_kept(context: NodeContext) -> None:
    asked: list[tuple[str, str]] = []

    async def ask(workflow_id: str, run_id: str) -> list[Sent]:
        asked.append((workflow_id, run_id))
        if len(asked) == 1:
            raise RPCError("no run of that id", RPCStatusCode.NOT_FOUND, b"")
        return [
            Sent(at(50.2), "delete_pod", "syncpod delete, root@vm, pid 9"),
            Sent(at(30.0), "restart", f"hunter2{'x' * 1000}"),
            Sent(at(40.1), "apply", "n/machine/7"),
            Sent(at(1), "delete_pod", "somebody before"),
        ]

    def line(seconds: float, kind: EntryKind, subject: str, reason: str) -> HistoryEntry:
        return HistoryEntry(at(seconds), kind, subject, reason=reason)

    commands = (
        HistoryEntry(at(0), "update", "apply", reason="generation 1", fact=Fact.MADE),
        HistoryEntry(at(30), "signal", "restart", reason="an operator restarts app", fact=Fact.ASKED),
        line(40, "update", "apply", "generation 2"),
        line(50, "update", "delete", "grace 30 s"),
    )
    for known in (2, 3):  # the next worker requests what the first one did not get from the server
        of_process.add(["hunter2"])
        journal = Journal(context, ask_server=ask)
        running = asyncio.create_task(journal.run())
        journal.take("pod/default/web", "run", shown(50, entries=(*commands, line(50, "signal", "pleg", "x"))))
        await until(partial(has_senders, context, known))
        journal.take("pod/default/web", "run", shown(51, entries=commands))
        assert await journal.flush()
        running.cancel()
        await asyncio.wait([running])
        await journal.close()
    assert [each.what for each in changes_of(only(context).entries)] == [
        "apply: generation 1",
        f"restart: an operator restarts app, by ***{'x' * 193}",
        "apply: generation 2, by the node",
        "delete: grace 30 s, by syncpod delete, root@vm",
    ]
    assert len(asked) <= 4, "three commands, and the one that was not found again by the next worker"


async def test_a_defect_in_the_look_up_of_senders_is_logged_and_does_not_end_it(
    context: NodeContext, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(background, "RESTART_SECONDS", 0.001)
    calls = 0

    async def fail_once(workflow_id: str, run_id: str) -> list[Sent]:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise KeyError("an answer that the client cannot read")
        return [Sent(at(30), "restart", "root@vm")]

    journal = Journal(context, ask_server=fail_once)
    running = asyncio.create_task(journal.run())
    line = HistoryEntry(at(30), "signal", "restart", reason="an operator restarts app", fact=Fact.ASKED)
    journal.take("pod/default/web", "run", shown(30, entries=(line,)))
    await until(partial(has_senders, context, 1))
    assert "look-up of senders failed" in caplog.text
    running.cancel()
    await asyncio.wait([running])
    await journal.close()


async def test_the_senders_of_a_crowds_commands_are_written_at_once() -> None:
    """Each write has a thread and a transaction of its own."""
    kept: list[int] = []
    is_over = asyncio.Event()

    async def ask(workflow_id: str, run_id: str) -> list[Sent]:
        assert run_id != "known", "the node has commanded that itself"
        if run_id == "forgotten":
            raise RPCError("no run of that id", RPCStatusCode.NOT_FOUND, b"")
        return [Sent(at(1), "delete", "n/machine/7")]

    async def keep(lines: Sequence[tuple[PodLife, HistoryEntry]]) -> None:
        assert {line.reason for _, line in lines} == {"the node"}
        kept.append(len(lines))
        is_over.set()

    senders = Senders(ask, node="n", keep=keep)
    line = HistoryEntry(at(1), "update", "delete", reason="grace 30 s", fact=Fact.DELETED)
    senders.know("pod/default/web-4", "delete", at(1))
    for number, run_id in enumerate(("a", "forgotten", "b", "c", "known")):
        senders.take(
            CommandEntry(f"pod/default/web-{number}", run_id, PodLife("default", "web", str(number), "i"), line)
        )
    running = asyncio.create_task(senders.run())
    await is_over.wait()
    running.cancel()
    assert kept == [4]


async def test_a_full_disk_costs_the_journal_and_nobody_else(
    context: NodeContext, caplog: pytest.LogCaptureFixture
) -> None:
    log_of(context, 0, "last words")
    with small_disk(context.state_dir) as disk:
        journal = Journal(context)
        journal.take("pod/default/web", "run", shown(entries=(exit_line(1),)))
        assert await journal.flush()
        more = tuple(exit_line(each, each, reason="x" * 1000) for each in range(1, 100))
        with filled(disk) as fill:
            for _ in range(3):
                fill()
                journal.take("pod/default/web", "run", shown(9, entries=more))
                await journal.keep(REF, [ended()])
                assert not await journal.flush()
        assert await journal.flush()
        assert (len(only(context).entries), only(context).instances[0].log_end) == (100, "last words\n")
        await journal.close()
    said = [record.message for record in caplog.records if record.name == "syncpod.agent.journal"]
    assert said == [
        "the journal cannot be written; trying again: database or disk is full",
        "the journal can be written again",
    ]


async def test_a_broken_file_is_set_aside_with_a_warning_and_what_is_known_is_told_anew(
    context: NodeContext, journal: Journal, caplog: pytest.LogCaptureFixture
) -> None:
    published = shown(1, entries=(exit_line(1),), instances=(ended(),))
    journal.take("pod/default/web", "run", published)
    assert await journal.flush()
    break_file(context.state_dir / FILE_NAME)
    published.asked.clear()
    journal.take("pod/default/web", "run", published)
    assert await journal.flush()
    assert published.asked == [at(1), None]
    assert (only(context).entries, only(context).instances) == ((exit_line(1),), (ended(),))
    (warning,) = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert "a new one is begun, and the old one is kept as" in warning
    assert len(list(context.state_dir.glob("journal.db.broken"))) == 1


async def test_both_lives_are_written_if_a_pod_follows_another_of_its_name(
    context: NodeContext, journal: Journal
) -> None:
    second = PodLife("default", "web", "uid-2", "inc-2")
    journal.take("pod/default/web", "run-1", shown(1, entries=(exit_line(1),), is_gone=True))
    journal.take("pod/default/web", "run-2", shown(2, second))
    assert await journal.flush()
    lives = lives_of(context.state_dir, "default", "web")
    assert [(each.life, each.gone) for each in lives] == [(WEB, at(1)), (second, None)]


async def test_a_disk_that_hangs_is_waited_for_once(context: NodeContext, monkeypatch: pytest.MonkeyPatch) -> None:
    hangs = threading.Event()
    monkeypatch.setattr("syncpod.agent.journal.end_of_log", lambda *_, **__: str(hangs.wait()))
    monkeypatch.setattr("syncpod.agent.journal.PATIENCE_SECONDS", 0.05)
    journal = Journal(context)
    await journal.keep(REF, [ended()])
    threads = threading.active_count()
    for restart in range(20):
        await journal.keep(REF, [ended(restart)])
    assert threading.active_count() <= threads + 2
    hangs.set()
    assert await journal.flush()
    await journal.close()
    assert [each.log_end for each in only(context).instances] == ["True"]
