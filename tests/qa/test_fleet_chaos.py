"""The judge of a fleet under chaos reports wrong notes and wrong answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from qa.chaos.notes import parse
from qa.fleet_chaos.judge import Asked, CutOff, Death, Row, Verdict, answers, judge, restarts

ASKED = Asked(
    pods={"serves-0-n1": "n1", "loops-1-n2": "n2", "begins-2-n2": "n2"},
    copies={"web": 1, "keep": 1},
    container={"web": "v2", "keep": "web"},
    never_more=frozenset({"keep"}),
)
NOTES: dict[str, tuple[str, ...]] = {
    "serves-0-n1": ("START 10 a@n1 web a0 s 1 0 free", "START 130 a@n1 web a1 s 1 1 free"),
    "loops-1-n2": (
        "START 11 b@n2 web b0 s 1 0 free",
        "START 11 b@n2 fails f0 s 1 0 free",
        "END 12 b@n2 fails f0 s 1 0 3",
        "START 210 b@n2 fails f1 s 1 1 free",
        "END 212 b@n2 fails f1 s 1 1 3",
        "START 250 b@n2 web b1 s 1 1 free",
        "START 255 b@n2 fails f2 s 1 2 free",
        "END 256 b@n2 fails f2 s 1 2 3",
    ),
    "begins-2-n2": (
        "START 11 c@n2 first i0 s 1 0 free",
        "END 12 c@n2 first i0 s 1 0 0",
        "START 13 c@n2 web c0 s 1 0 free",
        "START 251 c@n2 web c1 s 1 1 free",
    ),
    "web-1": ("START 14 d@n1 v1 d0 s 1 0 free", "TERM 60 d@n1 v1 d0 s 1 0 -", "END 61 d@n1 v1 d0 s 1 0 0"),
    "web-2": ("START 55 e@n3 v2 e0 s 1 0 free",),
    "keep-1": ("START 15 f@n2 web k0 s 1 0 free",),
    "keep-2": ("START 320 g@n3 web l0 s 1 0 free",),
}
"""n1 died at 100; n2 was cut off from 200 to 300 and rebooted at 240; a copy of `keep` was made elsewhere."""
DEATHS = (Death("n1", 100), Death("n2", 240))
CUT = CutOff("n2", 200, 240, 300)
ALIVE = frozenset(
    {("serves-0-n1", "web"), ("loops-1-n2", "web"), ("begins-2-n2", "web"), ("web-2", "v2"), ("keep-2", "web")}
)
SANDBOXES = {
    "n1": Counter({"serves-0-n1": 1}),
    "n2": Counter({"loops-1-n2": 1, "begins-2-n2": 1}),
    "n3": Counter({"web-2": 1, "keep-2": 1}),
}


def judged(
    *more: tuple[str, str], without: str = "", alive: frozenset[tuple[str, str]] = ALIVE, **given: Any
) -> Verdict:
    """Judge the story with additional notes, by pod, and without the notes whose line begins with the given text."""
    lines = {pod: [line for line in said if not (without and line.startswith(without))] for pod, said in NOTES.items()}
    for pod, line in more:
        lines.setdefault(pod, []).append(line)
    notes = {pod: parse(said) for pod, said in lines.items()}
    facts: dict[str, Any] = {"deaths": DEATHS, "sandboxes": SANDBOXES, "cut_off": CUT, **given}
    return judge(notes, ASKED, alive=alive, **facts)


def rules(verdict: Verdict) -> list[str]:
    return sorted({violation.partition(":")[0] for violation in verdict.violations})


def test_a_fleet_that_did_what_was_asked_passes() -> None:
    verdict = judged()
    assert verdict.violations == []
    assert verdict.figures["most copies of keep at once"] == 1
    assert verdict.figures["restarts of crash loops on a node without a link"] == 2


def listed(node: str, pod: str, number: int = 1) -> dict[str, Counter[str]]:
    return {**SANDBOXES, node: SANDBOXES.get(node, Counter()) + Counter({pod: number})}


@pytest.mark.parametrize(
    ("rule", "given"),
    [
        ("two live instances", {"more": [("web-2", "START 70 e@n3 v2 e1 s 1 1 held")]}),
        ("two at once", {"more": [("web-2", "START 70 e@n3 v2 e1 s 1 1 free"),
                                  ("web-2", "END 80 e@n3 v2 e0 s 1 0 0")]}),
        ("two at once", {"deaths": DEATHS[1:], "more": [("serves-0-n1", "END 140 a@n1 web a0 s 1 0 0")]}),
        ("twins", {"more": [("serves-0-n1", "START 140 a2@n3 web x0 s 1 0 free"),
                            ("serves-0-n1", "END 141 a2@n3 web x0 s 1 0 0")]}),
        ("twins", {"without": "START 13", "more": [("begins-2-n2", "START 14 c@n3 web c0 s 1 0 free")]}),
        ("made anew", {"more": [("web-2", "START 40 e9@n3 v2 e9 s 1 0 free"),
                                  ("web-2", "END 41 e9@n3 v2 e9 s 1 0 0")]}),
        ("too many copies", {"more": [("keep-3", "START 230 h@n3 web h0 s 1 0 free"),
                                      ("keep-3", "END 231 h@n3 web h0 s 1 0 0")]}),
        ("lost", {"alive": ALIVE - {("serves-0-n1", "web")}}),
        ("lost", {"alive": ALIVE - {("web-2", "v2")}}),
        ("lost", {"alive": ALIVE - {("web-2", "v2")} | {("web-2", "v1")}}),
        ("doubled", {"alive": ALIVE | {("web-9", "v2")}, "sandboxes": listed("n1", "web-9")}),
        ("doubled", {"sandboxes": listed("n4", "web-2")}),
        ("left over", {"alive": ALIVE | {("serves-9-n9", "web")}, "sandboxes": listed("n1", "serves-9-n9")}),
        ("left over", {"alive": ALIVE | {("web-1", "v1")}, "sandboxes": listed("n1", "web-1")}),
        ("left over", {"sandboxes": listed("n4", "serves-7-n4")}),
        ("left over", {"sandboxes": {**SANDBOXES, "n1": Counter()}}),
        ("init order", {"without": "END 12 c"}),
        ("init order", {"without": "START 11 c"}),
        ("not restarted offline", {"without": "START 250"}),
        ("crash loop stood still", {"cut_off": replace(CUT, ended=252, began=220)}),
    ],
)  # fmt: skip
def test_each_planted_fault_is_found(rule: str, given: Mapping[str, Any]) -> None:
    given = dict(given)
    assert rule in rules(judged(*given.pop("more", ()), **given))


ROWS = (
    Row("serves-0-n1", "1/1", "Running", 1, "n1"),
    Row("loops-1-n2", "1/2", "CrashLoopBackOff", 3, "n2"),
    Row("begins-2-n2", "1/1", "Running", 1, "n2"),
    Row("web-2", "1/1", "Running", 0, "n3"),
    Row("keep-2", "1/1", "Running", 0, "n3"),
)
COUNTED = restarts({pod: parse(lines) for pod, lines in NOTES.items()}, ASKED)


def test_an_earlier_life_of_a_pod_adds_no_restarts() -> None:
    """A node that was cut off for a short time had begun a copy, and the fleet places it anew under its name."""
    lives = (*NOTES["keep-1"], "START 20 f@n2 web k1 s 1 1 free", "START 330 h@n3 web l1 s 1 0 free")
    assert restarts({"keep-1": parse(lives), "keep-3": parse(())}, ASKED) == {"keep-1": 0, "keep-3": 0}


def test_a_pod_that_its_node_stopped_and_ran_again_begins_with_no_restarts() -> None:
    """Under the same UID on the same node. Only the pods of such a Deployment may begin anew."""
    starts = ("START 15 f@n2 web k0 s 1 0 free", "START 20 f@n2 web k1 s 1 1 free", "START 30 f@n2 web k2 s 1 0 free")
    again = (*starts, "START 40 f@n2 web k3 s 1 1 free")
    lives = {"keep-1": parse(starts), "keep-2": parse(again), "web-1": parse(starts)}
    assert restarts(lives, ASKED) == {"keep-1": 0, "keep-2": 1, "web-1": 2}


def test_a_start_that_a_death_cut_off_may_have_used_up_a_number() -> None:
    """At most one by each death of that node, and none at any other time."""
    starts = ("START 90 a@n1 web a0 s 1 0 free", "START 130 a@n1 web a1 s 1 3 free", "START 140 a@n1 web a1 s 1 9 free")
    lives = {"serves-0-n1": parse(starts)}
    assert restarts(lives, ASKED) == {"serves-0-n1": 2}
    assert restarts(lives, ASKED, DEATHS) == {"serves-0-n1": 3}


def test_true_answers_pass() -> None:
    assert answers(ROWS, ASKED, COUNTED, COUNTED) == []


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (ROWS[1:], "serves-0-n1 is not listed"),
        ((*ROWS, ROWS[0]), "serves-0-n1 is listed 2 times"),
        ((*ROWS, Row("serves-9-n9", "1/1", "Running", 0, "n9")), "serves-9-n9 is listed, and nobody asks for it"),
        ((replace(ROWS[0], node="n2"), *ROWS[1:]), "serves-0-n1 is said to be on n2"),
        ((replace(ROWS[0], status="Unknown"), *ROWS[1:]), "serves-0-n1 is Unknown"),
        ((replace(ROWS[0], ready="0/1"), *ROWS[1:]), "serves-0-n1 is 0/1, Running"),
        ((replace(ROWS[0], restarts=0), *ROWS[1:]),
         "serves-0-n1 is said to have 0 restarts; its containers noted 1 to 1"),
        (ROWS[:-1], "keep has 0 pods of 1"),
    ],
)  # fmt: skip
def test_each_wrong_answer_is_found(rows: tuple[Row, ...], said: str) -> None:
    assert said in answers(rows, ASKED, COUNTED, COUNTED)
