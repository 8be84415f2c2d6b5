"""The time that each phase of a start took, from the lines of a pod's history only."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from syncpod.cli.view.start_timeline import lines as lines_of
from syncpod.journal.reading import LifeRecords
from syncpod.journal.records import Absence, Fact, HistoryEntry, Instance
from syncpod.journal.start import Start, start_of
from tests.journal.records import WEB, at, ended, event

PROBED = "Container app failed liveness probe, will be restarted"


def step(end: float, name: str, container: str = "", took: int = 100, **more: Any) -> HistoryEntry:
    return HistoryEntry(at(end), "step", name, container, outcome="done", took_ms=took, attempt=1, **more)


def probe(second: float, said: str) -> HistoryEntry:
    probe, result = said.split(" probe: ")
    return HistoryEntry(
        at(second), "signal", "probe", "app", reason=said.capitalize(), fact=f"{probe.lower()} {result}"
    )


LINES = (
    HistoryEntry(at(0), "update", "apply", reason="generation 1", fact=Fact.MADE),
    HistoryEntry(at(0), "decision", "sync", reason="create_sandbox, start_container app"),
    step(0.5, "create_sandbox", took=500),
    step(0.9, "pull_image", "app", took=300),
    step(1, "start_container", "app"),
    probe(3, "readiness probe: success"),
    probe(20, "liveness probe: failure"),
    HistoryEntry(at(20), "decision", "sync", reason="kill_container app, start_container app"),
    step(21, "kill_container", "app", took=1000),
    HistoryEntry(at(21), "exit", "app", restart=0, outcome="exited 0", reason=PROBED, fact="liveness"),
    HistoryEntry(at(21), "hold", "app", reason="reworded", fact="CrashLoopBackOff", seconds=10),
    probe(25, "liveness probe: success"),
    step(31.2, "start_container", "app", took=200),
    HistoryEntry(at(40), "exit", "app", restart=1, outcome="exited 3"),
    step(40.2, "start_container", "app", took=200),
)
ACCOUNT = LifeRecords(
    WEB,
    begun=at(0),
    seen=at(41),
    entries=LINES,
    instances=(
        ended(0, begun=0.98, end=20.9, cause=PROBED, killed_by="liveness"),
        ended(1, begun=31.1, end=40),
        Instance("app", 2, started_at=at(40.1)),
    ),
)


def told(start: Start | None) -> list[tuple[float, float, str, str]]:
    """For each phase: its start and duration in seconds, its kind, and its first words."""
    assert start is not None
    begun, second = start.begun, timedelta(seconds=1)
    return [
        (
            round((each.begun - begun) / second, 3),
            round(each.took / second, 3),
            each.kind,
            each.what.partition(":")[0],
        )
        for each in start.phases
    ]


def test_the_first_start_begins_with_the_apply_and_ends_with_readiness() -> None:
    start = start_of(ACCOUNT, restart=0)
    assert told(start) == [
        (0, 0, "moment", "update apply"),
        (0, 0, "moment", "decision sync"),
        (0, 0.5, "step", "create_sandbox"),
        (0.5, 0.1, "between", "no step under way"),
        (0.6, 0.3, "step", "pull_image app"),
        (0.9, 0.1, "step", "start_container app"),
        (0.98, 0, "moment", "app runs (by the node's clock)"),
        (1, 2, "probes", "app runs, until its readiness probe succeeds"),
        (3, 0, "moment", "signal probe app"),
    ]
    assert start is not None and start.ready == at(3)
    assert start.spent("step") == timedelta(seconds=0.9)


def test_the_start_of_an_ephemeral_container_begins_with_the_update_that_adds_it() -> None:
    lines = (
        *LINES,
        HistoryEntry(at(100), "update", "add_ephemeral_container", reason="debugger"),
        HistoryEntry(at(100), "decision", "sync", reason="start_container debugger"),
        step(100.2, "start_container", "debugger", took=200),
    )
    debugger = Instance("debugger", 0, started_at=at(100.1))
    start = start_of(replace(ACCOUNT, entries=lines, instances=(*ACCOUNT.instances, debugger)))
    assert start is not None and start.begun == at(100)
    assert told(start)[:3] == [
        (0, 0, "moment", "update add_ephemeral_container"),
        (0, 0, "moment", "decision sync"),
        (0, 0.2, "step", "start_container debugger"),
    ]


def test_a_restart_by_the_node_begins_with_its_decision_and_names_the_back_off() -> None:
    start = start_of(ACCOUNT, restart=1)
    assert told(start)[:4] == [
        (0, 0, "moment", "signal probe app"),
        (0, 0, "moment", "decision sync"),
        (0, 1, "step", "kill_container app"),
        (1, 0, "moment", "exit app"),
    ]
    assert start is not None and start.spent("back-off") == timedelta(seconds=10)
    assert start.spent("between") == timedelta(0)
    assert start.ready is None


def test_only_its_own_waits_are_shown_and_each_no_longer_than_it_was() -> None:
    lines = (
        HistoryEntry(at(0), "exit", "app", restart=0, outcome="exited 3"),
        HistoryEntry(at(0), "hold", "app", reason="CrashLoopBackOff 20s: words", fact="CrashLoopBackOff", seconds=20),
        HistoryEntry(at(1), "hold", "web", reason="CrashLoopBackOff 30s: words", fact="CrashLoopBackOff", seconds=30),
        step(9, "start_container", "web", took=1000),
        step(60, "start_container", "app", took=1000),
    )
    instances = (ended(0, end=0), Instance("app", 1, started_at=at(59.9)), Instance("web", 1, started_at=at(8.9)))
    records = LifeRecords(WEB, begun=at(0), seen=at(60), entries=lines, instances=instances)
    start = start_of(records, container="app", absences=[Absence(at(15), at(45), "died")])
    assert [phase for phase in told(start) if phase[2] != "moment"] == [
        (0, 8, "back-off", "app waits"),
        (8, 1, "step", "start_container web"),
        (9, 11, "back-off", "app waits"),
        (20, 25, "no worker", "no worker served the node"),
        (45, 14, "between", "no step under way"),
        (59, 1, "step", "start_container app"),
    ]
    assert start is not None
    assert "back-off 19000ms, no worker 25000ms, no step under way 14000ms" in lines_of(records, start)[-4]


def test_the_newest_start_begins_with_the_end_that_it_follows() -> None:
    start = start_of(ACCOUNT)
    assert start is not None and (start.instance.restart, start.begun) == (2, at(40))
    assert told(start) == [
        (0, 0, "moment", "exit app"),
        (0, 0.2, "step", "start_container app"),
        (0.1, 0, "moment", "app runs (by the node's clock)"),
    ]


def test_a_slow_start_names_the_init_container_that_ran_and_what_its_probe_said_until_it_succeeded() -> None:
    lines = (
        HistoryEntry(at(0), "update", "apply", reason="generation 1", fact=Fact.MADE),
        step(1, "start_init_container", "migrate"),
        HistoryEntry(at(15), "exit", "migrate", outcome="exited 0"),
        step(15.2, "start_container", "app", took=200),
        probe(25, "readiness probe: success"),
    )
    instances = (
        ended(begun=0.9, end=15, container="migrate", exit_code=0),
        Instance("app", 0, started_at=at(15.1)),
    )
    cold = event(15.1, reason="Unhealthy", message="Readiness probe failed: cache is cold", container="app")
    failed = replace(cold, last=at(24), count=5)
    start = start_of(LifeRecords(WEB, at(0), at(30), entries=lines, instances=instances, events=(failed,)))
    assert start is not None
    said = [phase.what for phase in start.phases]
    assert "no step under way: migrate runs" in said
    assert "app runs, until its readiness probe succeeds, which failed 5 times: cache is cold" in said
    assert start.spent("probes") == timedelta(seconds=9.8)
    shown = lines_of(LifeRecords(WEB, at(0), at(30)), start)
    assert shown[-4].endswith("no step under way 14900ms, until a probe succeeded 9800ms")


def test_a_start_that_the_journal_does_not_have_is_none() -> None:
    assert start_of(ACCOUNT, restart=9) is None
    assert start_of(ACCOUNT, container="other") is None


def test_a_sandbox_and_a_start_whose_results_came_together_follow_one_another() -> None:
    """Their lengths are without the time in which one only waited for the other."""
    lines = (LINES[0], step(0.5, "create_sandbox", took=300), step(0.5, "start_container", "app", took=180))
    instances = (Instance("app", 0, started_at=at(0.45)),)
    start = start_of(LifeRecords(WEB, begun=at(0), seen=at(1), entries=lines, instances=instances))
    assert [phase for phase in told(start) if phase[2] == "step"] == [
        (0.02, 0.3, "step", "create_sandbox"),
        (0.32, 0.18, "step", "start_container app"),
    ]


def test_a_sandbox_is_shown_that_was_still_being_made_as_the_start_in_it_began() -> None:
    """By their own lengths they took longer together than there was time: the sandbox seemed older than its pod."""
    lines = (
        HistoryEntry(at(0), "update", "apply", reason="generation 1", fact=Fact.MADE),
        HistoryEntry(at(0), "decision", "sync", reason="create_sandbox, start_container app"),
        step(0.8, "create_sandbox", took=500),
        step(0.8, "start_container", "app", took=400),
    )
    start = start_of(LifeRecords(WEB, at(0), at(1), entries=lines, instances=(Instance("app", 0, started_at=at(0.7)),)))
    assert [phase for phase in told(start) if phase[2] != "moment"] == [
        (0, 0.4, "step", "create_sandbox"),
        (0.4, 0.4, "step", "start_container app"),
    ]


def test_what_two_steps_took_at_the_same_time_counts_once() -> None:
    lines = (
        HistoryEntry(at(0), "exit", "app", restart=0, outcome="exited 3"),
        step(1.5, "start_container", "web", took=1000),
        step(2, "start_container", "app", took=1500),
    )
    instances = (ended(0, end=0), Instance("app", 1, started_at=at(1.9)))
    records = LifeRecords(WEB, at(0), at(2), entries=lines, instances=instances)
    start = start_of(records, container="app")
    assert start is not None and start.spent("step") == timedelta(seconds=1.5)
    assert max(map(len, lines_of(records, start, wide=80))) <= 80
    assert "2000ms in all: steps 1500ms, back-off 0ms, no step under way 500ms" in lines_of(records, start)


def test_a_start_after_an_end_that_its_workflow_has_not_heard_of_begins_with_that_end() -> None:
    """A restart of all containers removes those that still ran before any listing shows them as ended."""
    lines = (
        HistoryEntry(at(0), "exit", "asks", restart=0, outcome="exited 88"),
        step(1, "remove_container", took=900),
        step(1.5, "start_container", "app", took=400),
    )
    instances = (ended(0, end=0.2), Instance("app", 1, started_at=at(1.4)))
    start = start_of(LifeRecords(WEB, at(0), at(2), entries=lines, instances=instances), container="app")
    assert start is not None and start.begun == at(0.2)
    assert [phase[3] for phase in told(start) if phase[2] == "step"] == ["start_container app"]


def test_an_init_container_whose_end_came_with_the_next_start_comes_before_it() -> None:
    lines = (
        LINES[0],
        step(0.4, "create_sandbox", took=300),
        step(0.9, "start_init_container", "prepare", took=200),
        step(0.9, "start_container", "app", took=180),
    )
    instances = (Instance("app", 0, started_at=at(0.85)),)
    start = start_of(LifeRecords(WEB, begun=at(0), seen=at(1), entries=lines, instances=instances))
    assert [phase for phase in told(start) if phase[2] == "step"] == [
        (0.1, 0.3, "step", "create_sandbox"),
        (0.52, 0.2, "step", "start_init_container prepare"),
        (0.72, 0.18, "step", "start_container app"),
    ]
