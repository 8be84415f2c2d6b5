"""`syncpod explain` says what a pod is, why, and what happens next, from the node's journal alone."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from syncpod.cli.commands.explain import read_moment
from syncpod.cli.failure import BadInput
from syncpod.cli.view.explanation import lines
from syncpod.journal.explain import explain
from syncpod.journal.file import FILE_NAME, SIGN_NAME, JournalFile, Limits
from syncpod.journal.reading import Account
from syncpod.journal.records import Happening, Instance, Life, Line, Told
from tests.cli.conftest import program
from tests.journal.records import WEB, ended, exit_line

NOW = datetime.now(UTC).replace(microsecond=0)


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def until_now(seconds: float) -> str:
    """The time from so many seconds before NOW, when this file was loaded, until now."""
    return f"{(datetime.now(UTC) - ago(seconds)).total_seconds():.0f}s"


def crash(restart: int, begun: float, end: float, **more: Any) -> Instance:
    return replace(ended(restart, **more), started_at=ago(begun), ended_at=ago(end))


PRESENT: dict[str, Any] = {
    "phase": "Running",
    "node": "n1",
    "containers": [{"name": "app", "ready": False, "state": {}}],
    "waits": [
        {
            "subject": "app",
            "until": (NOW + timedelta(hours=1)).isoformat(),
            "reason": "CrashLoopBackOff",
            "message": "",
        }
    ],
}
OLD = Life("default", "web", "uid-0", "inc-0")


@pytest.fixture
def environ(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A node without a worker whose journal has two lives of pod web."""
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    journal = JournalFile(state / FILE_NAME, Limits())
    journal.write([Told(OLD, ago(9000), lines=(Line(ago(9500), "update", "apply", reason="generation 1"),))])
    journal.write([Told(OLD, ago(8000), instances=(crash(0, 9400, 8100, cause="deleted"),), is_gone=True)])
    lines = (
        Line(ago(400), "update", "apply", reason="generation 1"),
        replace(exit_line(0), at=ago(180)),
        Line(ago(89), "hold", "app", reason="CrashLoopBackOff 5m0s: m"),
    )
    instances = tuple(
        crash(each, 300 - 80 * each, 250 - 80 * each, log_end=f"try {each}\nno \x1b[31mroute\n") for each in (0, 1, 2)
    )
    journal.write([Told(WEB, ago(90), lines=lines, instances=instances, present=json.dumps(PRESENT))])
    journal.close()
    hung = {"message": "Ready is False now: it hangs", "count": 2, "first": f"{ago(300)}", "last": f"{ago(200)}"}
    (state / "node-workflow.json").write_text(json.dumps({"next_input": {"snapshot": {"events": [hung]}}}))
    logs = tmp_path / "pods" / "default_web_uid-1" / "app"
    logs.mkdir(parents=True)
    (logs / "2.log").write_text("")
    yield {"SYNCPOD_STATE_DIR": str(state), "SYNCPOD_LOG_DIR": str(tmp_path / "pods"), "SYNCPOD_NODE": "n1"}


def test_one_screen_says_what_why_and_what_next(environ: dict[str, str]) -> None:
    done = program("explain", "web", environ=environ)
    assert done.code == 0, done.err
    assert "no worker serves this node; this is the state at" in done.err
    out = done.out
    assert "default/web on node n1, since" in out
    assert "Running: app waits since" in out
    assert ": exited 3 by itself" in out
    assert "no worker serves this node: nothing of this happens until `syncpod up`" in out
    due = datetime.fromisoformat(str(PRESENT["waits"][0]["until"])).astimezone()
    assert f"{due:%H:%M:%S} (CrashLoopBackOff)" in out, "with the date if that is tomorrow"
    assert "always the same: exited 3" in out
    assert "it runs for 50s each time" in out
    assert "(back-off 5m0s)" in out
    assert "\x1b" not in out
    assert str(Path(environ["SYNCPOD_LOG_DIR"]) / "default_web_uid-1/app/2.log") in out
    assert "Other lives of this name:" in out
    assert "(uid uid-0)" in out
    assert len(out.splitlines()) < 30


def test_json_has_everything(environ: dict[str, str]) -> None:
    said = json.loads(program("explain", "pod/web", "-o", "json", environ=environ).out)
    assert (said["uid"], said["phase"], said["otherLives"][0]["uid"]) == ("uid-1", "Running", "uid-0")
    (app,) = said["containers"]
    assert [(end["exitCode"], end["decidedBy"], end["hasLogFile"]) for end in app["ends"]] == [
        (3, "itself", False),
        (3, "itself", False),
        (3, "itself", True),
    ]
    assert app["ends"][0]["logEnd"] == "try 0\nno \x1b[31mroute\n"


def test_a_gone_life_and_a_moment_of_the_past_are_explained(environ: dict[str, str]) -> None:
    gone = program("explain", "web", "--at", ago(7000).isoformat(), environ=environ)
    assert "gone since" in gone.out
    assert "the pod was deleted (decided by its deletion)" in gone.out
    assert gone.err == ""
    then = json.loads(program("explain", "web", "--at", ago(200).isoformat(), "-o", "json", environ=environ).out)
    assert [(each["running"], len(each["ends"])) for each in then["containers"]] == [(True, 1)]
    recent = json.loads(program("explain", "web", "--since", until_now(120), "-o", "json", environ=environ).out)
    assert [len(each["ends"]) for each in recent["containers"]] == [1]
    assert (
        "Container app has not ended in this time, last at "
        in program("explain", "web", "--since", "1s", environ=environ).out
    )


def test_what_the_journal_does_not_have_is_said_in_a_sentence(environ: dict[str, str], tmp_path: Path) -> None:
    missing = program("explain", "other", environ=environ)
    assert (missing.code, missing.out) == (1, "")
    assert "has no pod other in namespace default" in missing.err
    before = program("explain", "web", "--at", ago(99_999).isoformat(), environ=environ)
    assert 'the journal has nothing of pod "web" before' in before.err
    nothing = program("explain", "web", environ={**environ, "SYNCPOD_STATE_DIR": str(tmp_path / "none")})
    assert (nothing.code, "there is no journal in" in nothing.err) == (1, True)
    wrong = program("explain", "web", "--since", "soon", environ=environ)
    assert (wrong.code, "--since: 'soon' is not a duration" in wrong.err) == (2, True)
    assert program("explain", "web", "-o", "yaml", environ=environ).code == 2


def test_the_log_of_any_instance_is_read_from_its_file_or_else_from_the_journal(environ: dict[str, str]) -> None:
    kept = program("logs", "web", "--restart", "1", environ=environ)
    assert (kept.code, kept.out) == (0, "try 1\nno \x1b[31mroute\n")
    assert "the log file of restart 1 is gone; this is the end of it that the journal keeps" in kept.err
    assert program("logs", "web", "--restart", "1", "--tail", "1", environ=environ).out == "no \x1b[31mroute\n"
    log = Path(environ["SYNCPOD_LOG_DIR"]) / "default_web_uid-1/app/2.log"
    log.write_text("2026-11-23T12:00:00.000000001Z stdout F the whole log\n")
    whole = program("logs", "web", "app", "--restart", "2", "--prefix", environ=environ)
    assert (whole.out, whole.err) == ("[pod/web/app] the whole log\n", "")
    other = program("logs", "web", "--restart", "7", environ=environ)
    assert (other.code, 'has no restart 7 of container "app" of pod "web": it has 0 to 2' in other.err) == (1, True)
    for wrong in (["--restart", "-1"], ["--restart", "-2"], ["--restart", "1", "-f"], ["--restart", "1", "--previous"]):
        assert program("logs", "web", *wrong, environ=environ).code == 2
    assert program("logs", "gone", "--restart", "0", environ=environ).code == 1


def test_the_newest_start_and_any_other_is_a_timeline(environ: dict[str, str]) -> None:
    done = program("explain", "web", "--start", "--restart", "1", environ=environ)
    assert done.code == 0, done.err
    assert done.out.startswith("Start of app, restart 1, of pod default/web: ")
    assert "app runs (by the node's clock)" in done.out
    assert "The journal does not have the calls to the runtime" in done.out
    said = json.loads(program("explain", "web", "--start", "-o", "json", environ=environ).out)
    assert (said["container"], said["restart"], said["ready"]) == ("app", 2, None)
    missing = program("explain", "web", "--start", "--restart", "7", environ=environ)
    assert (missing.code, "has no start of restart 7" in missing.err) == (1, True)
    nobody = program("explain", "web", "--start", "-c", "nobody", environ=environ)
    assert (nobody.code, 'has no start of container nobody of pod "web"' in nobody.err) == (1, True)
    for wrong in (["web", "--restart", "1"], ["web", "--start", "--at", "12:00"], ["node", "--start"]):
        assert program("explain", *wrong, environ=environ).code == 2


def printed(name: str, span: str, parent: str, begun: datetime, ended: datetime, **attributes: str) -> str:
    """A span as OpenTelemetry's console exporter prints it, after a line of the worker's own."""
    said = {
        "name": name,
        "context": {"trace_id": "0x01", "span_id": span, "trace_state": "[]"},
        "parent_id": parent or None,
        "start_time": begun.isoformat(),
        "end_time": ended.isoformat(),
        "attributes": attributes,
    }
    return f"a line of the worker\n{json.dumps(said, indent=4)}\n"


def test_a_start_is_shown_as_the_trace_that_the_workers_log_has(environ: dict[str, str], tmp_path: Path) -> None:
    none = program("explain", "web", "--start", "--trace", environ=environ)
    assert (none.code, "worker.log cannot be read: No such file" in none.err) == (1, True)
    log = tmp_path / "copied.log"
    uid, begun = {"k8s.pod.uid": "uid-1"}, ago(140)
    log.write_text(
        printed("sync_pod", "0x9", "", ago(999), ago(998), **uid)
        + printed("cri.start_container", "0x3", "0x2", begun + timedelta(seconds=3), begun + timedelta(seconds=8))
        + printed("start_container", "0x2", "0x1", begun + timedelta(seconds=2), begun + timedelta(seconds=9))
        + printed("sync_pod", "0x1", "", begun, begun + timedelta(seconds=10), **uid)
        + printed("sync_pod", "0x8", "", begun, begun + timedelta(seconds=10), **{"k8s.pod.uid": "another"})
    )
    asked = ("explain", "web", "--start", "--trace", "--trace-log", str(log))
    done = program(*asked, environ=environ)
    assert done.code == 0, done.err
    assert [line.split() for line in done.out.splitlines()[1:]] == [
        ["at", "took", "gaps"],
        ["sync_pod", "0.0", "10000.0", "3000.0"],
        ["start_container", "2000.0", "7000.0", "2000.0"],
        ["cri.start_container", "3000.0", "5000.0"],
        [],
        ["no", "span", "accounts", "for", "50.0%", "of", "it"],
    ]
    (trace,) = json.loads(program(*asked, "-o", "json", environ=environ).out)["traces"]
    assert [(each["name"], each["tookMs"]) for each in trace] == [
        ("sync_pod", 10000),
        ("start_container", 7000),
        ("cri.start_container", 5000),
    ]
    log.write_text('{\n    "name": "cut off')
    cut = program(*asked, environ=environ)
    assert (cut.code, "has no trace of this start" in cut.err) == (1, True)
    for wrong in (["web", "--trace"], ["web", "--start", "--trace-log", str(log)]):
        assert program("explain", *wrong, environ=environ).code == 2


def test_the_restless_pods_of_the_node_are_named(environ: dict[str, str]) -> None:
    done = program("explain", "node", environ=environ)
    assert done.code == 0, done.err
    assert "no worker serves it" in done.out
    assert "1 there, 1 gone since" in done.out
    restless, node, due = done.out.split("\n\n")[1:]
    head, web, old = restless.splitlines()
    assert head.split("   ")[0] == "POD"
    assert "default/web   3" in web
    assert "app: exited 3" in web
    assert "CrashLoopBackOff" in web
    assert "its deletion" in old
    assert node.splitlines()[0] == "What happened to the node:"
    assert node.endswith("Ready is False now: it hangs (2 times since " + f"{ago(300).astimezone():%Y-%m-%d %H:%M:%S})")
    assert due.split()[3:] == ["default/web", "app", "starts", "again", "(CrashLoopBackOff)"]
    said = json.loads(program("explain", "node", "--since", until_now(120), "-o", "json", environ=environ).out)
    assert [(each["name"], each["ends"], each["now"]) for each in said["restless"]] == [("web", 1, "CrashLoopBackOff")]
    assert [each["name"] for each in said["next"]] == ["web"]
    assert said["events"] == [], "the last was before"
    assert program("explain", "node", "--at", "12:00", environ=environ).code == 2


def test_when_the_node_had_no_worker_is_told_between_what_was_done(environ: dict[str, str]) -> None:
    journal = JournalFile(Path(environ["SYNCPOD_STATE_DIR"]) / FILE_NAME, Limits())
    journal.begin_service(ago(9600), "boot", None)
    journal.begin_service(ago(9000), "boot", ago(9300))  # of the life before
    journal.begin_service(ago(100), "boot", ago(165))
    journal.end_service(ago(50))
    journal.begin_service(ago(20), "boot", None)
    journal.close()
    done = program("explain", "web", environ=environ)
    assert done.code == 0, done.err
    _, _, told = done.out.partition("Changes and failures")
    rows = [line.split(maxsplit=1)[1] for line in told.splitlines()[1:4]]
    assert rows[0] == "apply: generation 1"
    assert rows[1].startswith("no worker for 65s, until ") and rows[1].endswith(": the previous one had died")
    assert rows[2].startswith("no worker for 30s, until ") and rows[2].endswith(": the previous one was stopped")
    assert "no worker for 300s" not in told
    (waited,) = (line for line in done.out.splitlines() if line.startswith("  1 "))
    assert "(no worker for 25s)" in waited, "of the 30 s until its next start"
    found = json.loads(program("explain", "web", "-o", "json", environ=environ).out)
    assert [each["how"] for each in found["absences"]] == ["died", "stopped"]
    whole = program("explain", "node", environ=environ).out
    assert whole.count("no worker for ") == 3
    Path(environ["SYNCPOD_STATE_DIR"], SIGN_NAME).touch()
    assert "no worker serves this node since " in program("explain", "web", environ=environ).err


def told_of(environ: dict[str, str], *arguments: str) -> str:
    done = program("explain", *arguments, environ=environ)
    assert done.code == 0, done.err
    return done.out


def test_why_a_container_is_not_ready_is_what_its_probe_said_last(environ: dict[str, str]) -> None:
    life = Life("default", "slow", "uid-5", "inc")
    runs = Instance("app", 0, started_at=ago(60))
    failed = Happening(
        "Warning", "Unhealthy", "Readiness probe failed: not\nyet", ago(50), ago(5), container="app", count=9
    )
    present = {"phase": "Running", "containers": [{"name": "app", "ready": False, "state": {"running": {}}}]}
    journal = JournalFile(Path(environ["SYNCPOD_STATE_DIR"]) / FILE_NAME, Limits())
    journal.write([Told(life, ago(5), happenings=(failed,), instances=(runs,), present=json.dumps(present))])
    assert "Why:   app is not ready: Readiness probe failed: not yet (9 times since " in told_of(environ, "slow")
    waiting = {"name": "app", "ready": False, "state": {"waiting": {"reason": "PodInitializing"}}}
    over = Life("default", "over", "uid-6", "inc")
    journal.write([Told(over, ago(5), present=json.dumps({"phase": "Failed", "containers": [waiting]}))])
    journal.close()
    told = told_of(environ, "over")
    assert "Now:   Failed: app was never started" in told and "does not start" not in told


def test_what_is_under_way_and_which_init_container_is_waited_for_is_named() -> None:
    begun = {"step": "start_init_container", "container": "migrate", "what": "start migrate", "since": f"{ago(30)}"}
    inits = [
        {"name": "ready", "init": True, "ready": True, "state": {"running": {}}},
        {"name": "migrate", "init": True},
    ]
    waiting = {"ready": False, "state": {"waiting": {"reason": "PodInitializing"}}}
    mains = [{"name": name, **waiting} for name in ("app", "web")]
    runs = tuple(Instance(name, 0, started_at=ago(30)) for name in ("ready", "migrate"))

    def screen(instances: tuple[Instance, ...], *under_way: dict[str, str], unserved: str = "") -> list[str]:
        present = {"phase": "Pending", "containers": [*inits, *mains], "underWay": under_way}
        one = explain(Account(WEB, ago(60), ago(5), present=present, instances=instances), NOW)
        clock = ago(30).astimezone().strftime("%H:%M:%S")
        said = lines(one, [], NOW, log_dir=Path("/"), has_log=lambda *_: False, unserved=unserved)
        return [line.replace(clock, "T").split(": ", 1)[-1].strip() for line in said if line[:4] in ("Why:", "Next")]

    assert screen(runs, begun) == [
        "app, web wait for init container migrate, which has been running since T",
        "under way since T: start migrate",
    ]
    assert screen(runs)[1] == "the next containers start when init container migrate has finished or is ready"
    assert screen(runs[:1])[0] == "app, web wait for init container migrate, which has not finished"
    assert screen(runs, begun, unserved="no worker")[1] == "no worker", "nobody knows what became of the step"


def test_a_time_alone_is_the_last_such_time() -> None:
    now = datetime(2026, 11, 23, 14, 30, tzinfo=UTC).astimezone()
    assert read_moment(f"{now - timedelta(hours=1):%H:%M}", now) == now - timedelta(hours=1)
    assert read_moment(f"{now + timedelta(hours=1):%H:%M:%S}", now) == now - timedelta(hours=23)
    assert read_moment("2026-11-23T12:00:00Z", now) == datetime(2026, 11, 23, 12, tzinfo=UTC)
    for text in ("soon", "25:00", "2099-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"):
        with pytest.raises(BadInput, match="--at: "):
            read_moment(text, now)
