"""The recorded decisions of kubelet 1.37.2 are for the cases that `qa.vectors` draws, and include new behaviour."""

import json
from typing import Any

import pytest

from qa.vectors.__main__ import COUNTS
from qa.vectors.cases import cases
from qa.vectors.recorder import Kind
from syncpod.lifecycle.cases import decide
from tests.lifecycle.test_vectors import KINDS, vectors

VERSION = "1.37.2"
FEWEST = 15
"""The least number of cases of each outcome in a recording."""


@pytest.mark.parametrize("kind", COUNTS)
def test_a_recording_is_about_the_cases_of_seed_0(kind: Kind) -> None:
    drawn = [json.loads(line) for line in cases(kind, COUNTS[kind], VERSION, seed=0).splitlines()]
    assert [vector["case"] for vector in vectors(kind, VERSION)] == drawn


def outcomes(actions: dict[str, Any]) -> set[str]:
    found = {name for name, value in actions.items() if value not in ("", [], {}, False)}
    found |= {
        f"kill {kill['reason'] or kill['message'].split()[-1]}" for kill in actions["containers_to_kill"].values()
    }
    found |= {f"update {resource}" for resource in actions["containers_to_update"]}
    if message := actions["sandbox_not_ready"]:
        found.add(message)
    return found


def test_every_outcome_of_a_sync_is_recorded_often() -> None:
    often: dict[str, int] = {}
    for vector in vectors("actions", VERSION):
        for outcome in outcomes(vector["actions"]):
            often[outcome] = often.get(outcome, 0) + 1
    assert {outcome: count for outcome, count in often.items() if count < FEWEST} == {}
    kills = {
        "kill LivenessProbe",
        "kill StartupProbe",
        "kill Unknown",
        "kill restart",
        "kill changed",
        "kill restarted",
    }
    assert set(often) >= {
        *("kill_pod", "create_sandbox", "sandbox_id", "attempt", "containers_to_reset"),
        *("init_containers_to_start", "containers_to_start", "ephemeral_containers_to_start"),
        *("update_pod_resources", "update_pod_level_resources", "update memory", "update cpu"),
        *kills,
    }


def test_the_two_kubelets_differ_in_cases_that_are_recorded() -> None:
    def of_before(case: dict[str, Any]) -> dict[str, Any]:
        return decide({**case, "kubelet": "1.36"})

    before = {vector["case"]["name"]: of_before(vector["case"]) for vector in vectors("actions", VERSION)}
    changed: dict[str, int] = {}
    for vector in vectors("actions", VERSION):
        old = before[vector["case"]["name"]]
        for field in (name for name in old if old[name] != vector["actions"][name]):
            changed[field] = changed.get(field, 0) + 1
    assert min(changed[field] for field in ("init_containers_to_start", "update_pod_resources")) >= FEWEST


def test_each_kind_of_case_is_one_that_the_command_answers() -> None:
    assert {file for file, _, _ in KINDS.values()} == set(COUNTS)
