"""Which tests run where: each on one runtime, on every one what depends on it, and what somebody asks for."""

from __future__ import annotations

import pytest

from tests.runtimes.selection import ONLY_IF_ASKED, PREFERRED, RUNTIMES, runs

ALL = frozenset(RUNTIMES) - ONLY_IF_ASKED
ON_CONTAINERD = frozenset({"containerd16", "containerd24"})


def chosen(
    *,
    among: frozenset[str] = ALL,
    everywhere: bool = False,
    one_containerd: bool = False,
    here: tuple[str, ...] = PREFERRED,
    asked: str = "",
) -> set[str]:
    """Those runtimes that a test runs on."""
    return {
        name
        for name in among
        if runs(name, among=among, everywhere=everywhere, one_containerd=one_containerd, here=here, asked=asked)
    }


def test_a_test_runs_on_the_newest_containerd() -> None:
    assert chosen() == {"containerd24"}


def test_without_containerd_a_test_runs_on_the_embedded_runtime() -> None:
    assert chosen(here=("embedded",)) == {"embedded"}


def test_a_test_that_excludes_the_preferred_runtime_runs_on_another() -> None:
    assert chosen(among=frozenset({"embedded", "containerd16"})) == {"containerd16"}


def test_a_test_without_a_runtime_on_this_machine_is_kept_and_skipped() -> None:
    assert chosen(among=ON_CONTAINERD, here=("embedded",)) == {"containerd24"}


def test_a_runtime_dependent_test_runs_on_every_runtime() -> None:
    assert chosen(everywhere=True) == chosen(everywhere=True, here=("embedded",)) == ALL


def test_a_test_independent_of_the_containerd_version_runs_on_one_containerd_and_all_other_runtimes() -> None:
    assert chosen(everywhere=True, one_containerd=True) == ALL - {"containerd16"}
    assert chosen(everywhere=True, one_containerd=True, here=("containerd16", "embedded")) == ALL - {"containerd24"}
    only_old = frozenset({"embedded", "containerd16"})
    assert chosen(everywhere=True, one_containerd=True, among=only_old) == only_old
    assert chosen(everywhere=True, one_containerd=True, asked="all") == ALL


@pytest.mark.parametrize("everywhere", [False, True])
def test_the_containerd_with_long_support_is_used_only_if_it_is_asked_for_or_the_only_one(everywhere: bool) -> None:
    every = frozenset(RUNTIMES)
    assert "containerd23" not in chosen(everywhere=everywhere, among=every)
    assert chosen(everywhere=everywhere, among=every, asked="containerd23") == {"containerd23"}
    assert chosen(everywhere=everywhere, among=every, asked="all") == every
    assert chosen(everywhere=everywhere, among=frozenset({"containerd23"})) == {"containerd23"}


@pytest.mark.parametrize("everywhere", [False, True])
def test_only_requested_runtimes_are_used(everywhere: bool) -> None:
    assert chosen(everywhere=everywhere, asked="crio") == {"crio"}
    assert chosen(everywhere=everywhere, asked="embedded, crio") == {"embedded", "crio"}
    assert chosen(everywhere=everywhere, asked="crio", among=ON_CONTAINERD) == set()


def test_requesting_all_runs_every_test_on_every_runtime_it_supports() -> None:
    assert chosen(asked="all") == ALL
    assert chosen(asked="all", among=ON_CONTAINERD) == ON_CONTAINERD
