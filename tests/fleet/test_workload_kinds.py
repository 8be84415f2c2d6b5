"""Each kind of workload has a row of traits, a reader of its documents and an object that decides."""

from __future__ import annotations

from syncpod.fleet import workload_documents, workload_kinds
from syncpod.fleet.workload_traits import KINDS, TEMPLATED, is_per_node
from syncpod.messages.workload import WorkloadSummary, WorkloadView


def test_each_kind_has_an_object_that_decides_and_each_with_a_template_a_reader() -> None:
    assert {*workload_kinds._KINDS} == {*KINDS}
    assert {*workload_documents._READERS} == {*TEMPLATED}
    assert all(name == each.model.model_fields["kind"].annotation.__args__[0]
               for name, each in workload_documents._READERS.items())  # fmt: skip


def test_the_counts_that_a_kind_shows_are_those_of_a_workload() -> None:
    for traits in KINDS.values():
        assert all(cell.format(one=WorkloadSummary(desired=3)) for _, cell in traits.columns)
        assert {count for _, count in traits.status} <= {*WorkloadView.model_fields}


def test_what_is_no_kind_of_workload_is_on_no_node() -> None:
    assert [kind for kind in ("", "Job", *KINDS) if is_per_node(kind)] == ["DaemonSet"]
