"""Each kind of workload has a row of traits, and an object that reads its documents and decides."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, get_args

import pytest
from typing_extensions import override

import syncpod.cli
from syncpod.fleet import workloads
from syncpod.fleet.deployments import Deployments
from syncpod.fleet.members import Member
from syncpod.fleet.pod_names import Numbered
from syncpod.fleet.rollout import RolloutState
from syncpod.fleet.when_lost import Action
from syncpod.fleet.workload_kinds import Situation, TemplatedKind
from syncpod.fleet.workload_pods import is_name_for, number_of
from syncpod.fleet.workload_traits import DEPLOYMENT, KINDS, TEMPLATED, is_per_node
from syncpod.fleet.workloads import admit_workload, kind_of
from syncpod.messages.workload import WorkloadSummary, WorkloadView
from syncpod.pod import PodInvalid
from tests.fleet.test_workload_documents import changed

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_each_kind_has_an_object_whose_documents_have_its_name() -> None:
    assert {name: kind.traits for name, kind in workloads._KINDS.items()} == KINDS
    templated = {name: kind for name, kind in workloads._KINDS.items() if isinstance(kind, TemplatedKind)}
    assert [*templated] == [*TEMPLATED]
    for name, kind in templated.items():
        assert name == kind.model.model_fields["kind"].annotation.__args__[0]
    assert {one.model_fields["kind"].annotation.__args__[0] for one in get_args(workloads.Workload)} == {*KINDS}


@pytest.mark.parametrize("kind", KINDS)
def test_each_pod_of_a_kind_has_a_name_that_its_workload_knows_again(kind: str) -> None:
    workload = admit_workload(changed(kind) if kind != "Pod" else single()).workload
    names = KINDS[kind].names
    number = next(names.free_numbers(0, ()))
    made = kind_of(workload).pod(workload, kind_of(workload).template(workload), number)
    assert number_of(workload, made.metadata.name) == (0 if names.is_shared else number)
    assert is_name_for(f"workload/{kind}/default/web", "default", made.metadata.name)


def single() -> dict[str, Any]:
    """A Pod named web."""
    spec = {"containers": [{"name": "main", "image": "registry.local/web:1"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "default"}, "spec": spec}


class Ordinals(Numbered):
    """The names of a StatefulSet: ``web-0``, ``web-1``, each of which is reused."""

    is_passed_over = False

    @override
    def number(self, workload: str, name: str) -> int | None:
        return 0 if name == f"{workload}-0" else super().number(workload, name)

    @override
    def free_numbers(self, last: int, taken: Collection[int]) -> Iterator[int]:
        return (number for number in count() if number not in taken)


def ordinals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the pods of Deployments an identity, like those of a StatefulSet."""
    rules: tuple[Action, ...] = ("wait", "stop-after")
    why = "of whose pods none may run twice"
    other = replace(DEPLOYMENT, names=Ordinals(), lost_rules=rules, lost_why=why)
    monkeypatch.setitem(KINDS, "Deployment", other)
    monkeypatch.setattr(Deployments, "traits", other)


def test_the_row_of_a_kind_decides_how_its_pods_are_numbered(monkeypatch: pytest.MonkeyPatch) -> None:
    ordinals(monkeypatch)
    deployment = admit_workload(changed()).workload
    assert [number_of(deployment, name) for name in ("web-0", "web-1", "web-01", "web")] == [0, 1, None, None]
    kind = kind_of(deployment)
    assert kind.pod(deployment, kind.template(deployment), 0).metadata.name == "web-0"
    assert is_name_for("workload/Deployment/default/web", "default", "web-0")
    there = [Member(f"web-{number}", "a", NOW, number=number) for number in (1, 4)]
    decided = kind.decide(deployment, Situation(there, RolloutState(), numbered=4), NOW)
    assert [each.number for each in decided.create] == [0, 2], "the lowest free numbers of such a kind"


def test_the_row_of_a_kind_decides_which_rules_it_has_for_a_lost_node(monkeypatch: pytest.MonkeyPatch) -> None:
    document = changed(metadata__annotations={"syncpod.dev/when-lost": "replace-after=5m"})
    admit_workload(document)
    ordinals(monkeypatch)
    with pytest.raises(PodInvalid, match="wait or stop-after=DURATION in a Deployment, of whose pods none may run tw"):
        admit_workload(document)


@pytest.mark.parametrize(
    ("kind", "undecided", "decided", "is_replaced"),
    [("Deployment", 3, 3, True), ("DaemonSet", 0, 5, False), ("Pod", 1, 1, True)],
)
def test_each_kind_says_how_many_pods_there_shall_be_and_which_are_replaced_elsewhere(
    kind: str, undecided: int, decided: int, is_replaced: bool
) -> None:
    document = changed(kind) if kind != "Pod" else single()
    document["metadata"] = {**document["metadata"], "annotations": {"syncpod.dev/when-lost": "stop-after=5m"}}
    workload = admit_workload(document).workload
    of_kind = kind_of(workload)
    assert [of_kind.desired(workload, count) for count in (None, 5)] == [undecided, decided]
    lost = Member("web-1", "a", NOW, "n1", presence="Unknown", unknown_since=NOW)
    assert (of_kind.replaced_at(workload, lost) is not None) == is_replaced


def test_the_counts_that_a_kind_shows_are_those_of_a_workload() -> None:
    for traits in KINDS.values():
        assert all(cell.format(one=WorkloadSummary(desired=3)) for _, cell in traits.columns)
        assert {count for _, count in traits.status} <= {*WorkloadView.model_fields}


def test_what_is_no_kind_of_workload_is_on_no_node() -> None:
    assert [kind for kind in ("", "Job", *KINDS) if is_per_node(kind)] == ["DaemonSet"]


def test_a_text_of_the_command_that_lists_the_kinds_of_a_fleet_lists_all() -> None:
    found = [[kind for kind in TEMPLATED if kind.lower() in text.lower()] for text in texts()]
    listing = [kinds for kinds in found if len(kinds) > 1]
    assert len(listing) >= 3, "none is found any more"
    assert all(kinds == [*TEMPLATED] for kinds in listing)


def texts() -> Iterator[str]:
    """Every text in the modules of the command."""
    for path in Path(next(iter(syncpod.cli.__path__))).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value
