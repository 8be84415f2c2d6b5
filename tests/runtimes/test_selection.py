"""The runtimes of each test: mostly one, all if the test depends on the runtime, or those that are requested."""

from __future__ import annotations

import pytest

from tests.runtimes.selection import PREFERRED, RUNTIMES, Containerds, runs

ALL = frozenset(RUNTIMES)
USUAL = ALL - {"containerd24"}
ON_CONTAINERD = frozenset({"containerd16", "containerd24"})


def chosen(
    *,
    among: frozenset[str] = ALL,
    everywhere: bool = False,
    containerds: Containerds = Containerds.THAT_DIFFER,
    here: tuple[str, ...] = PREFERRED,
    asked: str = "",
) -> set[str]:
    """The runtimes on which a test runs."""
    return {
        name
        for name in among
        if runs(name, among=among, everywhere=everywhere, containerds=containerds, here=here, asked=asked)
    }


def test_a_test_runs_on_the_containerd_with_long_support() -> None:
    assert chosen() == {"containerd23"}


@pytest.mark.parametrize("preferred", ["containerd24", "containerd16"])
def test_without_it_a_test_runs_on_the_next_one(preferred: str) -> None:
    assert chosen(here=(preferred, "embedded")) == {preferred}


def test_without_containerd_a_test_runs_on_the_embedded_runtime() -> None:
    assert chosen(here=("embedded",)) == {"embedded"}


def test_a_test_that_excludes_the_preferred_runtime_runs_on_another() -> None:
    assert chosen(among=frozenset({"embedded", "containerd16"})) == {"containerd16"}


def test_a_test_without_a_runtime_on_this_machine_is_kept_and_skipped() -> None:
    assert chosen(among=ON_CONTAINERD, here=("embedded",)) == {"containerd24"}


def test_a_runtime_dependent_test_runs_on_every_runtime_and_on_one_containerd_of_those_alike() -> None:
    assert chosen(everywhere=True) == chosen(everywhere=True, here=("embedded",)) == USUAL
    without = ("containerd24", "containerd16", "embedded")
    assert chosen(everywhere=True, here=without) == ALL - {"containerd23"}
    assert chosen(everywhere=True, among=ON_CONTAINERD) == ON_CONTAINERD


def test_a_test_independent_of_the_containerd_version_runs_on_one_containerd_and_all_other_runtimes() -> None:
    one, others = Containerds.ONE, frozenset({"embedded", "crio"})
    assert chosen(everywhere=True, containerds=one) == others | {"containerd23"}
    assert chosen(everywhere=True, containerds=one, here=("containerd16", "embedded")) == others | {"containerd16"}
    only_old = frozenset({"embedded", "containerd16"})
    assert chosen(everywhere=True, containerds=one, among=only_old) == only_old
    assert chosen(everywhere=True, containerds=one, asked="all") == ALL


def test_a_test_of_each_containerd_runs_on_each() -> None:
    assert chosen(everywhere=True, containerds=Containerds.EACH) == ALL
    assert chosen(everywhere=True, containerds=Containerds.EACH, asked="containerd16") == {"containerd16"}


@pytest.mark.parametrize("everywhere", [False, True])
def test_only_requested_runtimes_are_used(everywhere: bool) -> None:
    assert chosen(everywhere=everywhere, asked="crio") == {"crio"}
    assert chosen(everywhere=everywhere, asked="embedded, crio") == {"embedded", "crio"}
    assert chosen(everywhere=everywhere, asked="crio", among=ON_CONTAINERD) == set()


def test_requesting_all_runs_every_test_on_every_runtime_it_supports() -> None:
    assert chosen(asked="all") == ALL
    assert chosen(asked="all", among=ON_CONTAINERD) == ON_CONTAINERD
