"""`syncpod explain` reads a pod's state, the causes and the next step from the node's journal only.

Holds: Short commands load little.
"""

import json
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from syncpod.cli.actions import explain as explain_command
from syncpod.cli.commands.explain import read_moment
from syncpod.cli.failure import BadInput
from syncpod.cli.view.explanation import Clock, lines
from syncpod.cli.view.explanation_document import document
from syncpod.cli.view.node_explanation import lines as node_lines
from syncpod.journal.explain import Explanation, explain
from syncpod.journal.file import FILE_NAME, SIGN_NAME, JournalFile, Limits
from syncpod.journal.reading import JournalSummary, LifeRecords
from syncpod.journal.records import (
    RESTART_OF_ALL,
    SERVER_AWAY,
    Absence,
    Fact,
    HistoryEntry,
    Instance,
    PodLife,
    TaskRecords,
)
from syncpod.lifecycle import backoff
from syncpod.lifecycle.exit import Exit
from syncpod.node.recorded_events import NodeEvent
from syncpod.settings.node import NodeSettings
from tests.cli.conftest import program
from tests.cli.starts import started
from tests.journal.records import WEB, ended, event, exit_line, otherwise

NOW = datetime.now(UTC).replace(microsecond=0)


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def until_now(seconds: float) -> str:
    """The duration from this many seconds before NOW (when this file was loaded) until now."""
    return f"{(datetime.now(UTC) - ago(seconds)).total_seconds():.0f}s"


def crash(restart: int, begun: float, end: float, **more: Any) -> Instance:
    return replace(otherwise(ended(restart, **more), finished_at=ago(end)), started_at=ago(begun))


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
OLD = PodLife("default", "web", "uid-0", "inc-0")


@pytest.fixture
def environ(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A node without a worker, whose journal has two lives of the pod web."""
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    journal = JournalFile(state / FILE_NAME, Limits())
    journal.write([TaskRecords(OLD, ago(9000), entries=(HistoryEntry(ago(9500), "update", "apply", fact=Fact.MADE),))])
    journal.write(
        [
            TaskRecords(
                OLD, ago(8000), instances=(crash(0, 9400, 8100, cause="deleted", killed_by="deleted"),), is_gone=True
            )
        ]
    )
    lines = (
        HistoryEntry(ago(400), "update", "apply", reason="generation 1", fact=Fact.MADE),
        replace(exit_line(0), at=ago(180)),
        HistoryEntry(ago(89), "hold", "app", reason="CrashLoopBackOff 5m0s: m", fact="CrashLoopBackOff", seconds=300),
    )
    instances = tuple(
        crash(each, 300 - 80 * each, 250 - 80 * each, log_end=f"try {each}\nno \x1b[31mroute\n") for each in (0, 1, 2)
    )
    journal.write([TaskRecords(WEB, ago(90), entries=lines, instances=instances, present=json.dumps(PRESENT))])
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
    assert f"At {ago(90).astimezone():%H:%M:%S}: " in out and "; later events are not known" in out
    assert ": exited 3 by itself" in out
    assert "no worker serves this node: nothing of this happens until `syncpod up`" in out
    due = datetime.fromisoformat(str(PRESENT["waits"][0]["until"])).astimezone()
    assert f"{due:%H:%M:%S} (CrashLoopBackOff)" in out, "with the date if that is tomorrow"
    assert "always the same: exited 3" in out
    assert "it runs for 50s each time" in out
    assert "(back-off 5m0s)" in out
    assert "\x1b" not in out
    assert str(Path(environ["SYNCPOD_LOG_DIR"]) / "default_web_uid-1/app/2.log") in out
    assert "Other lives of this name, each by `--uid UID`:" in out
    assert "(uid uid-0)" in out
    assert len(out.splitlines()) < 30


@pytest.mark.parametrize("what", ["web", "node"])
def test_it_is_explained_without_loading_what_others_need(environ: dict[str, str], what: str) -> None:
    start = started("explain", what, **environ)
    assert (start.code, start.heavy) == (0, set()), start.err


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


def test_json_names_no_signal_of_an_end_that_nobody_saw() -> None:
    lost = otherwise(crash(0, 60, 50), exit_code=137, reason="ContainerStatusUnknown")
    killed = otherwise(crash(1, 40, 30), exit_code=137)
    one = explain(LifeRecords(WEB, ago(60), ago(1), present=PRESENT, instances=(lost, killed)), NOW)
    (app,) = document(one, [], has_log=lambda *_: False, unserved="")["containers"]
    assert [(end["exitCode"], end["signal"]) for end in app["ends"]] == [(137, None), (137, 9)]


def test_a_gone_life_and_a_moment_of_the_past_are_explained(environ: dict[str, str]) -> None:
    gone = program("explain", "web", "--at", ago(7000).isoformat(), environ=environ)
    assert "gone since" in gone.out
    assert "the pod was deleted   its deletion" in gone.out
    assert "Why:" not in gone.out, "who deleted it is not known here"
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
    assert "the log file of restart 1 is gone; these are its last lines, from the journal" in kept.err
    assert program("logs", "web", "--restart", "1", "--tail", "1", environ=environ).out == "no \x1b[31mroute\n"
    assert program("logs", "web", "--restart", "1", "--limit-bytes", "5", environ=environ).out == "try 1"
    timed = program("logs", "web", "--restart", "1", "--since", "10s", environ=environ)
    assert (timed.out, "--since, --since-time and --timestamps have no effect" in timed.err) == (kept.out, True)
    log = Path(environ["SYNCPOD_LOG_DIR"]) / "default_web_uid-1/app/2.log"
    log.write_text("2026-11-23T12:00:00.000000001Z stdout F the whole log\n")
    whole = program("logs", "web", "app", "--restart", "2", "--prefix", environ=environ)
    assert (whole.out, whole.err) == ("[pod/web/app] the whole log\n", "")
    other = program("logs", "web", "--restart", "7", environ=environ)
    assert (other.code, 'has no restart 7 of container "app" of pod "web": it has 0 to 2' in other.err) == (1, True)
    for wrong in (["--restart", "-1"], ["--restart", "-2"], ["--restart", "1", "-f"], ["--restart", "1", "--previous"]):
        assert program("logs", "web", *wrong, environ=environ).code == 2
    assert program("logs", "gone", "--restart", "0", environ=environ).code == 1


def test_the_log_of_an_instance_of_several_containers_is_the_defaults(environ: dict[str, str]) -> None:
    life, names = PodLife("default", "two", "uid-2", "inc-2"), ("setup", "web", "aside")
    present = {**PRESENT, "containers": [{"name": each, "init": each == "setup", "state": {}} for each in names]}
    ends = tuple(crash(0, 300, 250, container=each, log_end=f"of {each}\n") for each in names)
    state = Path(environ["SYNCPOD_STATE_DIR"])
    journal = JournalFile(state / FILE_NAME, Limits())
    journal.write([TaskRecords(life, ago(90), instances=ends, present=json.dumps(present))])
    journal.close()
    first = program("logs", "two", "--restart", "0", environ=environ)
    assert (first.code, first.out) == (0, "of web\n")
    assert first.err.splitlines()[0] == 'Defaulted container "web" out of: web, aside, setup (init)'
    named = program("logs", "two", "aside", "--restart", "0", environ=environ)
    assert (named.out, "Defaulted" in named.err) == ("of aside\n", False)
    metadata: dict[str, Any] = {"namespace": "default", "name": "two", "uid": "uid-2"}
    metadata["annotations"] = {"kubectl.kubernetes.io/default-container": "aside"}
    spec = {"containers": [{"name": each, "image": "busybox:1"} for each in ("web", "aside")]}
    (state / "pods" / "uid-2").mkdir(parents=True)
    (state / "pods" / "uid-2" / "pod.json").write_text(json.dumps({"pod": {"metadata": metadata, "spec": spec}}))
    marked = program("logs", "two", "--restart", "0", environ=environ)
    assert (marked.out, "Defaulted" in marked.err) == ("of aside\n", False), "as kubectl: the annotation says so"


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
    assert "1 present, 1 removed since then" in done.out
    restless, node, due = done.out.split("\n\n")[1:]
    head, web, old = restless.splitlines()
    assert head.split("   ")[0] == "POD"
    assert "default/web (uid-1)   3" in web
    assert "app: exited 3" in web
    assert "CrashLoopBackOff" in web
    assert "its deletion" in old
    assert node.splitlines()[0] == "What happened to the node:"
    assert node.endswith("Ready is False now: it hangs (2 times since " + f"{ago(300).astimezone():%Y-%m-%d %H:%M:%S})")
    assert due.startswith("Next: nothing before `syncpod up`, and then:\n")
    assert due.split(":\n")[1].split()[2:] == ["default/web", "app", "starts", "again", "(CrashLoopBackOff)"]
    said = json.loads(program("explain", "node", "--since", until_now(120), "-o", "json", environ=environ).out)
    assert [(each["name"], each["ends"], each["now"]) for each in said["restless"]] == [("web", 1, "CrashLoopBackOff")]
    assert [each["name"] for each in said["next"]] == ["web"]
    assert said["events"] == [], "the last was before"
    assert program("explain", "node", "--at", "12:00", environ=environ).code == 2
    assert "cordoned" not in done.out
    recorded = Path(environ["SYNCPOD_STATE_DIR"]) / "node-workflow.json"
    for by, said in (({}, "cordoned: it takes no"), ({"cordoned_by": "drain, me@n1"}, "cordoned by drain, me@n1: it")):
        recorded.write_text(json.dumps({"next_input": {"snapshot": {"unschedulable": True, **by}}}))
        assert f"it is {said}" in program("explain", "node", environ=environ).out


def test_this_machines_node_may_be_named_and_another_is_not_found(environ: dict[str, str]) -> None:
    for words in (("node", "n1"), ("node/n1",), ("nodes", "n1"), ("no/n1",)):
        done = program("explain", *words, environ=environ)
        assert (done.code, "1 present, 1 removed since then" in done.out) == (0, True), done.err
    for words in (("node", "n2"), ("node/n2",)):
        other = program("explain", *words, environ=environ)
        assert (other.code, other.out, other.err.count("\n")) == (1, "", 1)
        assert (
            'nodes "n2" not found: this machine\'s node is n1; of another, `syncpod fleet explain node n2`' in other.err
        )
    for wrong in (("node", "n1", "n2"), ("node/",), ("node", "n1", "--at", "12:00")):
        assert program("explain", *wrong, environ=environ).code == 2, wrong


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
    life = PodLife("default", "slow", "uid-5", "inc")
    runs = Instance("app", 0, started_at=ago(60))
    said = "Readiness probe failed: not\nyet"
    failed = event(reason="Unhealthy", message=said, container="app", count=9, first=ago(50), last=ago(5))
    present = {"phase": "Running", "containers": [{"name": "app", "ready": False, "state": {"running": {}}}]}
    journal = JournalFile(Path(environ["SYNCPOD_STATE_DIR"]) / FILE_NAME, Limits())
    journal.write([TaskRecords(life, ago(5), events=(failed,), instances=(runs,), present=json.dumps(present))])
    why = " ".join(told_of(environ, "slow").split())
    assert " Why: app is not ready: Readiness probe failed: not yet (9 times since " in why
    waiting = {"name": "app", "ready": False, "state": {"waiting": {"reason": "PodInitializing"}}}
    over = PodLife("default", "over", "uid-6", "inc")
    journal.write([TaskRecords(over, ago(5), present=json.dumps({"phase": "Failed", "containers": [waiting]}))])
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

    def told(instances: tuple[Instance, ...], *under_way: dict[str, str], unserved: str = "") -> list[str]:
        present = {"phase": "Pending", "containers": [*inits, *mains], "underWay": under_way}
        one = explain(LifeRecords(WEB, ago(60), ago(5), present=present, instances=instances), NOW)
        clock = ago(30).astimezone().strftime("%H:%M:%S")
        said = screen(one, unserved=unserved)
        return [line.replace(clock, "T").split(": ", 1)[-1].strip() for line in said if line[:4] in ("Why:", "Next")]

    assert told(runs, begun) == [
        "app, web wait for init container migrate, which has been running since T",
        "under way since T: start migrate",
    ]
    assert told(runs)[1] == "the next containers start when init container migrate has finished or is ready"
    assert told(runs[:1])[0] == "app, web wait for init container migrate, which has not finished"
    assert told(runs, begun, unserved="no worker")[1] == "no worker", "nobody knows what became of the step"


def screen(
    one: Explanation, *, unserved: str = "", now: datetime = NOW, wide: int | None = None, has_log: bool = False
) -> list[str]:
    return lines(one, [], now, log_dir=Path("/"), has_log=lambda *_: has_log, unserved=unserved, wide=wide)


def of(one: Explanation, title: str, **more: Any) -> str:
    """The text after a title in the output, on one line."""
    said = "\n".join(screen(one, **more)).partition("\n\n")[0]
    _, _, rest = said.partition(f"{title}:")
    return " | ".join(line.strip() for line in re.split(r"\n(?=\S)", rest)[0].splitlines())


def running(seconds: float, **more: Any) -> LifeRecords:
    """A pod whose container ended once, and has been running for this long since then."""
    present = {"phase": "Running", "containers": [{"name": "app", "ready": True, "state": {}}], **more}
    instances = (crash(0, seconds + 100, seconds + 50), Instance("app", 1, started_at=ago(seconds)))
    return LifeRecords(WEB, ago(seconds + 100), ago(1), present=present, instances=instances)


def test_why_is_said_of_what_is_wrong_now() -> None:
    assert "exited 3 by itself" in of(explain(running(60), NOW), "Why"), "it may go on crashing"
    assert of(explain(running(601), NOW), "Why") == "", "a kubelet has forgotten its back-off"
    ill = [{"name": "app", "ready": False, "state": {}}]
    assert "exited 3 by itself" in of(explain(running(601, containers=ill), NOW), "Why")
    finished = otherwise(crash(0, 60, 50), exit_code=0, reason="Completed")
    init = {"phase": "Running", "containers": [{"name": "app", "init": True, "state": {}}]}
    assert of(explain(LifeRecords(WEB, ago(60), ago(1), present=init, instances=(finished,)), NOW), "Why") == ""
    both = {
        "phase": "Running",
        "containers": [{"name": "app", "state": {"terminated": {"exitCode": 0}}}, {"name": "b"}],
    }
    runs = Instance("b", 0, started_at=ago(60))
    assert of(explain(LifeRecords(WEB, ago(60), ago(1), present=both, instances=(finished, runs)), NOW), "Why") == ""
    waits = [{"subject": "app", "until": f"{NOW}", "reason": "CrashLoopBackOff", "message": ""}]
    again = LifeRecords(WEB, ago(60), ago(1), present={**both, "waits": waits}, instances=(finished, runs))
    assert "finished (exit 0)" in of(explain(again, NOW), "Why"), "it should go on, and does not"
    asked = HistoryEntry(ago(9), "update", "delete", reason="grace 30 s", fact=Fact.DELETED, seconds=30)
    sender = HistoryEntry(ago(9), "sender", "delete", reason="syncpod delete, root@vm, pid 1")
    sooner = HistoryEntry(
        ago(5), "update", "delete", reason="grace shortened to 3 s", fact=Fact.GRACE_SHORTENED, seconds=3
    )
    gone = replace(running(60), gone=ago(2), entries=(asked, sender, sooner))
    then = f"{ago(9).astimezone():%H:%M:%S}"
    assert of(explain(gone, NOW), "Why") == f"delete: grace 30 s, by syncpod delete, root@vm, at {then}"


def test_the_image_of_what_ended_is_named_if_another_runs_now() -> None:
    records = running(60)
    now = replace(records.instances[1], image="busybox:2")
    changed = screen(explain(replace(records, instances=(records.instances[0], now)), NOW))
    assert "Container app ended once, image busybox:2 now, busybox:1 when it ended last" in changed
    same = screen(explain(replace(records, instances=(records.instances[0], replace(now, image="busybox:1"))), NOW))
    assert "Container app ended once, image busybox:1" in same


def test_a_crash_loop_is_called_so_and_a_container_starts_again_only_if_it_has_run() -> None:
    def said(reason: str, *instances: Instance, status: str, **more: Any) -> tuple[str, str]:
        wait = {"subject": "app", "until": f"{NOW + timedelta(seconds=20)}", "reason": reason, "message": ""}
        present = {"phase": "Running", "status": status, "containers": [{"name": "app", **more}], "waits": [wait]}
        one = explain(LifeRecords(WEB, ago(60), ago(1), present=present, instances=instances), NOW)
        return of(one, "Now"), of(one, "Next").partition(" in ")[0]

    crashed, clock = crash(0, 60, 50), f"{ago(50).astimezone():%H:%M:%S}"
    again = "app starts again"
    assert said("CrashLoopBackOff", crashed, status="CrashLoopBackOff") == (
        f"CrashLoopBackOff: app waits since {clock}",
        again,
    )
    assert said("CrashLoopBackOff", status="CrashLoopBackOff", restarts=3)[1] == again, "the journal has lost its ends"
    missing = "CreateContainerConfigError"
    assert said(missing, status=missing) == (f"{missing}: app has not started", "the start of app is tried again")
    assert said(missing, crashed, status=missing)[1] == again
    never = Instance("app", 0, exit=Exit(exit_code=128, reason="StartError", finished_at=ago(50)))
    assert said("RunContainerError", never, status="x")[1] == "the start of app is tried again"


def test_an_init_container_that_has_finished_is_no_part_of_what_the_pod_is_now() -> None:
    names = ({"name": "migrate", "init": True}, {"name": "app", "ready": True, "state": {"running": {}}})
    migrated = crash(0, 90, 80, container="migrate", exit_code=0, reason="Completed")
    present = {"phase": "Running", "containers": names}
    instances = (migrated, Instance("app", 0, started_at=ago(60)))
    records = LifeRecords(WEB, ago(100), ago(1), present=present, instances=instances)
    for one in (explain(records, NOW), explain(records, ago(10), past=True)):
        assert "migrate" not in of(one, "Now" if one.at == NOW else f"At {Clock(NOW)(one.at)}")
        assert of(one, "Next") == "nothing is due: it runs until something happens"
    failed = replace(records, instances=(otherwise(migrated, exit_code=1),))
    assert "migrate ended at" in of(explain(failed, NOW), "Now")


def test_a_wait_for_an_object_ends_when_that_appears() -> None:
    def due(message: str) -> str:
        wait = {"subject": "app", "until": f"{NOW + timedelta(seconds=20)}", "reason": "CreateContainerConfigError"}
        present = {"containers": [{"name": "app"}], "waits": [{**wait, "message": message}]}
        return of(explain(LifeRecords(WEB, ago(60), ago(1), present=present), NOW), "Next")

    assert ", or as soon as it exists (CreateContainerConfigError)" in due('configmap "settings" not found')
    assert "as soon as" not in due("couldn't find key x in ConfigMap default/settings")


def test_a_pull_that_is_tried_again_says_what_failed_and_that_it_may_wait() -> None:
    error = 'rpc error: code = NotFound desc = failed to pull and unpack image "r/no:1": r/no:1: not found'
    waiting = {"reason": "ErrImagePull", "message": error}
    begun = {"step": "pull_image", "container": "app", "what": "pull r/no:1; last try: …tFound desc", "since": f"{NOW}"}
    present = {"containers": [{"name": "app", "state": {"waiting": waiting}}], "underWay": [begun]}
    one = explain(LifeRecords(WEB, ago(60), ago(1), present=present), NOW)
    assert of(one, "Why") == "app does not start: ErrImagePull: r/no:1: not found"
    then = f"{NOW.astimezone():%H:%M:%S}"
    may_wait = "it may still wait for other pulls (`syncpod describe pod`)"
    assert of(one, "Next") == f"under way since {then}: pull r/no:1; {may_wait}"
    doing = {("pull_image", "app"): "waits for other pulls to pull r/no:1"}
    told = explain(one.records, NOW, doing=doing)
    assert of(told, "Next") == f"under way since {then}: pull r/no:1; waits for other pulls to pull r/no:1"
    assert (
        document(told, [], has_log=lambda *_: False, unserved="")["underWay"][0]["doing"] == doing["pull_image", "app"]
    )


def test_when_the_grace_of_a_deletion_ends_is_said_of_the_pod_and_of_its_node(environ: dict[str, str]) -> None:
    asked = HistoryEntry(ago(9), "update", "delete", reason="grace 3609 s", fact=Fact.DELETED, seconds=3609)
    follows = HistoryEntry(ago(5), "update", "apply", reason="this one follows", fact=Fact.SUCCESSOR_APPLIED)
    ends, present = NOW + timedelta(hours=1), {**PRESENT, "deletion": {"at": f"{ago(9)}", "graceSeconds": 3609}}
    one = explain(replace(running(60), present=present, entries=(asked, follows)), NOW)
    said = f"its containers are killed at {Clock(NOW)(ends)}, when its grace period ends, and then it is removed"
    assert of(one, "Next") == f"{said}; the pod of this name that was applied meanwhile follows"
    over = explain(replace(running(60), present=present, entries=(replace(asked, seconds=3),)), NOW)
    assert of(over, "Next").startswith(f"its grace period ended at {Clock(NOW)(ago(6))}: ")
    journal = JournalFile(Path(environ["SYNCPOD_STATE_DIR"]) / FILE_NAME, Limits())
    journal.write([TaskRecords(WEB, ago(1), entries=(asked,), present=json.dumps(present))])
    journal.close()
    node = json.loads(told_of(environ, "node", "-o", "json"))
    assert node["restless"][0]["now"] == "being deleted"
    (due,) = node["next"]
    assert (datetime.fromisoformat(due["at"]), due["name"]) == (ends, "web")
    assert due["what"].startswith("its running containers are killed")


def test_nothing_is_due_now_while_no_worker_serves_the_node() -> None:
    late = {"subject": "app", "until": ago(7).isoformat(), "reason": "CrashLoopBackOff", "message": ""}
    soon = {"subject": "create_sandbox", "until": (NOW + timedelta(hours=1)).isoformat(), "reason": "X", "message": ""}
    one = explain(running(60, waits=[late, soon]), NOW)
    due, after = (f"{each.astimezone():%H:%M:%S}" for each in (ago(7), NOW + timedelta(hours=1)))
    served = of(one, "Next").split(" | ")
    assert served[0] == f"app starts again now, due since {due} (CrashLoopBackOff)"
    away, first, second = of(one, "Next", unserved="no worker").split(" | ")
    assert (away, first) == ("no worker", f"app starts again then, due since {due} (CrashLoopBackOff)")
    assert second.startswith("create_sandbox is tried again then, not before ") and f"{after} (X)" in second


def test_a_rejected_pod_says_when_its_node_is_asked_again() -> None:
    rejected = {"phase": "Failed", "reason": "NodePorts", "message": "Pod was rejected: no free ports"}
    wait = {"subject": "create_sandbox", "until": (NOW + timedelta(seconds=7)).isoformat(), "reason": "NodePorts"}
    waits = explain(replace(running(60), present=rejected | {"waits": [wait]}), NOW)
    assert of(waits, "Next").startswith("the node is asked again whether it admits the pod in 7.0s, at ")
    assert of(waits, "Next").endswith(", or as soon as it has room for it or its worker starts anew (NodePorts)")
    for_good = explain(replace(running(60), present=rejected), NOW)
    assert of(for_good, "Next").startswith("nothing: its node has rejected it, and is not asked again")


def test_what_was_running_when_the_worker_ended_is_not_said_to_run_now() -> None:
    present = {"phase": "Running", "containers": [{"name": "app", "ready": True, "state": {}}]}
    records = LifeRecords(WEB, ago(60), ago(50), present=present, instances=(Instance("app", 0, started_at=ago(60)),))
    then = ago(20).astimezone()
    state = f"At {then:%H:%M:%S}: Running: app had been running for 40s; later events are not known"
    away = explain(records, NOW, last_sign=then)
    assert " ".join(screen(away)[1].split()) == state
    assert f"Container app had never ended by {then:%H:%M:%S}" in screen(away)
    past = screen(explain(records, ago(10), past=True, absences=[Absence(then, NOW, "died")]))
    assert " ".join(past[1].split()) == state.replace("Running: ", "")
    served = screen(explain(records, NOW))
    assert served[1] == "Now:   Running: app has been running for 60s"
    assert "Container app has never ended" in served
    assert document(away, [], has_log=lambda *_: False, unserved="")["knownUntil"].endswith(f":{then:%S}.000Z")


def test_a_moment_of_another_day_is_named_with_its_date() -> None:
    then = ago(86_400)
    said = screen(explain(running(90_000), then, past=True))[1]
    assert said.startswith(f"At {then.astimezone():%Y-%m-%d %H:%M:%S}: ")


def test_a_screen_fits_a_terminal_and_is_whole_where_there_is_none() -> None:
    words = "exec: " + "a long word " * 20 + "the end"
    failed = {"exit_code": 128, "reason": "StartError", "message": words}
    instances = tuple(replace(crash(each, 300, 250 - 80 * each, **failed), started_at=None) for each in (0, 1, 2))
    present = {**PRESENT, "waits": []}
    changes = (HistoryEntry(ago(400), "update", "apply", reason=words),)
    one = explain(LifeRecords(WEB, ago(400), ago(1), present=present, instances=instances, entries=changes), NOW)
    for wide in (80, 120):
        narrow = screen(one, wide=wide)
        assert max(map(len, narrow)) <= wide
        assert sum("the end" in line for line in narrow) == 2, "why, and the pattern"
        assert [line.split()[1] for line in narrow if line.startswith(("  0 ", "  1 "))] == ["never", "never"]
    whole = screen(one)
    assert sum("the end" in line for line in whole) == 6, "and each end, and the change"


def test_the_ends_of_a_narrow_terminal_are_whole_below_their_rows() -> None:
    """With dates the table has no room, however much is cut."""
    holds = tuple(
        HistoryEntry(ago(259_900 - 80 * each), "hold", "app", fact="CrashLoopBackOff", seconds=160) for each in range(3)
    )
    instances = tuple(crash(each, 260_000 - 80 * each, 259_950 - 80 * each) for each in range(3))
    one = explain(LifeRecords(WEB, ago(300_000), ago(1), present=PRESENT, instances=instances, entries=holds), NOW)
    narrow = screen(one, wide=80)
    assert max(map(len, narrow)) <= 80
    place = next(number for number, line in enumerate(narrow) if line.startswith("  RESTART"))
    assert narrow[place].split() == ["RESTART", "STARTED", "RAN", "ENDED", "WAITED", "LOG"]
    assert narrow[place + 2] == "      why: exited 3; decided by: itself"
    (wide,) = [line for line in screen(one, wide=200) if line.startswith("  RESTART")]
    assert "DECIDED BY" in wide


def test_the_back_off_of_an_end_is_whole_on_a_narrow_terminal() -> None:
    """The most usual case: a crash loop of today."""
    holds = tuple(
        HistoryEntry(ago(300 - 20 * each), "hold", "app", fact="CrashLoopBackOff", seconds=10) for each in range(3)
    )
    instances = tuple(crash(each, 310 - 20 * each, 300 - 20 * each, log_end="end") for each in range(4))
    one = explain(LifeRecords(WEB, ago(400), ago(1), present=PRESENT, instances=instances, entries=holds), NOW)
    narrow = screen(one, wide=80)
    assert max(map(len, narrow)) <= 80
    assert sum("10s (back-off 10s)" in line for line in narrow) == 3
    assert "      why: exited 3; decided by: itself" in narrow


def test_an_end_by_itself_with_more_words_is_said_so_that_it_is_read_in_one_way() -> None:
    instances = (crash(0, 20, 10, message="no license"),)
    one = explain(LifeRecords(WEB, ago(30), ago(1), instances=instances), NOW)
    assert "exited 3: no license (by itself)" in of(one, "Why")


def test_a_container_that_could_not_be_started_has_no_log_though_its_runtime_made_a_file() -> None:
    failed = crash(0, 20, 10, exit_code=128, reason="StartError", message="no such file")
    one = explain(LifeRecords(WEB, ago(30), ago(1), instances=(replace(failed, started_at=None),)), NOW)
    (row,) = [line for line in screen(one, has_log=True) if line.startswith("  0 ")]
    assert row.split()[-1] == "-"


def test_why_a_pod_failed_as_a_whole_is_said_once() -> None:
    present = {"phase": "Failed", "reason": "OutOfmemory", "message": "not enough", "containers": []}
    one = explain(LifeRecords(WEB, ago(30), ago(1), present=present), NOW)
    assert of(one, "Now") == "Failed (OutOfmemory): no container has been started"
    assert of(one, "Why") == "the pod failed: OutOfmemory: not enough"


def test_a_deadline_that_has_passed_is_not_said_to_come() -> None:
    for seconds, due in ((60, True), (5, False)):
        present = {**PRESENT, "activeDeadlineSeconds": seconds, "startTime": ago(20).isoformat()}
        assert (
            "active deadline" in of(explain(LifeRecords(WEB, ago(30), ago(1), present=present), NOW), "Next")
        ) is due


def test_the_back_off_of_a_restart_of_all_is_told_in_words_and_of_each_of_its_containers() -> None:
    assert backoff.RESTART_ALL == RESTART_OF_ALL
    wait = {**PRESENT["waits"][0], "subject": RESTART_OF_ALL}
    hold = HistoryEntry(ago(19), "hold", RESTART_OF_ALL, fact="CrashLoopBackOff", seconds=10)
    instances = (crash(0, 30, 20), crash(0, 30, 20, container="side"), Instance("app", 1, started_at=ago(8)))
    present = {**PRESENT, "waits": [wait]}
    one = explain(LifeRecords(WEB, ago(40), ago(1), present=present, instances=instances, entries=(hold,)), NOW)
    assert of(one, "Next").startswith("all containers start again in")
    assert [end.back_off for each in one.containers for end in each.ends] == ["10s", "10s"]


def test_an_init_container_that_had_finished_did_not_wait_for_another_sandbox() -> None:
    done: dict[str, Any] = {"container": "setup", "exit_code": 0, "reason": "Completed"}
    instances = (crash(0, 900, 890, **done), crash(1, 20, 10, **done))
    present = {"phase": "Running", "containers": [{"name": "setup", "init": True, "state": {}}]}
    one = explain(LifeRecords(WEB, ago(999), ago(1), present=present, instances=instances), NOW)
    rows = [line for line in screen(one) if line.startswith(("  0 ", "  1 "))]
    assert [row.split("itself")[1].split()[0] for row in rows] == ["-", "-"]


def test_the_name_of_a_pod_is_whole_on_a_narrow_terminal() -> None:
    life = WEB._replace(name="a-name-as-long-as-deployments-give-7c9d8f5b6d-x2x9k")
    instances = tuple(crash(each, 300, 250 - 80 * each) for each in (0, 1, 2))
    records = LifeRecords(life, ago(400), ago(1), present=PRESENT, instances=instances)
    of_node = JournalSummary(1, 0, 3, ((records, 3),), (records,))
    shown = node_lines(of_node, [], [], NOW, ago(500), node="n", served=["worker 1 serves it"], wide=80)
    restless = shown[shown.index("") + 1 :]
    assert [line.split()[0] for line in restless[:2]] == ["POD", f"default/{life.name}"]
    assert restless[2] == "    why: app: exited 3; decided by: itself; now: CrashLoopBackOff"
    assert max(map(len, shown[: shown.index("Next:")])) <= 80
    assert f"default/{life.name}" in shown[-1]


def test_what_happened_to_the_node_is_whole_on_a_narrow_terminal() -> None:
    event = NodeEvent("There is no cluster DNS here: " + "a long word " * 9 + "the end", ago(9), ago(9), 3)
    node = JournalSummary(0, 0, 0, (), ())
    shown = node_lines(node, [event], [], NOW, ago(500), node="n", served=["worker 1 serves it"], wide=80)
    assert max(map(len, shown)) <= 80
    assert "the end (3 times since" in " ".join(" ".join(shown).split())


def test_the_log_of_an_older_life_is_said_to_be_of_it_and_each_life_can_be_named(environ: dict[str, str]) -> None:
    journal = JournalFile(Path(environ["SYNCPOD_STATE_DIR"]) / FILE_NAME, Limits())
    journal.write(
        [
            TaskRecords(
                OLD, ago(8000), instances=tuple(crash(each, 9400, 8100, log_end=f"old {each}\n") for each in (1, 7))
            )
        ]
    )
    journal.close()
    first, last = (f"{each.astimezone():%Y-%m-%d %H:%M:%S}"[-8:] for each in (ago(9500), ago(8000)))
    older = program("logs", "web", "--restart", "7", environ=environ)
    assert (older.code, older.out) == (0, "old 7\n")
    note = older.err.splitlines()[0]
    assert note.startswith('Note: this is of an earlier pod "web", ') and note.endswith("(uid uid-0)")
    assert first in note and last in note
    named = program("logs", "web", "--restart", "1", "--uid", "uid-0", environ=environ)
    assert (named.out, "an earlier pod" in named.err) == ("old 1\n", True)
    assert "uid" not in program("logs", "web", "--restart", "1", environ=environ).err, "of the pod that there is"
    unknown = program("logs", "web", "--restart", "1", "--uid", "x", environ=environ)
    assert (unknown.code, 'no life of pod "web" with the uid x: it has uid-0, uid-1' in unknown.err) == (1, True)
    assert program("logs", "web", "--uid", "uid-0", environ=environ).code == 2
    told = json.loads(program("explain", "web", "--uid", "uid-0", "-o", "json", environ=environ).out)
    assert (told["uid"], told["otherLives"][0]["uid"]) == ("uid-0", "uid-1")
    assert program("explain", "web", "--uid", "x", environ=environ).code == 1
    assert program("explain", "node", "--uid", "uid-0", environ=environ).code == 2
    gone = JournalFile(Path(environ["SYNCPOD_STATE_DIR"]) / FILE_NAME, Limits())
    gone.write([TaskRecords(WEB, ago(1), is_gone=True)])
    gone.close()
    assert (
        'pod "web" is gone; this is of its last life, ' in program("logs", "web", "--restart", "1", environ=environ).err
    )


def test_the_log_of_an_instance_that_could_not_be_started_is_said_to_be_none(environ: dict[str, str]) -> None:
    failed = replace(crash(3, 9, 8, exit_code=128, reason="StartError", message="no sh"), started_at=None)
    journal = JournalFile(Path(environ["SYNCPOD_STATE_DIR"]) / FILE_NAME, Limits())
    journal.write([TaskRecords(WEB, ago(8), instances=(failed,), present=json.dumps(PRESENT))])
    journal.close()
    none = program("logs", "web", "--restart", "3", environ=environ)
    said = 'restart 3 of container "app" in pod "web" could not be started: no sh\n'
    assert (none.code, none.out, none.err) == (1, "", f"syncpod: {said}")
    assert "Instance 3 could not be started, so it has no log" in told_of(environ, "web")


def test_an_empty_time_is_refused_and_todays_that_is_still_to_come_is_named(environ: dict[str, str]) -> None:
    for wrong in (["web", "--at", ""], ["web", "--since", ""], ["node", "--since", ""]):
        refused = program("explain", *wrong, environ=environ)
        assert (refused.code, refused.out, refused.err.count("\n")) == (2, "", 1), wrong
    assert program("explain", "web", "--since", "1d2h", environ=environ).code == 0
    late = datetime.now().astimezone().replace(hour=23, minute=59, second=59, microsecond=0)
    taken = program("explain", "web", "--at", "23:59:59", environ=environ)
    yesterday = f"{late - timedelta(days=1):%Y-%m-%d} 23:59:59"
    assert f"Note: 23:59:59 is taken as {yesterday}: today's is still to come\n" in taken.err


def test_a_time_alone_is_the_last_such_time() -> None:
    now = datetime(2026, 11, 23, 14, 30, tzinfo=UTC).astimezone()
    assert read_moment(f"{now - timedelta(hours=1):%H:%M}", now) == now - timedelta(hours=1)
    assert read_moment(f"{now + timedelta(hours=1):%H:%M:%S}", now) == now - timedelta(hours=23)
    assert read_moment("2026-11-23T12:00:00Z", now) == datetime(2026, 11, 23, 12, tzinfo=UTC)
    for text in ("soon", "25:00", "2099-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"):
        with pytest.raises(BadInput, match="--at: "):
            read_moment(text, now)


def test_a_time_alone_may_have_a_zone_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC-3")  # three hours ahead of UTC
    time.tzset()
    try:
        now = datetime(2026, 11, 23, 14, 30, tzinfo=UTC)
        assert read_moment("14:02Z", now) == datetime(2026, 11, 23, 14, 2, tzinfo=UTC)
        assert read_moment("14:02", now) == datetime(2026, 11, 23, 11, 2, tzinfo=UTC)
        assert read_moment("14:40Z", now) == datetime(2026, 11, 22, 14, 40, tzinfo=UTC)
        assert read_moment("01:00+10:00", now) == datetime(2026, 11, 22, 15, tzinfo=UTC), (
            "there, it is half an hour past midnight"
        )
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_time_before_the_clocks_were_changed_is_of_those_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    try:
        now = datetime(2026, 10, 25, 10, tzinfo=UTC)  # summer time ended at 1:00 UTC
        assert read_moment("01:30", now) == datetime(2026, 10, 24, 23, 30, tzinfo=UTC)
        assert read_moment("12:00", now) == datetime(2026, 10, 24, 10, tzinfo=UTC), "yesterday's, in summer time"
        assert read_moment("10:30", now) == datetime(2026, 10, 25, 9, 30, tzinfo=UTC)
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_time_in_which_the_server_did_not_answer_is_told_like_one_without_a_worker() -> None:
    away, died = Absence(ago(200), ago(20), SERVER_AWAY), Absence(ago(18), ago(15), "died")
    records = replace(running(60), instances=(crash(0, 300, 190), Instance("app", 1, started_at=ago(10))))
    one = explain(replace(records, begun=ago(400)), NOW, absences=[away, died])
    said = "\n".join(screen(one))
    clock = f"{ago(20).astimezone():%H:%M:%S}"
    assert f"no Temporal server for 3m, until {clock}\n" in said
    assert "3m (no Temporal server for 2m50s, no worker for 3.0s)" in said
    then = explain(replace(records, begun=ago(400)), ago(100), past=True, absences=[away])
    assert f"no Temporal server served this node: nothing of this happened until {clock}" in "\n".join(screen(then))


def test_what_is_known_ends_with_the_last_answer_of_the_server(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    here = cast(NodeSettings, SimpleNamespace(state_dir=Path("/")))
    monkeypatch.setattr(explain_command, "serving", lambda _: object())
    records = replace(running(60), seen=ago(50))
    assert explain_command._unserved(here, records, None, "") == ("", None)
    unserved, known = explain_command._unserved(here, records, ago(40), "")
    clock = f"{ago(40).astimezone():%H:%M:%S}"
    assert known == ago(40)
    assert unserved == f"the Temporal server has not answered since {clock}: nothing of this happens until it does"
    assert clock in capsys.readouterr().err
    why, known = explain_command._unserved(here, records, None, "the disk is full")
    assert (why, known) == ("the disk is full: nothing that happens is recorded until that is mended", records.seen)
    assert "the disk is full; this is the last state that could be recorded" in capsys.readouterr().err
    assert explain_command._unserved(here, replace(records, gone=ago(1)), ago(40), "full") == ("", None)


def test_a_sidecar_that_waits_after_a_success_is_named_with_what_runs() -> None:
    names = [{"name": "proxy", "init": True, "state": {}}, {"name": "setup", "init": True}, {"name": "app"}]
    wait = {**PRESENT["waits"][0], "subject": "proxy"}
    present = {**PRESENT, "containers": names, "waits": [wait]}
    over = {"exit_code": 0, "reason": "Completed"}
    done = [replace(crash(0, 90, 40, **over), container=each) for each in ("proxy", "setup")]
    runs = Instance("app", 0, started_at=ago(60))
    one = explain(LifeRecords(WEB, ago(100), ago(1), present=present, instances=(*done, runs)), NOW)
    now, why = of(one, "Now"), of(one, "Why")
    assert "proxy waits since" in now and "CrashLoopBackOff" in now and "setup" not in now
    assert "proxy ended at" in why and "setup" not in why
