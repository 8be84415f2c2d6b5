"""A pod's state at a given time, computed from the journal only."""

from datetime import datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from syncpod.journal.explain import as_of, explain, life_at
from syncpod.journal.reading import LifeRecords
from syncpod.journal.records import Absence, EntryKind, Fact, HistoryEntry, Instance, PodLife
from tests.journal.records import WEB, at, ended, event, exit_line

PRESENT: dict[str, Any] = {
    "phase": "Running",
    "containers": [{"name": "app", "ready": False, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}],
    "waits": [{"subject": "app", "until": at(41).isoformat(), "reason": "CrashLoopBackOff", "message": "m"}],
    "activeDeadlineSeconds": 600,
    "startTime": at(0).isoformat(),
}


def records(**more: Any) -> LifeRecords:
    said: dict[str, Any] = {
        "present": PRESENT,
        "entries": (
            HistoryEntry(at(0), "update", "apply", reason="generation 1", fact=Fact.MADE),
            exit_line(10),
            HistoryEntry(at(10), "hold", "app", reason="CrashLoopBackOff 10s: m", fact="CrashLoopBackOff", seconds=10),
            HistoryEntry(at(20), "step", "start_container", "app", outcome="done"),
            exit_line(30, 1),
            HistoryEntry(at(31), "hold", "app", reason="CrashLoopBackOff 10s: m", fact="CrashLoopBackOff", seconds=10),
        ),
        "events": (event(10),),
        "instances": (ended(0, begun=1, end=10), ended(1, begun=20, end=30)),
    }
    return LifeRecords(WEB, at(0), at(31), **{**said, **more})


def test_now_is_what_the_workflow_said_last() -> None:
    now = explain(records(), at(35))
    (app,) = now.containers
    assert (now.phase, now.deadline, now.is_gone, now.is_being_deleted) == ("Running", at(600), False, False)
    assert (app.runs, app.is_ready, [end.instance.restart for end in app.ends]) == (False, False, [0, 1])
    assert app.wait is not None
    assert app.wait.until == at(41)


def test_the_past_is_told_without_what_came_later() -> None:
    running = explain(records(), at(25), past=True)
    (app,) = running.containers
    assert (app.runs, len(app.ends), running.waits, running.phase) == (True, 1, (), "")
    waiting = explain(records(), at(15), past=True)
    assert [(wait.subject, wait.until) for wait in waiting.waits] == [("app", at(20))]
    assert not waiting.containers[0].runs


def test_without_a_worker_a_back_off_that_is_over_is_still_waited_for() -> None:
    only = records(entries=records().entries[:3], instances=(ended(0, begun=1, end=10),))
    away = Absence(at(12), at(40), "")
    without = explain(only, at(25), past=True, absences=[away])
    assert ([(wait.subject, wait.until) for wait in without.waits], without.unserved) == ([("app", at(20))], away)
    served = explain(only, at(25), past=True, absences=[Absence(at(12), at(15), "")])
    assert (served.waits, served.unserved) == ((), None)


def test_since_leaves_out_what_was_before() -> None:
    now = explain(records(), at(35), since=at(20))
    assert ([end.instance.restart for end in now.containers[0].ends], now.changes) == ([1], ())
    (app,) = explain(records(), at(35), since=at(34)).containers
    assert (app.ends, app.last_end and app.last_end.instance.restart) == ((), 1), "why it does not run is still known"


def test_a_gone_pod_waits_for_nothing() -> None:
    gone = explain(records(gone=at(34)), at(35))
    assert (gone.is_gone, gone.waits, gone.deadline) == (True, (), None)


def test_a_pod_that_is_being_deleted_waits_for_no_start() -> None:
    stuck = {"subject": "app", "until": at(50).isoformat(), "reason": "FailedKillPod", "message": "m"}
    sandbox = {"subject": "kill_pod", "until": at(50).isoformat(), "reason": "RuntimeNotReady", "message": "m"}
    waits = [*PRESENT["waits"], stuck, sandbox]
    deleted = explain(records(present={**PRESENT, "waits": waits, "deletion": {"at": ""}}), at(35))
    assert deleted.is_being_deleted
    assert [(each.subject, each.reason) for each in deleted.waits] == [
        ("app", "FailedKillPod"),
        ("kill_pod", "RuntimeNotReady"),
    ]
    asked = HistoryEntry(at(32), "update", "delete", reason="grace 30 s", fact=Fact.DELETED, seconds=30)
    then = explain(records(entries=(*records().entries, asked)), at(35), past=True)
    assert (then.is_being_deleted, then.waits) == (True, ())


def test_the_grace_of_a_deletion_ends_when_its_shortest_request_says_and_a_later_pod_follows() -> None:
    present = {**PRESENT, "deletion": {"at": at(32).isoformat(), "graceSeconds": 60}}
    assert explain(records(present=present), at(33)).grace_ends == at(92)
    lines = (
        *records().entries,
        HistoryEntry(at(32), "update", "delete", reason="grace 60 s", fact=Fact.DELETED, seconds=60),
        HistoryEntry(
            at(34), "update", "delete", reason="grace shortened to 40 s", fact=Fact.GRACE_SHORTENED, seconds=40
        ),
        HistoryEntry(at(36), "update", "apply", reason="this one follows", fact=Fact.SUCCESSOR_APPLIED),
        HistoryEntry(at(38), "update", "delete", reason="it does not follow", fact=Fact.SUCCESSOR_DROPPED),
    )
    whole = records(present=present, entries=lines)
    then = [explain(whole, at(each), past=True) for each in (31, 33, 37, 39)]
    assert [each.grace_ends for each in then] == [None, at(92), at(74), at(74)]
    assert [each.is_followed for each in then] == [False, False, True, False]
    assert explain(records(present=present, gone=at(50), entries=lines), at(60)).grace_ends is None


def test_a_grace_period_that_outlasts_the_calendar_does_not_end() -> None:
    present = {**PRESENT, "deletion": {"at": at(32).isoformat(), "graceSeconds": 2**63 - 1}}
    assert explain(records(present=present), at(33)).grace_ends is None


def test_every_change_of_the_spec_is_known_whatever_its_words() -> None:
    generations = (1, 2, 10, 12, 20)
    facts = [Fact.MADE if each == 1 else Fact.SPEC_CHANGED for each in generations]
    lines = [
        HistoryEntry(at(each), "update", "apply", reason=f"generation {each}: image of app", fact=fact)
        for each, fact in zip(generations, facts, strict=True)
    ]
    labels = HistoryEntry(at(21), "update", "apply", reason="labels or annotations: generation 7")
    one = explain(records(entries=(*lines, labels)), at(60))
    assert one.changed == tuple(at(each) for each in generations[1:])


def test_a_container_that_never_started_is_explained_by_its_status() -> None:
    present = {"containers": [{"name": "app", "state": {"waiting": {"reason": "ErrImagePull", "message": "no such"}}}]}
    (app,) = explain(records(present=present, instances=()), at(35)).containers
    assert (app.newest, app.waiting) == (None, "ErrImagePull: no such")


def test_the_life_of_a_moment_is_the_last_one_begun() -> None:
    lives = [records(gone=at(5)), LifeRecords(PodLife("default", "web", "uid-2"), at(8), at(9))]
    assert [life_at(lives, at(each)) for each in (1, 6, 9)] == [lives[0], lives[0], lives[1]]
    assert life_at(lives, at(-1)) is None


_TIMES = st.integers(0, 50)


@given(
    st.lists(st.tuples(_TIMES, _TIMES, st.booleans()), max_size=6),
    st.lists(
        st.tuples(
            _TIMES,
            st.sampled_from(["hold", "step", "exit", "update"]),
            st.sampled_from(["app", "x"]),
            st.text(max_size=12),
        ),
        max_size=8,
    ),
    _TIMES,
    st.booleans(),
)
def test_any_record_of_any_moment_is_explained_without_error_and_without_the_future(
    spans: list[tuple[int, int, bool]], lines: list[tuple[int, EntryKind, str, str]], moment: int, past: bool
) -> None:
    instances = tuple(
        ended(number, begun=begun, end=end) if over else Instance("app", number, started_at=at(begun))
        for number, (begun, end, over) in enumerate(spans)
    )
    whole = records(
        instances=instances,
        entries=tuple(HistoryEntry(at(when), kind, subject, reason=why) for when, kind, subject, why in lines),
    )
    known = as_of(whole, at(moment))
    times: list[datetime | None] = [line.at for line in known.entries]
    times += [each for one in known.instances for each in (one.started_at, one.ended_at)]
    assert all(each is None or each <= at(moment) for each in times)
    told = explain(whole, at(moment), past=past)
    assert all(end.waited is None or end.waited >= timedelta(0) for each in told.containers for end in each.ends)
