"""`history`, `events` and `get` with a worker of another version; events of deleted pods from the journal."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from syncpod.cli.failure import Failure
from syncpod.cli.temporal.pod_queries import read_records
from syncpod.journal.file import FILE_NAME, JournalFile, Limits
from syncpod.journal.records import EventRecord, PodLife, TaskRecords
from syncpod.messages.queries import read_history
from syncpod.settings.worker_record import WorkerRecord, write_worker_record
from tests.cli.starts import Start, started

SERVER = "127.0.0.1:1"
"""An address where nothing answers."""
NOW = datetime.now(UTC)
LINE = {
    **{"at": NOW.isoformat(), "kind": "step", "subject": "start_container", "container": "app", "restart": 0},
    **{"reason": "first start", "outcome": "done", "attempt": 1, "tookMs": 12},
}
EVENT = {
    **{"type": "Normal", "reason": "Started", "message": "Container started", "container": "app", "count": 1},
    **{"first": NOW.isoformat(), "last": NOW.isoformat()},
}
POD = {"metadata": {"namespace": "default", "name": "web", "uid": "uid-2"}, "spec": {"nodeName": "n"}}
STUB = """
import http.server, json, socketserver, sys, urllib.parse
answers = json.loads(sys.argv[1])

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        target = urllib.parse.urlsplit(self.path)
        parts = urllib.parse.parse_qs(target.query).get("include", [""])[0].split(",")
        report = {"metadata": {"namespace": "default", "name": "web"}, "run": "r"}
        report.update((part, answers.get(part)) for part in parts)
        said = {"rows": answers["rows"], "kind": "Table"} if target.path.endswith("/pods") else {"items": [report]}
        self.send_response(503 if "includeObject" in target.query else 200)
        if "warning" in answers:
            self.send_header("Warning", '299 - "' + answers["warning"] + '"')
        body = json.dumps(said).encode()
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

    def log_message(self, *_): ...
    def address_string(self): return ""

with socketserver.UnixStreamServer(sys.argv[2], Handler) as server:
    print(flush=True)
    server.serve_forever()
"""

Answering = Callable[..., Callable[..., Start]]


@pytest.fixture
def answering(tmp_path: Path) -> Iterator[Answering]:
    """Start a worker with these answers; return a function that runs a command next to it."""
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    program = tmp_path / "worker.py"  # as the process of a worker is named
    program.write_text(STUB)

    with ExitStack() as stack:

        def answer(**answers: Any) -> Callable[..., Start]:
            command = [sys.executable, str(program), json.dumps(answers), str(state / "api.sock")]
            worker = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE))
            stack.callback(worker.kill)
            assert worker.stdout is not None and worker.stdout.readline() == b"\n"
            write_worker_record(state, WorkerRecord(worker.pid, "n/m/b", "n", "", "", SERVER, "default", "q", 1))
            environ = {"SYNCPOD_STATE_DIR": str(state), "TEMPORAL_ADDRESS": SERVER, "XDG_CONFIG_HOME": str(tmp_path)}
            return lambda *words: started(*words, **environ)

        yield answer


def without(record: dict[str, Any], field: str) -> dict[str, Any]:
    return {name: value for name, value in record.items() if name != field}


def test_the_records_of_a_worker_of_this_version_are_read_without_the_server(answering: Answering) -> None:
    syncpod = answering(pod=POD, history=[LINE], events=[EVENT])
    history, events = syncpod("history", "web"), syncpod("events", "web")
    assert (history.code, "first start" in history.out) == (0, True), history.err
    assert (events.code, "Container started" in events.out) == (0, True), events.err


@pytest.mark.parametrize(
    ("query", "wrong"),
    [
        ("history", [without(LINE, "attempt")]),
        ("history", [LINE | {"at": None}]),
        ("history", {"records": []}),
        ("events", [without(EVENT, "count")]),
        ("events", [EVENT | {"last": "yesterday"}]),
        ("events", 7),
    ],
    ids=["no attempt", "no time", "no list", "no count", "no date", "a number"],
)
def test_an_answer_that_lacks_something_is_asked_for_otherwise(answering: Answering, query: str, wrong: Any) -> None:
    done = answering(**{"pod": POD, "history": [LINE], "events": [EVENT], query: wrong})(query, "web")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("syncpod: ") and done.err.count("\n") == 1, done.err


def test_records_that_even_the_models_cannot_read_are_named_in_a_sentence() -> None:
    assert read_records(read_history, [without(LINE, "attempt") | {"new": 1}], "history")[0].attempt == 0
    with pytest.raises(Failure) as refused:
        read_records(read_history, [LINE | {"kind": "dream"}], "history")
    assert str(refused.value).startswith("the pod's history cannot be read: kind: must be decision, ")
    assert str(refused.value).endswith("; perhaps its worker is of another version than this command")


def test_events_of_the_last_hour_of_an_earlier_life_are_shown_and_marked(answering: Answering, tmp_path: Path) -> None:
    now = datetime.now(UTC)  # a run may have imported this file half an hour ago

    def event(minutes: int, message: str) -> EventRecord:
        at = now - timedelta(minutes=minutes)
        return EventRecord(type="Warning", reason="BackOff", message=message, first=at, last=at, container="app")

    def ended(minutes: int, name: str, *events: EventRecord, namespace: str = "default") -> TaskRecords:
        life = PodLife(namespace, name, "uid-1", "i")
        return TaskRecords(life, now - timedelta(minutes=minutes), events=events, is_gone=True)

    shown = EVENT | {"first": now.isoformat(), "last": now.isoformat()}
    syncpod = answering(pod=POD, events=[shown])
    journal = JournalFile(tmp_path / "state" / FILE_NAME, Limits())
    journal.write(
        [
            ended(30, "web", event(90, "too old"), event(31, "of its earlier life")),
            ended(20, "db", event(21, "of another pod")),
            ended(20, "db", event(21, "of another namespace"), namespace="other"),
            ended(100, "old", event(101, "of long ago")),
        ]
    )
    journal.write(
        [TaskRecords(PodLife("default", "here", "uid-3", "i"), now, events=(event(1, "of one that is there"),))]
    )
    journal.close()
    named = syncpod("events", "web")
    assert named.code == 0 and named.heavy == set(), named.err
    first, second = named.out.splitlines()[1:]
    assert "Pod/web (app, gone)" in first and first.endswith("of its earlier life")
    assert "gone" not in second and second.endswith("Container started")
    every = syncpod("events", "--types", "Warning").out.splitlines()[1:]
    assert [line.rpartition("   ")[2] for line in every] == ["of its earlier life", "of another pod"]


def test_a_worker_that_has_just_begun_lists_what_was_recorded_of_pods_to_which_it_has_not_come(
    answering: Answering,
) -> None:
    def row(name: str, *cells: str) -> dict[str, Any]:
        metadata = {"namespace": "default", "name": name, "uid": "uid-2"}
        return {"cells": [name, *cells, "1m", "", "n", "", ""], "object": {"metadata": metadata}}

    warning = "the worker of this node has just begun"
    syncpod = answering(
        warning=warning, rows=[row("late", "?", "CrashLoopBackOff?", "12?"), row("web", "1/1", "Running", "0")]
    )
    done = syncpod("get", "pods")
    assert done.code == 0 and done.heavy == set(), done.err
    assert not {"sqlite3", "syncpod.journal.records"} & done.modules, "the journal is not read"
    assert [line.split()[:4] for line in done.out.splitlines()[1:2]] == [["late", "?", "CrashLoopBackOff?", "12?"]]
    assert "what is marked with ? is what was last recorded of pod late" in done.err and done.err.count("\n") == 1
    assert "late" not in syncpod("get", "pods", "-o", "name").out, "who wants names alone would not see the mark"
