"""The journal's file: each record once, intact after any crash, and within its size limit.

Holds: A repeated record is one row, and a killed worker leaves the file intact.
"""

import contextlib
import signal
import sqlite3
import stat
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from syncpod.journal.file import BROKEN_NAME, FILE_NAME, JournalFile, Limits
from syncpod.journal.reading import LifeRecords, NoJournal, absences_of, gaps_of, lives_of, pods_of, services_of
from syncpod.journal.records import SERVER_AWAY, Absence, PodLife
from tests.journal.records import NOON, WEB, at, ended, event, exit_line, records_of


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[JournalFile]:
    file = JournalFile(tmp_path / FILE_NAME, Limits())
    yield file
    file.close()


def only(directory: Path) -> LifeRecords:
    (found,) = lives_of(directory, "default", "web")
    return found


def test_what_is_told_is_read_back_whole(journal: JournalFile, tmp_path: Path) -> None:
    line, seen, instance = exit_line(1, reason="why\n«»"), event(), ended(log_end="bye\x00\n")
    journal.write([records_of(entries=(line,), events=(seen,), instances=(instance,), present='{"phase":"Running"}')])
    records = only(tmp_path)
    assert (records.entries, records.events, records.instances) == ((line,), (seen,), (instance,))
    assert (records.life, records.present, records.seen, records.gone) == (WEB, {"phase": "Running"}, at(1), None)
    assert pods_of(tmp_path) == [(WEB, None)]


def test_a_record_told_twice_is_one_row(journal: JournalFile, tmp_path: Path) -> None:
    for _ in range(3):
        journal.write([records_of(entries=(exit_line(1), exit_line(1, 2)), events=(event(),), instances=(ended(),))])
    journal.write([records_of(events=(event(count=4, last=at(9)),))])
    records = only(tmp_path)
    assert [line.restart for line in records.entries] == [0, 2]
    assert [(each.count, each.last) for each in records.events] == [(4, at(9))]
    assert records.instances == (ended(),)


def test_what_is_known_of_an_end_is_kept_and_a_better_record_replaces_it(journal: JournalFile, tmp_path: Path) -> None:
    unknown = ended(exit_code=137, reason="ContainerStatusUnknown", cause="liveness", killed_by="liveness")
    journal.write([records_of(instances=(replace(ended(), exit=None),))])
    assert not only(tmp_path).instances[0].has_ended
    journal.write([records_of(instances=(unknown,))])
    journal.write([records_of(instances=(ended(log_end="bye", image=""),))])
    journal.write([records_of(instances=(replace(ended(), exit=None),))])
    assert only(tmp_path).instances == (ended(log_end="bye", cause="liveness", killed_by="liveness"),)


def test_lives_of_one_name_are_told_apart_and_a_new_one_ends_the_one_before(
    journal: JournalFile, tmp_path: Path
) -> None:
    second = PodLife("default", "web", "uid-2", "inc-2")
    journal.write([records_of(1, instances=(ended(),), present="{}")])
    journal.write([records_of(9, second, present="{}")])
    journal.write([records_of(10, second, is_gone=True)])
    first, last = lives_of(tmp_path, "default", "web")
    assert (first.gone, len(first.instances), last.gone, last.instances) == (at(1), 1, at(10), ())
    assert journal.lives_not_gone() == []


@pytest.mark.parametrize("how", [{"instances": (ended(end=12),)}, {"is_gone": True}])
def test_the_late_end_of_an_earlier_life_does_not_end_the_present_one(
    journal: JournalFile, tmp_path: Path, how: dict[str, Any]
) -> None:
    """The node ends the earlier life while the present one begins, and records that end later than the beginning."""
    present = PodLife("default", "web", "uid-2", "inc-2")
    journal.write([records_of(1, present="{}")])
    journal.write([records_of(9, present, present="{}")])
    journal.write([records_of(12, **how)])
    earlier, living = lives_of(tmp_path, "default", "web")
    assert (earlier.gone, living.gone) == (at(12), None)
    journal.write([records_of(20, present, present="{}")])
    earlier, living = lives_of(tmp_path, "default", "web")
    assert (earlier.gone, living.gone) == (at(12), None)


def test_a_life_that_is_reported_after_its_recorded_end_is_not_gone(journal: JournalFile, tmp_path: Path) -> None:
    """It was adopted, or an earlier version recorded the end wrongly. Another record of its past shows no life."""
    journal.write([records_of(1, present="{}")])
    journal.write([records_of(5, is_gone=True)])
    journal.write([records_of(4, present="{}"), records_of(3, entries=(exit_line(3),))])
    assert only(tmp_path).gone == at(5)
    journal.write([records_of(6, present="{}")])
    assert only(tmp_path).gone is None


@pytest.mark.parametrize("is_gone_first", [True, False])
def test_a_pod_is_gone_once_its_last_container_has_ended(
    journal: JournalFile, tmp_path: Path, is_gone_first: bool
) -> None:
    """Its workflow may have ended first, as by a forced deletion while the node's worker was away."""
    gone, end = records_of(5, present="{}", is_gone=True), records_of(21, instances=(ended(end=21),))
    journal.write([records_of(1, present="{}")])
    journal.write([gone, end] if is_gone_first else [end, gone])
    assert only(tmp_path).gone == at(21)


def test_nothing_is_written_of_a_batch_that_fails(journal: JournalFile, tmp_path: Path) -> None:
    broken = records_of(2, entries=(exit_line(2, took_ms=2**70),))
    with pytest.raises(OverflowError):
        journal.write([records_of(1), broken])
    journal.write([records_of(3)])
    assert only(tmp_path).seen == at(3)


def test_half_a_surrogate_pair_keeps_nothing_out(journal: JournalFile, tmp_path: Path) -> None:
    bad = "\udcff"
    journal.write(
        [records_of(events=(replace(event(1), message=f"{bad} is no file"),), present=f'{{"phase": "{bad}"}}')]
    )
    journal.write([records_of(instances=(ended(0, message=bad, log_end=f"{bad}\0end"),))])
    found = only(tmp_path)
    assert found.events[0].message == "? is no file" and found.instances[0].log_end == "?\0end"


def test_only_its_owner_reads_it(journal: JournalFile, tmp_path: Path) -> None:
    journal.write([records_of()])
    modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in tmp_path.iterdir()}
    assert modes == dict.fromkeys((FILE_NAME, f"{FILE_NAME}-wal", f"{FILE_NAME}-shm"), 0o600)


def test_a_removed_file_is_begun_anew(journal: JournalFile, tmp_path: Path) -> None:
    journal.write([records_of(1)])
    for each in tmp_path.iterdir():
        each.unlink()
    with pytest.raises(NoJournal, match="there is no journal in"):
        lives_of(tmp_path, "default", "web")
    journal.write([records_of(2)])
    assert only(tmp_path).seen == at(2)


def test_old_records_go_and_a_pod_that_is_there_stays(journal: JournalFile, tmp_path: Path) -> None:
    gone = PodLife("default", "job", "uid-9", "inc-9")
    journal.write([records_of(1, gone, entries=(exit_line(1),), is_gone=True)])
    journal.write(
        [records_of(1, entries=(exit_line(1), exit_line(200)), instances=(ended(), ended(1, begun=190, end=200)))]
    )
    journal.forget_old(NOON + timedelta(days=90, seconds=100))
    records = only(tmp_path)
    assert ([line.at for line in records.entries], [each.restart for each in records.instances]) == ([at(200)], [1])
    assert pods_of(tmp_path) == [(WEB, None)]


def test_the_file_stays_within_its_size_and_the_oldest_records_go(tmp_path: Path) -> None:
    limit = 2**20
    journal = JournalFile(tmp_path / FILE_NAME, Limits(size=limit))
    for batch in range(0, 3000, 100):
        some = range(batch, batch + 100)
        journal.write(
            [
                records_of(
                    some[-1],
                    entries=tuple(exit_line(each, each) for each in some),
                    instances=tuple(ended(each, begun=each, end=each, log_end="x" * 900) for each in some),
                )
            ]
        )
    journal.close()
    assert (tmp_path / FILE_NAME).stat().st_size <= limit * 1.2
    records = only(tmp_path)
    kept = [each.restart for each in records.instances]
    assert kept == list(range(kept[0], 3000))
    assert len(kept) > 300


def test_the_file_stays_within_its_size_if_it_has_nothing_but_ends(tmp_path: Path) -> None:
    journal = JournalFile(tmp_path / FILE_NAME, Limits(size=2**20))
    for number in range(0, 2000, 500):
        some = range(number, number + 500)
        journal.write([records_of(0, instances=tuple(ended(each, end=each, log_end="x" * 1000) for each in some))])
    journal.close()
    assert (tmp_path / FILE_NAME).stat().st_size <= 2**20 * 1.2
    kept = [each.restart for each in only(tmp_path).instances]
    assert kept == list(range(kept[0], 2000))
    assert len(kept) > 500, "a restart with its KiB of log takes less than two KiB"


# --- crashes ----------------------------------------------------------------------------------------------------------

_WRITES_FOR_EVER = textwrap.dedent(
    """
    import sys
    from pathlib import Path
    from syncpod.journal.file import JournalFile, Limits
    from tests.journal.records import ended, exit_line, records_of
    journal = JournalFile(Path(sys.argv[1]), Limits())
    number = 0
    while True:
        both = records_of(number, entries=(exit_line(number, number),), instances=(ended(number, log_end="x" * 1024),))
        journal.write([both])
        print(number, flush=True)
        number += 1
    """
)


def test_a_killed_writer_leaves_everything_that_it_had_written_and_nothing_by_halves(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _WRITES_FOR_EVER, str(tmp_path / FILE_NAME)]
    for last in (7, 150, 31):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            while int(writer.stdout.readline()) < last:
                pass
            writer.send_signal(signal.SIGKILL)
            told_of = [int(each) for each in writer.stdout.read().split()]
        written = max([last, *told_of])
        records = only(tmp_path)
        numbers = [line.restart for line in records.entries]
        assert numbers == [each.restart for each in records.instances] == list(range(len(numbers)))
        assert len(numbers) > written


def test_a_torn_write_ahead_log_costs_the_last_records_only(journal: JournalFile, tmp_path: Path) -> None:
    for number in range(50):
        journal.write([records_of(number, entries=(exit_line(number, number),))])
    torn = tmp_path / "torn"
    torn.mkdir()
    for name in (FILE_NAME, f"{FILE_NAME}-wal"):
        (torn / name).write_bytes((tmp_path / name).read_bytes())
    log = torn / f"{FILE_NAME}-wal"
    log.write_bytes(log.read_bytes()[: log.stat().st_size * 2 // 3 + 17])
    kept = [line.restart for line in only(torn).entries]
    assert kept == list(range(len(kept)))
    assert 10 < len(kept) < 50
    after = JournalFile(torn / FILE_NAME, Limits())
    after.write([records_of(99, entries=(exit_line(99, 99),))])
    after.close()
    assert [line.restart for line in only(torn).entries] == [*kept, 99]


@pytest.mark.parametrize("content", [b"no database at all" * 100, b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_file_that_is_no_journal_is_set_aside_by_name(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / FILE_NAME
    path.write_bytes(content)
    journal = JournalFile(path, Limits())
    for _ in range(4):
        with pytest.raises(sqlite3.DatabaseError) as broken:
            journal.write([records_of()])
        aside = journal.set_aside_if_broken(broken.value)
        assert aside is not None
        assert aside.read_bytes() == content
        assert aside.name == BROKEN_NAME
        journal.write([records_of()])
        journal.close()
        assert only(tmp_path).seen == at(1)
        path.write_bytes(content)
        (tmp_path / f"{FILE_NAME}-wal").unlink(missing_ok=True)
    with pytest.raises(NoJournal, match="the journal cannot be read"):
        lives_of(tmp_path, "default", "web")
    assert len(list(tmp_path.glob("*.broken"))) == 1


def test_a_file_of_another_format_is_set_aside_and_not_read(journal: JournalFile, tmp_path: Path) -> None:
    journal.write([records_of()])
    journal.close()
    with sqlite3.connect(tmp_path / FILE_NAME) as other:
        other.execute("PRAGMA user_version = 7")
    with pytest.raises(NoJournal, match="format is 7"):
        lives_of(tmp_path, "default", "web")
    with pytest.raises(sqlite3.DatabaseError, match="its format is 7") as broken:
        journal.write([records_of()])
    assert journal.set_aside_if_broken(broken.value) is not None


def test_a_full_disk_does_not_make_it_a_broken_file(journal: JournalFile, tmp_path: Path) -> None:
    journal.write([records_of()])
    error = sqlite3.OperationalError("database or disk is full")
    error.sqlite_errorcode = sqlite3.SQLITE_FULL
    assert journal.set_aside_if_broken(error) is None
    assert (tmp_path / FILE_NAME).exists()


def test_when_a_worker_died_is_known_to_the_next_one(journal: JournalFile, tmp_path: Path) -> None:
    journal.begin_service(at(0), "boot-1", None)
    journal.begin_service(at(100), "boot-1", at(70))  # no end: it died
    journal.end_service(at(200))
    journal.begin_service(at(230), "boot-1", at(199))  # it said so: its last sign counts for nothing
    journal.begin_service(at(400), "boot-2", at(300))
    services = services_of(tmp_path)
    assert [(each.begun, each.ended, each.how) for each in services] == [
        (at(0), at(70), "died"),
        (at(100), at(200), "stopped"),
        (at(230), at(300), "machine"),
        (at(400), None, ""),
    ]
    assert absences_of(services) == [
        Absence(at(70), at(100), "died"),
        Absence(at(200), at(230), "stopped"),
        Absence(at(300), at(400), "machine"),
    ]


def test_a_worker_of_a_version_without_such_records_was_no_absence(journal: JournalFile, tmp_path: Path) -> None:
    journal.begin_service(at(0), "boot", None)
    journal.end_service(at(100))
    journal.write([records_of(950)])
    journal.begin_service(at(1000), "boot", at(100))
    assert absences_of(services_of(tmp_path)) == [Absence(at(950), at(1000), "")]


def test_services_are_bounded_in_number_and_age(journal: JournalFile, tmp_path: Path) -> None:
    for each in range(1100):
        journal.begin_service(at(each), "boot", None)
    assert len(services_of(tmp_path)) == 1000
    journal.forget_old(at(91 * 86400))
    assert len(services_of(tmp_path)) == 1, "the one that has not ended"


def test_outages_of_the_server_are_told_with_the_times_without_a_worker(journal: JournalFile, tmp_path: Path) -> None:
    journal.begin_service(at(0), "boot", None)
    journal.write_outages({at(10): at(20), at(50): None})
    assert gaps_of(tmp_path) == ([Absence(at(10), at(20), SERVER_AWAY)], at(50))
    journal.begin_service(at(100), "boot", at(70))  # the worker died during the outage, and nobody saw more of it
    died, away = Absence(at(70), at(100), "died"), Absence(at(50), at(70), SERVER_AWAY)
    assert gaps_of(tmp_path) == ([Absence(at(10), at(20), SERVER_AWAY), away, died], None)
    journal.write_outages({at(1000 + each): at(1000.5 + each) for each in range(1100)})
    assert len([each for each in gaps_of(tmp_path).absences if each.how == SERVER_AWAY]) == 1000
    journal.forget_old(at(91 * 86400))
    assert gaps_of(tmp_path).absences == []


def test_a_journal_of_an_earlier_worker_has_no_outages_and_takes_them(journal: JournalFile, tmp_path: Path) -> None:
    journal.begin_service(at(0), "boot", None)
    journal.close()
    with contextlib.closing(sqlite3.connect(tmp_path / FILE_NAME)) as connection:
        connection.execute("DROP TABLE outage")
    assert gaps_of(tmp_path) == ([], None)
    journal.write_outages({at(10): None})
    assert gaps_of(tmp_path).silent_since == at(10)
