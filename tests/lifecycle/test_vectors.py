"""All recorded decisions of the kubelet, compared with ours in this process and through the command line.

Holds: Decisions are the kubelet's.
"""

import functools
import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from syncpod.lifecycle.cases import backoff, decide, phase

VECTORS = Path(__file__).parent / "vectors"
Vector = dict[str, Any]

KINDS: dict[str, tuple[str, str, Callable[[Mapping[str, Any]], Any]]] = {
    "decide": ("actions", "actions", decide),
    "phase": ("phase", "result", phase),
    "backoff": ("backoff", "results", backoff),
}
COUNTS = {
    "1.36.2": {"actions": 2000, "phase": 800, "backoff": 800},
    "1.37.2": {"actions": 4000, "phase": 1500, "backoff": 1500},
}


def vectors(file: str, version: str = "1.36.2") -> list[Vector]:
    with gzip.open(VECTORS / version / f"{file}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


@pytest.mark.parametrize("version", COUNTS)
@pytest.mark.parametrize(("file", "answer", "reader"), KINDS.values(), ids=KINDS)
def test_every_recorded_decision_is_reproduced(
    file: str, answer: str, reader: Callable[[Mapping[str, Any]], Any], version: str
) -> None:
    recorded = vectors(file, version)
    assert len(recorded) == COUNTS[version][file]
    wrong = {vector["case"]["name"]: reader(vector["case"]) for vector in recorded}
    wrong = {
        vector["case"]["name"]: vector[answer] for vector in recorded if wrong[vector["case"]["name"]] != vector[answer]
    }
    assert wrong == {}


def run(kind: str, text: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "syncpod.lifecycle", kind],
        input=text,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
        cwd=Path(__file__).parents[2],
    )


@pytest.mark.parametrize(("kind", "file", "answer"), [(kind, *names[:2]) for kind, names in KINDS.items()])
def test_the_command_answers_each_line_in_order(kind: str, file: str, answer: str) -> None:
    recorded = vectors(file)[::40]
    done = run(kind, "".join(json.dumps(vector["case"]) + "\n" for vector in recorded))
    assert (done.returncode, done.stderr) == (0, "")
    assert [json.loads(line) for line in done.stdout.splitlines()] == [vector[answer] for vector in recorded]


def test_the_answer_depends_neither_on_hash_seeds_nor_on_the_order_of_keys() -> None:
    recorded = vectors("actions")[::25]
    straight = "".join(json.dumps(vector["case"]) + "\n" for vector in recorded)
    backwards = "".join(json.dumps(reversed_keys(vector["case"])) + "\n" for vector in recorded)
    first, second = run("decide", straight, PYTHONHASHSEED="1"), run("decide", backwards, PYTHONHASHSEED="2")
    assert first.returncode == 0
    assert first.stdout == second.stdout


def reversed_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: reversed_keys(value[key]) for key in reversed(value)}
    if isinstance(value, list):
        return [reversed_keys(item) for item in value]
    return value


CASE = {"pod": {"spec": {"containers": [{"name": "web", "image": "web"}]}}, "status": {}}


def sandbox(attempt: int) -> dict[str, Any]:
    return {"id": "s", "attempt": attempt, "state": "SANDBOX_NOTREADY", "network_mode": "POD", "ip": ""}


def exited(code: int) -> dict[str, Any]:
    return {"id": "a", "name": "web", "state": "exited", "exit_code": code}


@pytest.mark.parametrize(("attempt", "following"), [(2**31 - 1, 2**31), (2**32 - 2, 2**32 - 1), (2**32 - 1, 0)])
def test_a_sandbox_attempt_may_have_any_value_of_cri(attempt: int, following: int) -> None:
    actions = decide({**CASE, "status": {"sandboxes": [sandbox(attempt)]}})
    assert (actions["create_sandbox"], actions["attempt"]) == (True, following)


def test_a_json_null_means_the_empty_value() -> None:
    empty = decide({**CASE, "status": {"sandboxes": [], "containers": []}})
    assert decide({**CASE, "status": None, "liveness": None, "startup": None, "actuated": None}) == empty
    assert decide({**CASE, "status": {"sandboxes": None, "containers": None}}) == empty
    running = {"id": "a", "name": "web", "state": "running", "exit_code": None, "reason": None}
    situation: Vector = {**CASE, "status": {"sandboxes": [sandbox(0)], "containers": [running]}}
    written: Vector = {"containers": {"web": {"limits": {}, "requests": {}}}, "pod": None}
    nulls = {"containers": {"web": {"limits": None, "requests": {"cpu": None}}}, "pod": {"limits": None}}
    assert decide({**situation, "actuated": nulls}) == decide({**situation, "actuated": written})
    statuses = [{"name": "web", "ready": True, "state": {"running": {}}, "lastState": {}}]
    nulled = [{"name": "web", "ready": True, "state": {"running": {}, "waiting": None}, "lastState": None}]
    known: Vector = {"pod": CASE["pod"], "init_container_statuses": None, "conditions": [], "old_conditions": []}
    forgotten = {**known, "conditions": None, "old_conditions": None, "pod_is_terminal": None}
    assert phase({**forgotten, "container_statuses": nulled}) == phase({**known, "container_statuses": statuses})
    assert phase({**known, "container_statuses": [{"name": "web", "state": None}]})["phase"] == "Pending"
    start = {"op": "start", "at_ms": 1, "container": "web", "image": "web", "instances": []}
    assert backoff({"pod": {}, "events": [{**start, "instances": None, "resources": None}]}) == backoff(
        {"pod": None, "events": [start]}
    )
    assert backoff({"pod": {}, "events": None}) == []


def test_whitespace_around_a_quantity_is_ignored() -> None:
    def asking(cpu: str) -> Vector:
        limits = {"limits": {"cpu": cpu}}
        running = {"id": "a", "name": "web", "state": "running"}
        return {
            "pod": {"spec": {"containers": [{"name": "web", "image": "web", "resources": limits}]}},
            "status": {
                "sandboxes": [{**sandbox(0), "state": "SANDBOX_READY", "ip": "10.0.0.1"}],
                "containers": [running],
            },
            "actuated": {"containers": {"web": {"limits": {"cpu": f" {cpu.strip()} "}}}},
        }

    assert decide(asking(" 100m  ")) == decide(asking("100m"))


def without(*path: str) -> dict[str, Any]:
    case: dict[str, Any] = json.loads(json.dumps(CASE))
    place = case
    for part in path[:-1]:
        place = place[part]
    del place[path[-1]]
    return case


INVALID = {
    "half an object": ("decide", '{"pod": ', "not JSON: Expecting value at column 8"),
    "a list": ("decide", "[1]", "a case is a JSON object, not [1]"),
    "no status": ("decide", json.dumps(without("status")), "status: required"),
    "no such probe result": ("decide", json.dumps({**CASE, "liveness": {"web": "fine"}}), "liveness.web: "),
    "no such state": (
        "decide",
        json.dumps({**CASE, "status": {"containers": [{"id": "a", "name": "web", "state": "asleep"}]}}),
        "status.containers[0].state: ",
    ),
    "a number for an image": (
        "decide",
        json.dumps({**CASE, "pod": {"spec": {"containers": [{"name": "web", "image": 7}]}}}),
        "pod.spec.containers[0].image: ",
    ),
    "no quantity": (
        "decide",
        json.dumps(
            {
                "pod": {"spec": {"containers": [{"name": "web", "resources": {"limits": {"cpu": "plenty"}}}]}},
                "status": {
                    "sandboxes": [{"id": "s", "attempt": 0, "state": "SANDBOX_READY"}],
                    "containers": [{"id": "a", "name": "web", "state": "running"}],
                },
            }
        ),
        "pod.spec.containers[0].resources.limits",
    ),
    "far too deep": ("decide", "[" * 100_000, ""),
    "an attempt that is not a uint32": (
        "decide",
        json.dumps({**CASE, "status": {"sandboxes": [sandbox(2**32)]}}),
        "status.sandboxes[0].attempt: ",
    ),
    "an exit code that is not an int32": (
        "decide",
        json.dumps({**CASE, "status": {"containers": [exited(2**31)]}}),
        "status.containers[0].exit_code: ",
    ),
    "a time after all times": (
        "backoff",
        json.dumps({"pod": {}, "events": [{"op": "gc", "at_ms": 10**18}]}),
        "events[0].gc.at_ms: ",
    ),
    "no such event": ("backoff", json.dumps({"pod": {}, "events": [{"op": "stop", "at_ms": 1}]}), "events[0]: "),
}
"""By name: a command, a line that it refuses, and its message about the line."""


@functools.cache
def answers_to_invalid_lines(kind: str) -> tuple[dict[str, Any], dict[str, tuple[str, Any, Any]]]:
    """Send a command its invalid lines in one run, with a good line before, between and after them.

    Returns what it answers to a good line at the beginning; and by name what it says of the invalid one, and what it
    answers to that and to the good one that follows.
    """
    good = json.dumps(CASE if kind == "decide" else {"pod": {}, "events": []}) + "\n"
    asked = {name: line for name, (of, line, _) in INVALID.items() if of == kind}
    done = run(kind, good + "".join(f"{line}\n{good}" for line in asked.values()))
    assert done.returncode == 2
    first, *answers = map(json.loads, done.stdout.splitlines())
    complaints = done.stderr.splitlines()
    assert len(complaints) == len(asked)
    return first, dict(zip(asked, zip(complaints, answers[::2], answers[1::2], strict=True), strict=True))


@pytest.mark.parametrize("name", INVALID)
def test_an_invalid_line_is_reported_in_one_sentence_and_the_others_are_answered(name: str) -> None:
    kind, _, sentence = INVALID[name]
    number = 2 * [each for each, (of, _, _) in INVALID.items() if of == kind].index(name) + 2
    before, answers = answers_to_invalid_lines(kind)
    complaint, bad, after = answers[name]
    assert before == after
    assert "error" not in before
    assert list(bad) == ["error"]
    assert complaint == f"line {number}: {bad['error']}"
    assert sentence in complaint


def test_a_line_that_is_not_utf_8_is_reported() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "syncpod.lifecycle", "phase"],
        input=b'{"pod": "\xff"}\n',
        capture_output=True,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert (done.returncode, done.stdout, done.stderr) == (2, b'{"error":"not UTF-8"}\n', b"line 1: not UTF-8\n")


def test_empty_input_and_blank_lines_give_no_answer() -> None:
    done = run("phase", "\n  \n")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_an_unknown_subcommand_is_refused() -> None:
    done = run("ponder", "")
    assert done.returncode == 2
    assert "decide" in done.stderr


@pytest.mark.parametrize("kind", KINDS)
def test_each_answer_is_flushed_at_once(kind: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "syncpod.lifecycle", kind],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
        cwd=Path(__file__).parents[2],
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for vector in vectors(KINDS[kind][0])[:2]:
            process.stdin.write(json.dumps(vector["case"]) + "\n")
            assert json.loads(process.stdout.readline()) == vector[KINDS[kind][1]]
        process.stdin.close()
        assert process.wait() == 0


def test_a_closed_output_pipe_causes_no_traceback() -> None:
    case = json.dumps(vectors("actions")[0]["case"]) + "\n"
    with subprocess.Popen(
        [sys.executable, "-m", "syncpod.lifecycle", "decide"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    ) as process:
        assert process.stdout is not None
        process.stdout.close()
        _, complaint = process.communicate(case * 3)
        assert (process.returncode, complaint) == (1, "")
